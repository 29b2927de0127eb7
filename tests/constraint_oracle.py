"""The rules of a schema in plain Python: slow, obvious, and written from the rules rather than from the evaluator."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from omnigraph.catalog.entity_ids import canonical_text
from omnigraph.catalog.model import EdgeType, Scalar


@dataclass(frozen=True, slots=True)
class Expected:
    """A violation as far as it does not depend on where its row came from."""

    rule: str
    type_name: str
    property: str | None
    value: str | None
    message: str


def expected_messages(catalog, stored, changes):
    """The messages of all violations, in order; takes what :func:`expected_violations` does."""
    return [found.message for found in expected_violations(catalog, stored, changes)]


def expected_violations(catalog, stored, changes):
    """All violations, in order.

    ``stored`` maps type names to rows; ``changes`` maps them to (rows, deletes, replaces_all). Rows are dictionaries.
    """
    oracle = _Oracle(catalog, stored, changes)
    nodes = [catalog.nodes[name] for name in sorted(catalog.nodes)]
    edges = [catalog.edges[name] for name in sorted(catalog.edges)]
    for owner in [*nodes, *edges]:
        oracle.rows(owner)
    for owner in nodes:
        oracle.unique(owner)
    for owner in edges:
        oracle.unique(owner)
        oracle.endpoints(owner)
        oracle.cardinality(owner)
    return oracle.found


class _Oracle:
    def __init__(self, catalog, stored, changes):
        self.catalog = catalog
        self.stored = {name: {row["id"]: row for row in rows} for name, rows in stored.items()}
        self.changes = changes
        self.found = []

    def add(self, rule, owner, name, value, message):
        self.found.append(Expected(rule, owner.name, name, value, message))

    def change(self, name):
        return self.changes.get(name, ([], (), False))

    def image(self, name):
        return {row["id"]: row for row in self.change(name)[0]}

    def survivors(self, name):
        """Stored rows that the change leaves exactly as they are."""
        _, deletes, replaces_all = self.change(name)
        if replaces_all:
            return {}
        image = self.image(name)
        return {
            key: row for key, row in self.stored.get(name, {}).items() if key not in image and key not in set(deletes)
        }

    def after(self, name):
        return {**self.survivors(name), **self.image(name)}

    def rows(self, owner):
        rows = self.change(owner.name)[0]
        for prop in owner.properties:
            missing = 0 if prop.type.nullable else sum(row.get(prop.name) is None for row in rows)
            text = f"non-nullable property '{prop.name}' of {owner.name} has null or invalid values"
            for _ in range(missing):
                self.add("required", owner, prop.name, None, text)
        if not isinstance(owner, EdgeType):
            self._values(owner, rows)
        for prop in owner.properties:
            known = prop.type.enum_values
            for value in () if known is None else _values(rows, prop.name):
                if value not in known:
                    start = f"invalid enum value '{value}' for {owner.name}.{prop.name}"
                    self.add("enum", owner, prop.name, value, f"{start} (expected: {', '.join(known)})")

    def _values(self, owner, rows):
        for rule in owner.ranges:
            for value, text in _out_of_range(owner, rule, _values(rows, rule.property)):
                self.add("range", owner, rule.property, str(value), text)
        for rule in owner.checks:
            for value in _values(rows, rule.property):
                if not re.search(rule.pattern, value):
                    start = f"@check violation on {owner.name}.{rule.property}: value '{value}'"
                    self.add("check", owner, rule.property, value, f"{start} does not match pattern '{rule.pattern}'")

    def unique(self, owner):
        rows = self.change(owner.name)[0]
        lists = [] if owner.key is None else [tuple(sorted(owner.key))]
        lists += [columns for columns in owner.uniques if owner.key is None or set(columns) != set(owner.key)]
        for columns in lists:
            holders = {}
            for row in rows:
                value = _tuple(owner, row, columns)
                if value is not None and value in holders:
                    self._clash(owner, columns, value, holders[value], row["id"])
                elif value is not None:
                    holders[value] = row["id"]
            if owner.key is not None and set(columns) == set(owner.key):
                continue
            survivors = self.survivors(owner.name)
            last = {row["id"]: at for at, row in enumerate(rows)}
            for at, row in enumerate(rows):
                value = _tuple(owner, row, columns)
                if last[row["id"]] != at or value is None:
                    continue
                others = [key for key, held in survivors.items() if _tuple(owner, held, columns) == value]
                if others:
                    self._clash(owner, columns, value, min(others), row["id"])

    def _clash(self, owner, columns, value, other, holder):
        label = columns[0] if len(columns) == 1 else f"({', '.join(columns)})"
        shown = value[0] if len(columns) == 1 else f"({', '.join(value)})"
        rule = "key" if owner.key is not None and set(columns) == set(owner.key) else "unique"
        held = "occurs twice" if rule == "key" else f"held by '{other}' and '{holder}'"
        text = f"@{rule} violation on {owner.name}.{label}: value '{shown}' {held}"
        self.add(rule, owner, label, shown, text)

    def endpoints(self, owner):
        rows = self.change(owner.name)[0]
        last = {row["id"]: at for at, row in enumerate(rows)}
        ends = (("src", owner.from_type), ("dst", owner.to_type))
        for at, row in enumerate(rows):
            if last[row["id"]] == at:
                self._missing(owner, row, ends)
        for key, row in sorted(self.survivors(owner.name).items()):
            self._missing(owner, row, ends, kept=key)

    def _missing(self, owner, row, ends, kept=None):
        for end, node in ends:
            if row[end] not in self.after(node):
                text = f"{end} '{row[end]}' not found in {node}"
                if kept is None:
                    self.add("endpoint", owner, end, row[end], text)
                else:
                    self.add("orphan", owner, end, row[end], f"{text}, used by edge {kept!r}")

    def cardinality(self, owner):
        minimum, maximum = owner.cardinality.minimum, owner.cardinality.maximum
        rows, deletes, replaces_all = self.change(owner.name)
        touched = {row["src"] for row in self.image(owner.name).values()}
        if not replaces_all:
            stored = self.stored.get(owner.name, {})
            touched |= {stored[key]["src"] for key in {*(row["id"] for row in rows), *deletes} if key in stored}
        gone = self.stored.get(owner.from_type, {}).keys() - self.after(owner.from_type).keys()
        gone |= set(self.change(owner.from_type)[1])
        counts = Counter(row["src"] for row in self.after(owner.name).values())
        for source in sorted(touched - gone):
            number = counts[source]
            start = f"@card violation on edge {owner.name}: source '{source}' has {number} edges"
            if number < minimum:
                self.add("cardinality", owner, "src", source, f"{start} (min {minimum})")
            elif maximum is not None and number > maximum:
                self.add("cardinality", owner, "src", source, f"{start} (max {maximum})")


def _values(rows, name):
    return [row[name] for row in rows if row.get(name) is not None]


def _out_of_range(owner, rule, values):
    for value in values:
        start = f"@range violation on {owner.name}.{rule.property}: value {value}"
        if rule.low is not None and value < rule.low:
            yield value, f"{start} < min {rule.low}"
        elif rule.high is not None and value > rule.high:
            yield value, f"{start} > max {rule.high}"


def _tuple(owner, row, columns):
    values = []
    for column in columns:
        prop = owner.get(column)
        value = row.get(column)
        if value is None:
            return None
        values.append(canonical_text(Scalar.STRING if prop is None else prop.type.scalar, value))
    return tuple(values)
