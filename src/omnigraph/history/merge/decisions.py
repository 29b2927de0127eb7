"""Decisions about conflicts: one for an entity or for a property of it, read from rows and held against what is there.

A decision is a row in the form that conflicts are written in, with its ``resolution`` filled in. It carries what the
sides had when it was made, so that it is refused when they have something else by now.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from datetime import date, datetime
from typing import Any, Literal

from omnigraph.catalog import Catalog
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.rows.cells import read_cell
from omnigraph.errors import (
    BadValue,
    DecisionProblem,
    DecisionProblems,
    MergeConflict,
    MergeDecisionError,
    UsageError,
    ValueFormatError,
)
from omnigraph.history.merge.conflicts import DECIDABLE, ENDS, SIDES, ConflictKind, ConflictRow, Conflicts, rows_of
from omnigraph.records import record
from omnigraph.values.blobs import blob_text
from omnigraph.values.temporal import format_date, format_datetime

Choice = Literal["ours", "theirs", "base", "properties", "value"]
PROPERTY_CHOICES: tuple[Choice, ...] = ("ours", "theirs", "base")
ENTITY_CHOICES: tuple[Choice, ...] = (*PROPERTY_CHOICES, "properties")
_VALUE = "value"
_COMPARED = ("kind", *SIDES)
_FIELDS = {"type", "id", "property", "message", "resolution", "place", *_COMPARED}
_SHOWN, _WIDTH = 3, 60
_EPOCH = date(1970, 1, 1)

# What a caller's function makes of one row: a word, a value, or None for no decision.
Decide = Callable[[ConflictRow], Any]


@record
class Decision:
    """What becomes of an entity, or of one property of it, that is in conflict.

    Args:
        type_key: the type.
        entity_id: the entity.
        name: which property; None decides the whole entity.
        choice: whose side; ``properties`` takes each property from the side that changed it.
        value: what a property gets if the choice is a value, as its column stores it.
        expected: what the caller has seen of the conflict.
        place: where the decision was read, if in a file.
    """

    type_key: str
    entity_id: str
    name: str | None
    choice: Choice
    value: Any = None
    expected: Mapping[str, Any] = field(default_factory=dict)
    place: str | None = None

    def problem(self, message: str) -> DecisionProblem:
        """Return what is wrong with it."""
        return DecisionProblem(
            message=message,
            place=self.place,
            type_name=self.type_key,
            entity_id=self.entity_id,
            property=self.name,
        )

    @property
    def subject(self) -> str:
        """What it is about, in words."""
        return f"{self.type_key.partition(':')[2]} '{self.entity_id}'"


@record
class EntityDecision:
    """All decisions about one entity: where its row starts from, and what is put in place in it."""

    whole: Decision | None = None
    properties: Mapping[str, Decision] = field(default_factory=dict)

    @property
    def all(self) -> Iterator[Decision]:
        """Every decision of it."""
        if self.whole is not None:
            yield self.whole
        yield from self.properties.values()


@record
class DecisionsMet:
    """Which decisions met a conflict, by type and id, and what was wrong with them."""

    met: tuple[tuple[str, str], ...] = ()
    problems: tuple[DecisionProblem, ...] = ()


class Decisions:
    """The decisions of one merge, by type and id; each must be used."""

    def __init__(self, decisions: Iterable[Decision] = ()) -> None:
        self._unused: dict[tuple[str, str], EntityDecision] = {}
        self._by_type: dict[str, dict[str, EntityDecision]] = {}
        self._problems: list[DecisionProblem] = []
        for one in decisions:
            self._add(one)

    @classmethod
    def read(cls, rows: Iterable[object], catalog: Catalog) -> Decisions:
        """Read rows as requests and files bring them; those without a resolution are left out.

        Raises:
            MergeDecisionError: a row is malformed, or its value does not fit the property; carries all of them.
        """
        found, problems = list[Decision](), list[DecisionProblem]()
        for number, row in enumerate(rows, start=1):
            read = _read(row, number, catalog)
            if isinstance(read, DecisionProblem):
                problems.append(read)
            elif read is not None:
                found.append(read)
        if problems:
            raise _refusal(problems)
        made = cls(found)
        if made._problems:
            raise _refusal(made._problems)
        return made

    def of_type(self, type_key: str) -> Mapping[str, EntityDecision]:
        """Return the decisions about entities of a type, by id."""
        return self._by_type.get(type_key, {})

    def listed(self, type_key: str) -> list[Decision]:
        """Return the decisions about entities of a type one by one."""
        return [one for found in self.of_type(type_key).values() for one in found.all]

    def verdict(self) -> DecisionsMet:
        """Return what :meth:`meet` has found out so far."""
        met = [
            (key, entity_id)
            for key, found in self._by_type.items()
            for entity_id in found
            if (key, entity_id) not in self._unused
        ]
        return DecisionsMet(met=tuple(met), problems=tuple(self._problems))

    def learn(self, verdict: DecisionsMet) -> None:
        """Take over what was found out elsewhere about some of the decisions."""
        for where in verdict.met:
            self._unused.pop(where, None)
        self._problems += verdict.problems

    def meet(self, conflicts: Iterable[MergeConflict]) -> bool:
        """Hold decisions against the conflicts that they are about; whether all of them can be followed."""
        before = len(self._problems)
        for conflict in conflicts:
            found = self._unused.pop((conflict.type_key or "", conflict.entity_id or ""), None)
            if found is not None:
                rows = {row.property: row for row in rows_of(conflict)}
                for decision in found.all:
                    self._problems += (decision.problem(text) for text in _mismatches(decision, conflict, rows))
        return len(self._problems) == before

    def finish(self) -> None:
        """Return if every decision was used.

        Raises:
            MergeDecisionError: some are about nothing that is in conflict, or about something else than it is now.
        """
        problems = [
            decision.problem(f"{decision.subject} is not in conflict")
            for found in self._unused.values()
            for decision in found.all
        ]
        if self._problems or problems:
            raise _refusal([*self._problems, *problems])

    def _add(self, decision: Decision) -> None:
        where = decision.type_key, decision.entity_id
        before = self._unused.get(where, EntityDecision())
        is_twice = before.whole is not None if decision.name is None else decision.name in before.properties
        if is_twice:
            about = decision.subject if decision.name is None else f"'{decision.name}' of {decision.subject}"
            self._problems.append(decision.problem(f"{about} has two decisions"))
            return
        if decision.name is None:
            after = EntityDecision(whole=decision, properties=before.properties)
        else:
            after = EntityDecision(whole=before.whole, properties={**before.properties, decision.name: decision})
        self._unused[where] = after
        self._by_type.setdefault(decision.type_key, {})[decision.entity_id] = after


def rows_of_mapping(decisions: Mapping[Any, Any]) -> list[dict[str, Any]]:
    """Return the rows for decisions by ``(type, id)`` and ``(type, id, property)``.

    Raises:
        UsageError: a key is neither.
    """
    rows = []
    for key, resolution in decisions.items():
        if not isinstance(key, tuple) or len(key) not in {2, 3} or not all(isinstance(part, str) for part in key):
            expected = "(type, id) or (type, id, property)"
            details = BadValue(what="resolve", value=ascii(key)[:_WIDTH], expected=expected)
            raise UsageError(f"a conflict is named by {expected}, not by {ascii(key)[:_WIDTH]}", details=details)
        named = dict(zip(("type", "id", "property"), key, strict=False))
        rows.append({**named, "resolution": plain_resolution(resolution)})
    return rows


def rows_decided_by(decide: Decide, conflicts: Conflicts) -> list[dict[str, Any]]:
    """Return the rows for which a function returns a decision; each remembers what it was decided on."""
    rows = []
    for row in conflicts.rows():
        resolution = decide(row) if row.kind in DECIDABLE else None
        if resolution is not None:
            rows.append({**row.to_json(), "resolution": plain_resolution(resolution)})
    return rows


def plain_resolution(value: Any) -> Any:
    """Return a decision of Python as JSON has it; what is a text only there is a value.

    >>> plain_resolution("ours"), plain_resolution(date(2026, 1, 31)), plain_resolution({"value": b"ok"})
    ('ours', {'value': '2026-01-31'}, {'value': 'base64:b2s='})
    """
    return {_VALUE: _plain(value)} if isinstance(value, date | bytes) else _plain(value)


def _plain(value: Any) -> Any:
    match value:
        case bytes():
            return blob_text(value)
        case datetime():
            return format_datetime(round(value.timestamp() * 1000))
        case date():
            return format_date((value - _EPOCH).days)
        case dict():
            return {key: _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case _:
            # Scalars and arrays of numpy, which people hand in as vectors.
            return value.tolist() if hasattr(value, "tolist") else value


def _read(row: object, number: int, catalog: Catalog) -> Decision | DecisionProblem | None:
    if not isinstance(row, Mapping):
        return DecisionProblem(message=f"decision {number} is not an object: {_short(row)}")
    place = row.get("place")
    place = place if isinstance(place, str) else None

    def wrong(message: str) -> DecisionProblem:
        named = {name: value for name in ("id", "property") if isinstance(value := row.get(name), str)}
        return DecisionProblem(
            message=message,
            place=place,
            type_name=row["type"] if isinstance(row.get("type"), str) else None,
            entity_id=named.get("id"),
            property=named.get("property"),
        )

    unknown = [name for name in row if name not in _FIELDS]
    if unknown:
        return wrong(f"unknown field {_short(unknown[0])}")
    resolution = row.get("resolution")
    if resolution is None:
        return None
    for name, is_optional in (("type", False), ("id", False), ("property", True)):
        value = row.get(name)
        if not isinstance(value, str) and not (is_optional and value is None):
            return wrong(f"field '{name}' must be a string, got {_short(value)}")
    owners = _owners(catalog, row["type"])
    if len(owners) != 1:
        listed = " and ".join(owner.table_key for owner in owners)
        return wrong(f"type '{row['type']}' is {listed}" if owners else f"type '{row['type']}' does not exist")
    try:
        choice, value = _choice(owners[0], row.get("property"), resolution)
    except ValueFormatError as problem:
        return wrong(problem.message)
    return Decision(
        type_key=owners[0].table_key,
        entity_id=row["id"],
        name=row.get("property"),
        choice=choice,
        value=value,
        expected={name: row[name] for name in _COMPARED if name in row},
        place=place,
    )


def _owners(catalog: Catalog, name: str) -> list[NodeType | EdgeType]:
    owners: list[NodeType | EdgeType] = [*catalog.nodes.values(), *catalog.edges.values()]
    return [owner for owner in owners if name in {owner.name, owner.table_key}]


def _choice(owner: NodeType | EdgeType, name: str | None, resolution: Any) -> tuple[Choice, Any]:
    """Return what a resolution means, and the value that is stored if it is one.

    Raises:
        ValueFormatError: it means nothing, or the value does not fit.
    """
    known = ENTITY_CHOICES if name is None else PROPERTY_CHOICES
    if isinstance(resolution, str):
        word = next((choice for choice in known if choice == resolution), None)
        if word is None:
            near = difflib.get_close_matches(resolution[:_WIDTH], known, n=1)
            advice = f"; did you mean '{near[0]}'?" if near else ""
            wrapped = "" if name is None else f"; a text is written {_short({_VALUE: resolution})}"
            raise _unfit(f"resolution {_short(resolution)} is not one of {', '.join(known)}{advice}{wrapped}")
        return word, None
    if name is None:
        raise _unfit(f"resolution {_short(resolution)} decides a property; an entity takes {', '.join(known)}")
    if isinstance(resolution, Mapping) and set(resolution) == {_VALUE}:
        return "value", _stored(owner, name, resolution[_VALUE])
    return "value", _stored(owner, name, resolution)


def _stored(owner: NodeType | EdgeType, name: str, value: Any) -> Any:
    if name == ENDS and isinstance(owner, EdgeType):
        if not isinstance(value, Mapping) or set(value) != {"from", "to"}:
            raise _unfit(f'the ends of an edge are {{"from": …, "to": …}}, not {_short(value)}')
        if not all(isinstance(value[end], str) for end in ("from", "to")):
            raise _unfit("both ends of an edge are ids of nodes")
        return dict(value)
    prop = owner.get(name)
    if prop is None:
        near = difflib.get_close_matches(name[:_WIDTH], [one.name for one in owner.properties], n=1)
        advice = f"; did you mean '{near[0]}'?" if near else ""
        raise _unfit(f"type {owner.name} has no property '{name}'{advice}")
    if value is None:
        if not prop.type.nullable:
            raise _unfit(f"property '{name}' of {owner.name} cannot be null")
        return None
    return read_cell(prop, value)


def _unfit(message: str) -> ValueFormatError:
    return ValueFormatError(message, details=BadValue(what="resolution", value="", expected=""))


def _mismatches(decision: Decision, conflict: MergeConflict, rows: Mapping[str | None, ConflictRow]) -> Iterator[str]:
    """Yield why a decision does not fit the conflict of its entity, if it does not."""
    row = rows.get(decision.name)
    if row is None and (decision.name is not None or any(side in decision.expected for side in SIDES)):
        listed = ", ".join(name for name in rows if name is not None)
        about = f"only {listed} of it" if listed else "the whole entity"
        what = "the whole entity" if decision.name is None else f"'{decision.name}' of {decision.subject}"
        yield f"{what} is not in conflict; decide {about}"
        return
    if decision.choice == "base" and decision.name is not None and conflict.base is None:
        yield f"{decision.subject} is not in the base, so its '{decision.name}' cannot come from there"
    if decision.choice == "properties" and conflict.kind != ConflictKind.DIVERGENT_UPDATE:
        yield f"'properties' does not resolve a {conflict.kind}; choose ours, theirs or base"
    now = {"kind": conflict.kind} if row is None else row.to_json()
    for name in _COMPARED:
        if name in decision.expected and decision.expected[name] != now[name]:
            yield (
                f"the conflict of {decision.subject} has changed since it was decided:"
                f" {name} was {_short(decision.expected[name])} and is {_short(now[name])}"
            )
            return


def _refusal(problems: list[DecisionProblem]) -> MergeDecisionError:
    shown = [f"{one.place}: {one.message}" if one.place is not None else one.message for one in problems]
    more = [f"and {len(shown) - _SHOWN} more"] if len(shown) > _SHOWN else []
    return MergeDecisionError("; ".join([*shown[:_SHOWN], *more]), details=DecisionProblems(items=tuple(problems)))


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
