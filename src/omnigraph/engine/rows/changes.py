"""Rows of a change log: the operation and the sequence that stand beside the values of a row, and rows of a feed.

``_op`` is ``upsert``, ``patch`` or ``delete``; without one a row is an upsert. ``_seq`` orders the rows of one entity:
a whole number of 64 bits, or an instant, down to the nanosecond.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.decimals import is_whole
from omnigraph.engine.rows.cells import RowProblem, kind_of, show
from omnigraph.records import record

OP, SEQ = "_op", "_seq"
UPSERT, PATCH, DELETE = 0, 1, 2
OPERATIONS: Final[Mapping[str, int]] = {"upsert": UPSERT, "patch": PATCH, "delete": DELETE}
# What orders rows; those of one kind can be compared with each other.
NO_SEQUENCE, NUMBER, INSTANT = 0, 1, 2
SEQUENCE_KINDS = {NO_SEQUENCE: "no sequence", NUMBER: "a number", INSTANT: "an instant"}
COLUMNS = pa.schema([("op", pa.int8()), ("seq", pa.int64()), ("kind", pa.int8())])

_LOW, _HIGH = -(1 << 63), (1 << 63) - 1
_NS = 1_000_000_000
_INTEGER = r"^[+-]?[0-9]{1,19}$"
_INSTANT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?(Z|[+-][0-9]{2}:?[0-9]{2})?)?",
    re.ASCII,
)
# As Arrow reads it too, of the years that nanoseconds reach.
_PLAIN_INSTANT = (
    r"^(1[7-9]|20|21)[0-9]{2}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})$"
)
_EXPECTED = "a whole number of 64 bits or an instant such as 2026-03-01T12:00:00.000001Z"

Mask = npt.NDArray[np.bool_]


@record
class Marking:
    """What stands beside the values of a row: its operation, and what orders it."""

    op: int = UPSERT
    seq: int = 0
    kind: int = NO_SEQUENCE


def read_marking(given: Mapping[str, Any], line: int) -> Marking | RowProblem:
    """Return the operation and the sequence that a row has; a null is as good as none."""
    op = read_operation(given.get(OP), line)
    if isinstance(op, RowProblem):
        return op
    sequence = read_sequence(given.get(SEQ), line)
    if isinstance(sequence, RowProblem):
        return sequence
    return Marking(op=op, seq=sequence[0], kind=sequence[1])


def read_operation(value: Any, line: int) -> int | RowProblem:
    """Return the number of an operation."""
    if value is None:
        return UPSERT
    if isinstance(value, str) and value in OPERATIONS:
        return OPERATIONS[value]
    near = difflib.get_close_matches(value.lower()[:50], list(OPERATIONS), n=1) if isinstance(value, str) else []
    advice = f"; did you mean '{near[0]}'?" if near else ""
    text = f"field '{OP}' must be upsert, patch or delete, got {show(value)}{advice}"
    return RowProblem(line=line, rule="operation", message=text, property=OP, value=show(value))


def read_sequence(value: Any, line: int) -> tuple[int, int] | RowProblem:
    """Return a sequence as a number, and of which kind it is."""
    if value is None:
        return 0, NO_SEQUENCE
    found = _sequence(value)
    if found is not None and _LOW <= found[0] <= _HIGH:
        return found
    what = show(value) if isinstance(value, str | int | float) else kind_of(value)
    text = f"field '{SEQ}' must be {_EXPECTED}, got {what}"
    return RowProblem(line=line, rule="sequence", message=text, property=SEQ, value=show(value))


def _sequence(value: Any) -> tuple[int, int] | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value, NUMBER
    if isinstance(value, datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        seconds = round((moment.replace(microsecond=0) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
        return seconds * _NS + value.microsecond * 1000, INSTANT
    if isinstance(value, date):
        return (value - date(1970, 1, 1)).days * 86_400 * _NS, INSTANT
    if not isinstance(value, str):
        return None
    if re.fullmatch(_INTEGER.strip("^$"), value, re.ASCII):
        return int(value), NUMBER
    return _instant(value)


def _instant(text: str) -> tuple[int, int] | None:
    match = _INSTANT.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    try:
        moment = datetime(
            int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0), tzinfo=UTC
        )
    except ValueError:
        return None
    seconds = int((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
    if zone is not None and zone != "Z":
        hours, minutes = int(zone[1:3]), int(zone[-2:])
        seconds -= (1 if zone[0] == "+" else -1) * (hours * 3600 + minutes * 60)
    return seconds * _NS + int((fraction or "").ljust(9, "0")), INSTANT


@record
class MarkedColumns:
    """The operations and sequences of many rows, in :data:`COLUMNS`, and the rows that only a closer look can tell."""

    columns: pa.Table
    doubt: Mask


def mark_columns(ops: pa.Array | None, sequences: pa.Array | None, count: int) -> MarkedColumns:
    """Return the operations and sequences of columns as a reader gives them; a column that is not there is None."""
    op, unsure = _operations(ops, count)
    seq, kind, bad = _sequences(sequences, count)
    return MarkedColumns(columns=pa.table([op, seq, kind], schema=COLUMNS), doubt=unsure | bad)


def marking_table(markings: list[Marking]) -> pa.Table:
    """Return operations and sequences that were read one by one."""
    columns = [[mark.op for mark in markings], [mark.seq for mark in markings], [mark.kind for mark in markings]]
    return pa.table([pa.array(values, field.type) for values, field in zip(columns, COLUMNS, strict=True)], COLUMNS)


def can_mark(name: str, given: pa.DataType) -> bool:
    """Whether a column of an Arrow type can hold operations or sequences."""
    if pa.types.is_dictionary(given):
        return can_mark(name, given.value_type)
    is_text = pa.types.is_string(given) or pa.types.is_large_string(given) or pa.types.is_string_view(given)
    if name == OP or is_text or pa.types.is_null(given):
        return bool(is_text or pa.types.is_null(given))
    return bool(is_whole(given) or pa.types.is_date(given) or pa.types.is_timestamp(given))


def mark_at(cell: pa.Scalar) -> Any:
    """Return the operation or sequence of one cell, for a closer look."""
    if pa.types.is_timestamp(cell.type) and cell.is_valid and cell.type.unit == "ns":
        # Python's instants end at the microsecond.
        return pc.strftime(cell.cast(pa.timestamp("ns", tz="UTC")), format="%Y-%m-%dT%H:%M:%SZ").as_py()
    value = cell.as_py()
    return int(value) if isinstance(value, Decimal) else value


def _operations(given: pa.Array | None, count: int) -> tuple[pa.Array, Mask]:
    if given is None:
        return pa.array(np.full(count, UPSERT, dtype=np.int8)), np.zeros(count, dtype=bool)
    texts = _plain(given).cast(pa.string())
    found = pc.index_in(texts, value_set=pa.array(list(OPERATIONS)))
    unsure = _mask(pc.and_(texts.is_valid(), found.is_null()))
    return pc.fill_null(found, UPSERT).cast(pa.int8()), unsure


def _sequences(given: pa.Array | None, count: int) -> tuple[pa.Array, pa.Array, Mask]:
    none = np.zeros(count, dtype=bool)
    if given is None or pa.types.is_null(given.type):
        return pa.array(np.zeros(count, dtype=np.int64)), pa.array(np.zeros(count, dtype=np.int8)), none
    column = _plain(given)
    is_there = _mask(column.is_valid())
    numbers, kind = _numbers(column)
    bad = is_there & _mask(numbers.is_null())
    kinds = np.where(is_there, kind, NO_SEQUENCE).astype(np.int8)
    return pc.fill_null(numbers, 0), pa.array(kinds), bad


def _numbers(column: pa.Array) -> tuple[pa.Array, int]:
    """Return sequences as numbers, null where only a closer look can tell, and their kind."""
    kind = column.type
    nothing = pa.nulls(len(column), pa.int64())
    try:
        if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
            return column.cast(pa.int64()), NUMBER
        if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            zone = kind.tz if pa.types.is_timestamp(kind) else None
            return column.cast(pa.timestamp("ns", tz=zone)).cast(pa.int64()), INSTANT
        texts = column.cast(pa.string())
        is_number = pc.match_substring_regex(texts, _INTEGER)
        if pc.all(is_number, min_count=0).as_py():
            return pc.replace_substring_regex(texts, r"^\+", "").cast(pa.int64()), NUMBER
        if pc.all(pc.match_substring_regex(texts, _PLAIN_INSTANT), min_count=0).as_py():
            return texts.cast(pa.timestamp("ns", tz="UTC")).cast(pa.int64()), INSTANT
    except pa.ArrowInvalid:
        # Out of range somewhere; the closer look finds where.
        pass
    return nothing, NO_SEQUENCE


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _mask(flags: pa.Array) -> Mask:
    mask: Mask = flags.to_numpy(zero_copy_only=False)
    return mask


# The members that tell a row of a feed, and a batch of one, from an envelope.
_CHANGE, _BATCH = frozenset({"op", "kind", "id"}), frozenset({"source", "blocks", "begin"})
# Whether the entity is there afterwards.
_FEED_OPS = {"insert": True, "update": True, "baseline": True, "delete": False}
_HEADS = {"node": "type", "edge": "edge"}


def is_feed_line(document: Mapping[str, Any]) -> bool:
    """Whether a line is a change of a feed, or a batch of changes, rather than an envelope."""
    return document.keys() >= _CHANGE or document.keys() >= _BATCH


def feed_envelopes(document: Mapping[str, Any], line: int) -> Iterator[dict[str, Any] | RowProblem]:
    """Yield the changes of a line of a feed as envelopes with their operation and sequence."""
    if document.keys() >= _CHANGE:
        yield change_envelope(document, document.get("sequence"), line)
        return
    try:
        first = document["begin"]["sequence"] + 1
        blocks = [list(block["changes"]) for block in document["blocks"]]
    except (KeyError, TypeError) as error:
        text = f"this is not a batch of a change feed: {str(error)[:80]}"
        yield RowProblem(line=line, rule="feed", message=text)
        return
    for number, changes in enumerate(blocks):
        for change in changes:
            yield change_envelope(change, first + number, line)


def change_envelope(change: Any, sequence: Any, line: int) -> dict[str, Any] | RowProblem:
    """Return a change of a feed as the envelope of what the entity is afterwards, with operation and sequence."""
    try:
        op, field, entity_id = change["op"], _HEADS[change["kind"]], change["id"]
        name = change["type"] if isinstance(change["type"], str) else change["type"]["name"]
        marks = {SEQ: sequence, field: name}
        if not _FEED_OPS[op]:
            return {**marks, OP: "delete", "data": {"id": entity_id}}
        after = change["after"]
        ends = after["endpoints"] if field == "edge" else {}
        # What the source has no property for stays as it is here.
        return {**marks, **ends, OP: "patch", "data": {"id": entity_id, **after["properties"]}}
    except (KeyError, TypeError) as error:
        text = f"this is not a change of a feed: {str(error)[:80]}"
        return RowProblem(line=line, rule="feed", message=text)
