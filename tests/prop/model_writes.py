"""A graph as plain dictionaries, and what mutations, batches of calls and loads mean on it, errors included.

Rules are left to the oracle, which is plain Python as well; what is here is the order in which things are refused.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.constraint_graph import catalog_of
from tests.constraint_oracle import expected_violations
from tests.prop.model_mutations import OPS, Delete, Insert, Update

SCHEMA = """
node Person {
    name: String @key
    city: String
    age: I32?
    email: String? @unique
    mood: enum(glad, sad)?
    first: String?
    last: String?
    @range(age, 0..9)
    @check(city, "^[a-z]")
    @unique(first, last)
}
node Note { text: String?  n: I32? }
edge Knows: Person -> Person @card(0..2) { n: I32? }
edge Likes: Person -> Note { n: I32?  @key(src, dst) }
edge Pins: Person -> Note @card(1..1) { n: I32? }
"""
SEED = """
{"type": "Person", "data": {"name": "a", "city": "x", "age": 1, "email": "e1"}}
{"type": "Person", "data": {"name": "b", "city": "y", "first": "f", "last": "l"}}
{"type": "Person", "data": {"name": "c", "city": "y"}}
{"type": "Note", "data": {"id": "n1", "text": "s", "n": 1}}
{"type": "Note", "data": {"id": "n2"}}
{"edge": "Knows", "from": "a", "to": "b", "data": {"id": "k1", "n": 1}}
{"edge": "Likes", "from": "a", "to": "n1"}
{"edge": "Pins", "from": "b", "to": "n2", "data": {"id": "k2"}}
"""
CATALOG = catalog_of(SCHEMA)
PROPERTIES = {
    "Person": ("name", "city", "age", "email", "mood", "first", "last"),
    "Note": ("text", "n"),
    "Knows": ("n",),
    "Likes": ("n",),
    "Pins": ("n",),
}
ENDS = {"Knows": ("Person", "Person"), "Likes": ("Person", "Note"), "Pins": ("Person", "Note")}
NUMBERS = ("age", "n")
MADE = ("Note", "Knows", "Pins")
REQUIRED = ("name", "city", "src", "dst")

Row = dict[str, Any]
Tables = dict[str, dict[str, Row]]
Statement = Insert | Update | Delete


@dataclass(frozen=True)
class Refusal:
    """An error: its code, and for rows that break a rule how often which rule of which property is broken by what."""

    code: str
    broken: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    taken: dict[str, set[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What a write does: it is refused, or it leaves a graph, with or without a commit."""

    tables: Tables
    refusal: Refusal | None = None
    has_commit: bool = False
    nodes: int = 0
    edges: int = 0


def mutate(stored: Tables, statements: list[Statement]) -> Outcome:
    """Return what statements do one after the other; calls of a batch are simply more of them."""
    if any(value is None and name in REQUIRED for item in statements for name, value in _assigned(item).items()):
        return Outcome(stored, Refusal("query.meaning"))
    run = _Run(copy.deepcopy(stored))
    for statement in statements:
        run.apply(statement)
    changes = {}
    for kind, rows in run.tables.items():
        written = [{"id": key, **rows[key]} for key in run.written[kind] if key in rows]
        gone = tuple(sorted(stored[kind].keys() - rows.keys()))
        if written or gone:
            changes[kind] = (written, gone, False)
    refusal = _broken(stored, changes)
    if refusal is not None:
        return Outcome(stored, refusal)
    return Outcome(run.tables, None, bool(changes), run.nodes, run.edges)


def load(stored: Tables, mode: str, rows: list[Row]) -> Outcome:
    """Return what loading envelopes does; ``patch`` is a merge that keeps what a row does not mention."""
    is_patch = mode == "patch"
    bad = Counter(problem for line, row in enumerate(rows, 1) for problem in _bad(row, line, is_patch=is_patch))
    if bad:
        return Outcome(stored, Refusal("load.bad_rows", bad))
    parsed = [_parsed(row, number, stored, is_patch=is_patch) for number, row in enumerate(rows)]
    lacking = Counter(
        ("required", "Person", "city", line)
        for line, (kind, _, row) in enumerate(parsed, 1)
        if kind == "Person" and row["city"] is None
    )
    if lacking:
        return Outcome(stored, Refusal("load.bad_rows", lacking))
    by_kind: dict[str, list[Row]] = {}
    for kind, key, row in parsed:
        by_kind.setdefault(kind, []).append({"id": key, **row})
    taken = {kind: {row["id"] for row in found} & stored[kind].keys() for kind, found in by_kind.items()}
    if mode == "append" and any(taken.values()):
        return Outcome(stored, Refusal("storage.key_exists", taken=taken))
    changes = {kind: (found, (), mode == "overwrite") for kind, found in by_kind.items()}
    refusal = _broken(stored, changes)
    if refusal is not None:
        return Outcome(stored, refusal)
    repeated = {kind: {key for key, count in _count_ids(found).items() if count > 1} for kind, found in by_kind.items()}
    if mode in {"append", "overwrite"} and any(repeated.values()):
        return Outcome(stored, Refusal("storage.key_exists", taken=repeated))
    after = copy.deepcopy(stored)
    for kind, found in by_kind.items():
        kept = {} if mode == "overwrite" else after[kind]
        after[kind] = kept | {row["id"]: {name: row[name] for name in row if name != "id"} for row in found}
    return Outcome(after, None, bool(rows))


@dataclass
class _Run:
    tables: Tables
    # In the order of the last write.
    written: dict[str, dict[str, None]] = field(default_factory=lambda: {kind: {} for kind in PROPERTIES})
    nodes: int = 0
    edges: int = 0

    def apply(self, statement: Statement) -> None:
        match statement:
            case Insert(kind, values):
                whole = dict.fromkeys((*(("src", "dst") if kind in ENDS else ()), *PROPERTIES[kind]))
                self._put(kind, _key(kind, values, f"*{self.nodes}.{self.edges}"), whole | values)
            case Update(kind, values):
                for key in self._matching(statement):
                    self._put(kind, key, self.tables[kind][key] | values)
            case Delete(kind):
                gone = self._matching(statement)
                for key in gone:
                    self._remove(kind, key)
                for edge, ends in ENDS.items():
                    sides = [side for side, node in zip(("src", "dst"), ends, strict=True) if node == kind]
                    rows = self.tables[edge].items()
                    for key in [key for key, row in rows if any(row[side] in gone for side in sides)]:
                        self._remove(edge, key)

    def _put(self, kind: str, key: str, row: Row) -> None:
        self.tables[kind][key] = row
        self.written[kind].pop(key, None)
        self.written[kind][key] = None
        self._count(kind)

    def _remove(self, kind: str, key: str) -> None:
        del self.tables[kind][key]
        self._count(kind)

    def _count(self, kind: str) -> None:
        self.nodes += kind not in ENDS
        self.edges += kind in ENDS

    def _matching(self, statement: Update | Delete) -> list[str]:
        column = {"from": "src", "to": "dst"}.get(statement.column, statement.column)
        return [
            key
            for key, row in self.tables[statement.type].items()
            if row[column] is not None
            and statement.value is not None
            and OPS[statement.op](row[column], statement.value)
        ]


def _assigned(statement: Statement) -> Row:
    return {} if isinstance(statement, Delete) else statement.values


def _key(kind: str, row: Row, made: str) -> str:
    if kind == "Person":
        return str(row["name"])
    if kind == "Likes":
        return json.dumps([row["src"], row["dst"]], separators=(",", ":"))
    return made


def _broken(stored: Tables, changes: dict[str, Any]) -> Refusal | None:
    before = {kind: [{"id": key, **row} for key, row in rows.items()] for kind, rows in stored.items()}
    found = expected_violations(CATALOG, before, changes)
    if not found:
        return None
    broken = Counter((item.rule, item.type_name, item.property, item.value) for item in found)
    return Refusal("constraint.violated", broken)


def _bad(row: Row, line: int, *, is_patch: bool) -> list[tuple[Any, ...]]:
    kind, data = row.get("type") or row["edge"], row["data"]
    for name in PROPERTIES[kind]:
        value = data.get(name)
        if name in NUMBERS and value is not None and type(value) is not int:
            return [("type", kind, name, line)]
        if name == "name" and name not in data:
            return [("required", kind, name, line)]
        if name == "city" and name not in data and not is_patch:
            return [("required", kind, name, line)]
    return []


def _parsed(row: Row, number: int, stored: Tables, *, is_patch: bool) -> tuple[str, str, Row]:
    kind, data = row.get("type") or row["edge"], row["data"]
    ends = {"src": row["from"], "dst": row["to"]} if kind in ENDS else {}
    key = _key(kind, {**data, **ends}, data.get("id", f"*{number}"))
    old = stored[kind].get(key, {}) if is_patch else {}
    return kind, key, {**ends, **{name: data.get(name, old.get(name)) for name in PROPERTIES[kind]}}


def _count_ids(rows: list[Row]) -> Counter[str]:
    return Counter(row["id"] for row in rows)
