"""The exact decoder: one line of the load format into one row of a type, or what is wrong with it."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from omnigraph.catalog.defaults import default_value, has_default
from omnigraph.catalog.entity_ids import entity_id
from omnigraph.catalog.model import Catalog, EdgeType, NodeType, PropertyDef, Scalar
from omnigraph.engine.rows.cells import RowProblem, as_one, kind_of, read_cell, show
from omnigraph.engine.rows.changes import DELETE, OP, SEQ, Marking, feed_envelopes, is_feed_line, read_marking
from omnigraph.errors import BadValue, ValueFormatError, Violation
from omnigraph.records import record
from omnigraph.values.decimals import WrittenFloat
from omnigraph.values.temporal import PRECISION

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Numbers with a fraction keep the digits that are written.
_DECODER = msgspec.json.Decoder(float_hook=WrittenFloat)
_INVALID = "invalid strict JSON at line {}"
# A string of valid JSON, and the colon behind it when it names a member. Possessive, so that a hostile line costs
# neither time nor memory for going back.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"[ \t\r\n]*+(:?)', re.DOTALL)


def read_object(line: bytes, number: int) -> dict[str, Any] | RowProblem:
    """Return the one JSON object that a line holds.

    Refused besides malformed text: a byte order mark, invalid UTF-8, numbers that no double can hold, members that
    are named twice at any depth, and anything after the object.
    """
    if line.startswith(_BYTE_ORDER_MARK):
        return _malformed(number, "it starts with a byte order mark")
    try:
        # Texts that nobody turns into a string would pass unchecked otherwise, names of unknown members among them.
        line.decode()
        value = _DECODER.decode(line)
    except UnicodeDecodeError as error:
        return _malformed(number, f"invalid UTF-8 at byte {error.start}")
    except RecursionError:
        return _malformed(number, "it is nested too deeply")
    except (msgspec.DecodeError, ValueError) as error:
        return _malformed(number, _reason(error))
    if not isinstance(value, dict):
        return RowProblem(line=number, rule="json", message=f"a line must be one JSON object, got {kind_of(value)}")
    if _count_members(value) != line.count(b":"):
        # Colons inside of texts; only now is it worth telling them from those behind member names.
        return _find_duplicate(line, value, number) or value
    return value


def _find_duplicate(line: bytes, value: dict[str, Any], number: int) -> RowProblem | None:
    if _STRING.findall(line).count(b":") == _count_members(value):
        return None
    name = _duplicate_name(line)
    about = "" if name is None else f" {name!r}"
    return RowProblem(line=number, rule="json", message=f"duplicate JSON member{about}", property=name)


def _duplicate_name(line: bytes) -> str | None:
    found: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        names = [name for name, _ in pairs]
        found.extend(name for at, name in enumerate(names) if name in names[:at])

    try:
        json.loads(line, object_pairs_hook=look, parse_int=str, parse_float=str)
    except (RecursionError, ValueError):
        # The line was read already, so only its depth can be in the way; the name is a courtesy.
        return None
    return found[0] if found else None


def _count_members(value: Any) -> int:
    count, waiting = 0, [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            count += len(item)
            waiting.extend(child for child in item.values() if isinstance(child, dict | list))
        else:
            waiting.extend(child for child in item if isinstance(child, dict | list))
    return count


def _reason(error: Exception) -> str:
    text = str(error).removeprefix("JSON is malformed: ")
    return text[:1].lower() + text[1:]


def _malformed(number: int, reason: str) -> RowProblem:
    return RowProblem(line=number, rule="json", message=f"{_INVALID.format(number)}: {reason}")


def moved(problem: Violation, lines: int) -> Violation:
    """Return a problem as it is after so many more lines, those before the part of a file that it was found in."""
    if not lines or problem.line is None:
        return problem
    line = problem.line + lines
    message = problem.message
    if message.startswith(f"{_INVALID.format(problem.line)}:"):
        message = message.replace(_INVALID.format(problem.line), _INVALID.format(line), 1)
    return replace(problem, line=line, message=message)


RESERVED = frozenset(
    {"_tombstone", "_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"}
)
ENDPOINT_FIELDS = {"from": "src", "to": "dst"}
_NODE_FIELDS = frozenset({"type", "data"})
_EDGE_FIELDS = frozenset({"edge", "from", "to", "data"})


@record
class DecodedRow:
    """One row: ``values`` holds what was given, as stored; ``id`` is None when one has to be made up.

    ``marking`` is what a row of a change log says beside its values. One that deletes has an id, and no values.
    """

    line: int
    owner: NodeType | EdgeType
    id: str | None
    src: str | None = None
    dst: str | None = None
    values: Mapping[str, Any]
    marking: Marking | None = None


class RowDecoder:
    """Decodes lines against a catalog.

    Args:
        catalog: the accepted schema.
        is_patch: rows may leave out required properties, because a stored row may have them.
        truncate: cut instants that are finer than a millisecond; otherwise they are problems.
        takes_changes: lines are those of a change log, with an operation and a sequence, or those of a feed. They are
            read as patches; :func:`~omnigraph.engine.rows.columnar.complete_upserts` makes whole rows of upserts.
    """

    def __init__(
        self, catalog: Catalog, *, is_patch: bool = False, truncate: bool = False, takes_changes: bool = False
    ) -> None:
        self.catalog = catalog
        self.is_patch = is_patch or takes_changes
        self.truncate = truncate
        self.takes_changes = takes_changes

    def decode_all(self, line: bytes, number: int) -> Iterator[DecodedRow | RowProblem]:
        """Yield the rows that a line holds: one, but for a batch of a feed."""
        if not self.takes_changes:
            yield self.decode(line, number)
            return
        envelope = read_object(line, number)
        if isinstance(envelope, RowProblem):
            yield envelope
        elif is_feed_line(envelope):
            for change in feed_envelopes(envelope, number):
                yield change if isinstance(change, RowProblem) else self.decode_envelope(change, number)
        else:
            yield self.decode_envelope(envelope, number)

    def decode(self, line: bytes, number: int) -> DecodedRow | RowProblem:
        """Return the row that a line holds; the first problem found when it holds none."""
        envelope = read_object(line, number)
        if isinstance(envelope, RowProblem):
            return envelope
        return self.decode_envelope(envelope, number)

    def decode_envelope(self, envelope: Mapping[str, Any], number: int) -> DecodedRow | RowProblem:
        """Return the row that an envelope holds, as :meth:`decode` does for a line."""
        owner = self._owner(envelope, number)
        if isinstance(owner, RowProblem):
            return owner
        marking: Marking | None = None
        if self.takes_changes:
            found = read_marking(envelope, number)
            if isinstance(found, RowProblem):
                return replace(found, type_name=owner.name)
            marking = found
            envelope = {name: value for name, value in envelope.items() if name not in {OP, SEQ}}
        is_delete = marking is not None and marking.op == DELETE
        bad = _bad_field(envelope, owner, number) or _bad_endpoint(envelope, owner, number, is_needed=not is_delete)
        if bad is not None:
            return bad
        data = envelope.get("data", {})
        if not isinstance(data, dict):
            text = f"field 'data' must be an object, got {kind_of(data)}"
            return RowProblem(line=number, rule="envelope", message=text, type_name=owner.name, value=show(data))
        ends = {"src": envelope.get("from"), "dst": envelope.get("to")}
        if marking is None:
            return self.decode_row(owner, data, number, **ends)
        return self.decode_change(owner, data, number, marking, **ends)

    def decode_change(
        self,
        owner: NodeType | EdgeType,
        data: Mapping[str, Any],
        number: int,
        marking: Marking,
        *,
        src: str | None = None,
        dst: str | None = None,
    ) -> DecodedRow | RowProblem:
        """Return the row of a change log; what one that deletes has beside its id or key is not looked at."""
        if marking.op != DELETE:
            row = self.decode_row(owner, data, number, src=src, dst=dst)
            return row if isinstance(row, RowProblem) else replace(row, marking=marking)
        problem = as_one(tuple(_bad_members(data, owner, number)))
        if problem is not None:
            return problem
        values: dict[str, Any] = {}
        keys = [prop for prop in owner.properties if prop.name in (owner.key or ()) and data.get(prop.name) is not None]
        for prop in keys:
            try:
                values[prop.name] = read_cell(prop, data[prop.name], truncate=self.truncate)
            except ValueFormatError as error:
                return _bad_cell(owner, prop, number, error)
        known = {**values, "src": src, "dst": dst}
        if isinstance(data.get("id"), str) and any(known.get(column) is None for column in owner.key or ()):
            return DecodedRow(line=number, owner=owner, id=data["id"], values={}, marking=marking)
        if owner.key is None and data.get("id") is None:
            text = f"a delete of {owner.name}, which has no key, needs field 'id'"
            return RowProblem(line=number, rule="id", message=text, type_name=owner.name, property="id")
        for end, column in ENDPOINT_FIELDS.items():
            if column in (owner.key or ()) and known[column] is None:
                text = f"a delete of {owner.name} needs field '{end}', or 'id'"
                return RowProblem(line=number, rule="envelope", message=text, type_name=owner.name, property=end)
        row = self._identified(owner, data, values, number, src=src, dst=dst)
        return row if isinstance(row, RowProblem) else replace(row, src=None, dst=None, values={}, marking=marking)

    def decode_row(
        self,
        owner: NodeType | EdgeType,
        data: Mapping[str, Any],
        number: int,
        *,
        src: str | None = None,
        dst: str | None = None,
    ) -> DecodedRow | RowProblem:
        """Return the row of ``owner`` that the members of ``data`` describe, or all that is wrong with them."""
        problems = list(_bad_members(data, owner, number))
        values: dict[str, Any] = {}
        for prop in owner.properties:
            value = data.get(prop.name)
            if value is None and prop.name not in data and not self.is_patch and has_default(prop):
                values[prop.name] = default_value(prop)
                continue
            if value is None:
                problem = self._missing(owner, prop, number, is_given=prop.name in data)
                if problem is not None:
                    problems.append(problem)
                elif prop.name in data:
                    values[prop.name] = None
                continue
            try:
                values[prop.name] = read_cell(prop, value, truncate=self.truncate)
            except ValueFormatError as error:
                problems.append(_bad_cell(owner, prop, number, error))
        return as_one(problems) or self._identified(owner, data, values, number, src=src, dst=dst)

    def _owner(self, envelope: Mapping[str, Any], number: int) -> NodeType | EdgeType | RowProblem:
        if ("type" in envelope) == ("edge" in envelope):
            found = "both" if "type" in envelope else "neither"
            text = f"a row has exactly one of 'type' or 'edge', found {found}"
            return RowProblem(line=number, rule="envelope", message=text)
        field = "type" if "type" in envelope else "edge"
        name = envelope[field]
        if not isinstance(name, str):
            text = f"field '{field}' must be a string, got {kind_of(name)}"
            return RowProblem(line=number, rule="envelope", message=text, value=show(name))
        owner = self.catalog.node(name) if field == "type" else self.catalog.edge(name)
        if owner is not None:
            return owner
        known: Iterable[str] = self.catalog.nodes if field == "type" else self.catalog.edges
        near = difflib.get_close_matches(name[:200], list(known), n=1)
        advice = f"; did you mean '{near[0]}'?" if near else ""
        shown = show(name)[1:-1]
        text = f"unknown {'node' if field == 'type' else 'edge'} type '{shown}'{advice}"
        return RowProblem(line=number, rule="envelope", message=text, type_name=shown, value=show(name))

    def _missing(
        self, owner: NodeType | EdgeType, prop: PropertyDef, number: int, *, is_given: bool
    ) -> RowProblem | None:
        if prop.type.nullable or (self.is_patch and not is_given):
            return None
        problem = required_problem(owner, prop, number, is_given=is_given)
        if prop.embed is None or self.is_patch:
            return problem
        advice = (
            f", and no embedding provider is configured (OMNIGRAPH_EMBED_PROVIDER) to make it of '{prop.embed.source}'"
        )
        return replace(problem, message=problem.message + advice)

    def _identified(
        self,
        owner: NodeType | EdgeType,
        data: Mapping[str, Any],
        values: Mapping[str, Any],
        number: int,
        *,
        src: str | None,
        dst: str | None,
    ) -> DecodedRow | RowProblem:
        given = data.get("id")
        if "id" in data and not isinstance(given, str):
            text = f"field 'id' must be a string, got {kind_of(given)}"
            return RowProblem(
                line=number, rule="id", message=text, type_name=owner.name, property="id", value=show(given)
            )
        if owner.key is not None:
            for column in owner.key:
                prop = owner.get(column)
                if prop is not None and values.get(column) is None:
                    return required_problem(owner, prop, number, is_given=False)
            derived = entity_id(owner, {**values, "src": src, "dst": dst})
            if given is not None and given != derived:
                text = f"id {show(given)} does not match the id derived from the key, {show(derived)}"
                return RowProblem(
                    line=number, rule="id", message=text, type_name=owner.name, property="id", value=show(given)
                )
            given = derived
        return DecodedRow(line=number, owner=owner, id=given, src=src, dst=dst, values=values)


def required_problem(owner: NodeType | EdgeType, prop: PropertyDef, number: int, *, is_given: bool) -> RowProblem:
    """Return the problem of a row that has no value for a required property."""
    what = {Scalar.VECTOR: "vector property", Scalar.BLOB: "blob property"}.get(prop.type.scalar, "property")
    found = "it is null" if is_given else "it is missing"
    return RowProblem(
        line=number,
        rule="required",
        message=f"non-nullable {what} '{prop.name}' of {owner.name} has null or invalid values: {found}",
        type_name=owner.name,
        property=prop.name,
        value="null" if is_given else None,
    )


def _bad_field(envelope: Mapping[str, Any], owner: NodeType | EdgeType, number: int) -> RowProblem | None:
    allowed = _EDGE_FIELDS if isinstance(owner, EdgeType) else _NODE_FIELDS
    for name in envelope:
        if name not in allowed:
            shown = show(name)[1:-1]
            text = (
                f"field '{shown}' is reserved physical state"
                if name in RESERVED
                else f"unknown top-level field '{shown}'"
            )
            return RowProblem(line=number, rule="envelope", message=text, type_name=owner.name, property=shown)
    return None


def _bad_endpoint(
    envelope: Mapping[str, Any], owner: NodeType | EdgeType, number: int, *, is_needed: bool
) -> RowProblem | None:
    if not isinstance(owner, EdgeType):
        return None
    for field in ENDPOINT_FIELDS:
        value = envelope.get(field)
        if isinstance(value, str) or (value is None and not is_needed):
            continue
        text = f"field '{field}' must be a string, got {kind_of(value)}"
        if field not in envelope:
            text = f"edge {owner.name} requires field '{field}'"
        return RowProblem(
            line=number,
            rule="envelope",
            message=text,
            type_name=owner.name,
            property=field,
            value=show(value) if field in envelope else None,
        )
    return None


def _bad_members(data: Mapping[str, Any], owner: NodeType | EdgeType, number: int) -> Iterator[RowProblem]:
    for name in data:
        if name in RESERVED:
            text = f"field '{name}' is reserved physical state"
        elif name == "id" or owner.get(name) is not None:
            continue
        elif isinstance(owner, EdgeType) and name in {"src", "dst"}:
            text = f"field '{name}' in the data of an edge is reserved structural state; use 'from' and 'to'"
        else:
            near = difflib.get_close_matches(name[:200], [prop.name for prop in owner.properties], n=1)
            advice = f"; did you mean '{near[0]}'?" if near else ""
            text = f"unknown input field '{show(name)[1:-1]}' for {owner.name}{advice}"
        shown = show(name)[1:-1]
        yield RowProblem(line=number, rule="field", message=text, type_name=owner.name, property=shown)


def _bad_cell(owner: NodeType | EdgeType, prop: PropertyDef, number: int, error: ValueFormatError) -> RowProblem:
    details = error.details
    rule, value = "type", None
    if isinstance(details, BadValue):
        rule, value = details.what, details.value
    message = error.message
    if not prop.type.nullable and prop.type.scalar not in {Scalar.VECTOR, Scalar.BLOB}:
        message = f"non-nullable property '{prop.name}' has null or invalid values: {message}"
    elif rule == PRECISION and not prop.type.is_list:
        message = f"property '{prop.name}' has an invalid value: {message}"
    return RowProblem(
        line=number,
        # Texts that are no date keep the word of the calendar in their details.
        rule="type" if rule in {"Date", "DateTime"} else rule,
        message=message,
        type_name=owner.name,
        property=prop.name,
        value=value,
    )
