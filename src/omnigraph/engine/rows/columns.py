"""One parsed JSON column into the column that is stored, and which rows do not fit it."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import arrow_schema, arrow_type
from omnigraph.catalog.defaults import default_value
from omnigraph.catalog.model import FLOATS, EdgeType, NodeType, PropertyDef, PropertyType, Scalar
from omnigraph.engine.rows.cells import read_cell, read_temporal
from omnigraph.engine.rows.changes import marking_table
from omnigraph.engine.rows.decoder import DecodedRow
from omnigraph.errors import ValueFormatError
from omnigraph.records import record
from omnigraph.values.blobs import EXTERNAL_MARK, inline_text
from omnigraph.values.decimals import MAX_PRECISION

LINE = pa.int64()


@record
class TypeRows:
    """Decoded rows of a type.

    Args:
        owner: the type.
        rows: the columns of its table in order; an id that has to be made up is null.
        lines: the line of each row, ascending.
        given: per property whether the row says anything about it; only kept for a patch.
        marks: the operation and the sequence of each row; only of a change log.
    """

    owner: NodeType | EdgeType
    rows: pa.Table
    lines: pa.Array
    given: pa.Table | None = None
    marks: pa.Table | None = None


def open_schema(owner: NodeType | EdgeType, *, is_patch: bool = False) -> pa.Schema:
    """Return the columns of a type's table while ids, and in a patch required values, may still be missing."""
    schema = arrow_schema(owner)
    loose = [field.with_nullable(True) if is_patch or field.name == "id" else field for field in schema]
    return pa.schema(loose, metadata=schema.metadata)


def rows_of(owner: NodeType | EdgeType, decoded: Sequence[DecodedRow], *, is_patch: bool = False) -> TypeRows:
    """Return rows that were decoded one by one as columns."""
    columns: dict[str, pa.Array] = {"id": pa.array([row.id for row in decoded], pa.string())}
    if isinstance(owner, EdgeType):
        columns["src"] = pa.array([row.src for row in decoded], pa.string())
        columns["dst"] = pa.array([row.dst for row in decoded], pa.string())
    for prop in owner.properties:
        columns[prop.name] = column_of(prop.type, [row.values.get(prop.name) for row in decoded])
    schema = open_schema(owner, is_patch=is_patch)
    given = None
    if is_patch:
        flags = {
            prop.name: pa.array([prop.name in row.values for row in decoded], pa.bool_()) for prop in owner.properties
        }
        given = flags_table(owner, flags, len(decoded))
    markings = [row.marking for row in decoded if row.marking is not None]
    return TypeRows(
        owner=owner,
        rows=pa.table([columns[name] for name in schema.names], schema=schema),
        lines=pa.array([row.line for row in decoded], LINE),
        given=given,
        marks=marking_table(markings) if markings else None,
    )


def flags_table(owner: NodeType | EdgeType, flags: dict[str, pa.Array], count: int) -> pa.Table:
    """Return the columns of :attr:`TypeRows.given`; a type without properties still has as many rows."""
    schema = pa.schema([pa.field(prop.name, pa.bool_()) for prop in owner.properties])
    if not schema.names:
        return pa.table({"": pa.array(np.zeros(count, dtype=bool))})
    return pa.table([flags[name] for name in schema.names], schema=schema)


def column_of(kind: PropertyType, values: Sequence[Any]) -> pa.Array:
    """Return stored values (counts for dates) as the column of a type."""
    counts = {Scalar.DATE: pa.int32(), Scalar.DATETIME: pa.int64()}.get(kind.scalar)
    if counts is None:
        return pa.array(values, arrow_type(kind))
    if not kind.is_list:
        return pa.array(values, counts).view(arrow_type(kind))
    lists = pa.array(values, pa.list_(pa.field("item", counts)))
    return relist(lists, lists.values.view(arrow_type(kind).value_type), kind)


def default_scalar(prop: PropertyDef) -> pa.Scalar | None:
    """Return the default of a property as its column stores it, or None."""
    value = default_value(prop)
    return None if value is None else column_of(prop.type, [value])[0]


def relist(lists: pa.Array, values: pa.Array, kind: PropertyType) -> pa.Array:
    """Return ``lists`` with other items of the same number in the same places."""
    missing = lists.is_null() if lists.null_count else None
    return pa.ListArray.from_arrays(lists.offsets, values, type=arrow_type(kind), mask=missing)


def join(parts: Sequence[TypeRows]) -> TypeRows:
    """Return the rows of several parts of one type, in the order of their lines."""
    if len(parts) == 1:
        return parts[0]
    rows = pa.concat_tables([part.rows for part in parts])
    lines = pa.concat_arrays([part.lines for part in parts])
    flags = [part.given for part in parts if part.given is not None]
    given = pa.concat_tables(flags) if flags else None
    marked = [part.marks for part in parts if part.marks is not None]
    marks = pa.concat_tables(marked) if marked else None
    numbers = lines.to_numpy()
    if np.any(numbers[1:] < numbers[:-1]):
        order = pa.array(np.argsort(numbers, kind="stable"))
        rows, lines = rows.take(order), lines.take(order)
        given = given if given is None else given.take(order)
        marks = marks if marks is None else marks.take(order)
    return TypeRows(owner=parts[0].owner, rows=rows, lines=lines, given=given, marks=marks)


_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_INSTANT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{3})?Z$"
# What follows the milliseconds, as Arrow's parser refuses it.
_FINER, _ZEROS = r"(\.[0-9]{3})[0-9]+Z$", r"(\.[0-9]{3})0+Z$"


def read_texts(scalar: Scalar, texts: pa.Array, *, truncate: bool = False) -> pa.Array:
    """Return day counts (int32) or millisecond counts (int64); a text that is none becomes null.

    One that is finer than a millisecond is none, unless ``truncate`` says that it is cut.
    """
    encoded = texts.dictionary_encode()
    counts = _distinct(scalar, encoded.dictionary, truncate=truncate)
    return counts.take(encoded.indices)


def _distinct(scalar: Scalar, texts: pa.Array, *, truncate: bool) -> pa.Array:
    if scalar is Scalar.DATETIME:
        texts = pc.replace_substring_regex(texts, _FINER if truncate else _ZEROS, r"\1Z")
    width = pa.int32() if scalar is Scalar.DATE else pa.int64()
    usual = pc.match_substring_regex(texts, _DATE if scalar is Scalar.DATE else _INSTANT)
    try:
        counts = _by_arrow(scalar, texts.filter(usual))
    except pa.ArrowInvalid:
        # The 30th of February and the like: let the exact parser find it.
        usual = pa.array(np.zeros(len(texts), dtype=bool))
        counts = pa.array([], width)
    unusual = pc.invert(usual)
    if not pc.any(unusual, min_count=0).as_py():
        return counts
    parsed = pa.array([_one(scalar, text, truncate=truncate) for text in texts.filter(unusual).to_pylist()], width)
    whole = pc.replace_with_mask(pa.nulls(len(texts), width), usual, counts)
    return pc.replace_with_mask(whole, unusual, parsed)


def _by_arrow(scalar: Scalar, texts: pa.Array) -> pa.Array:
    if scalar is Scalar.DATE:
        return texts.cast(pa.date32()).view(pa.int32())
    plain = pc.utf8_slice_codeunits(texts, 0, -1)
    return plain.cast(pa.timestamp("ms")).view(pa.int64())


def _one(scalar: Scalar, text: str, *, truncate: bool) -> int | None:
    try:
        return read_temporal(scalar, text, truncate=truncate)
    except ValueFormatError:
        return None


TEMPORAL = frozenset({Scalar.DATE, Scalar.DATETIME})
# How a file writes dates and instants.
Flavour = Literal["text", "count"]
Mask = npt.NDArray[np.bool_]

_DAYS = (-(1 << 31), (1 << 31) - 1)


def json_type(kind: PropertyType, flavour: Flavour) -> pa.DataType:
    """Return the type under which a JSON column is parsed."""
    if kind.scalar in TEMPORAL:
        single = pa.string() if flavour == "text" else pa.int64()
    elif kind.scalar in FLOATS or kind.is_vector:
        # Through a double, as the exact decoder does: a second rounding must not depend on the road taken.
        single = pa.float64()
    elif kind.scalar is Scalar.BLOB:
        single = pa.string()
    else:
        single = wide_decimal(kind) if kind.is_decimal else arrow_type(kind.single)
    return pa.list_(single) if kind.is_list or kind.is_vector else single


def wide_decimal(kind: PropertyType) -> pa.DataType:
    """Return the type under which decimals are parsed.

    Arrow compares the digits that are written with those of the type, and multiplies by a power of ten afterwards
    without looking whether the result still fits: here it always does.
    """
    scale = kind.digits[1]
    return pa.decimal256(2 * MAX_PRECISION - scale, scale)


def read_column(
    prop: PropertyDef, parsed: pa.Array, flavour: Flavour, *, truncate: bool = False
) -> tuple[pa.Array, Mask | None]:
    """Return the stored column, null where nothing fits, and the rows that do not fit (None when all do)."""
    kind = prop.type
    if kind.is_vector:
        return _vectors(kind, parsed)
    if kind.is_list:
        values, bad = _scalars(kind, parsed.values, flavour, truncate=truncate)
        misfit = bad if bad is not None else np.zeros(len(values), dtype=bool)
        if parsed.values.null_count:
            misfit |= parsed.values.is_null().to_numpy(zero_copy_only=False)
        return relist(parsed, values, kind), _rows_of_items(parsed, misfit)
    if kind.scalar is Scalar.BLOB:
        return _blobs(prop, parsed)
    return _scalars(kind, parsed, flavour, truncate=truncate)


def _scalars(kind: PropertyType, parsed: pa.Array, flavour: Flavour, *, truncate: bool) -> tuple[pa.Array, Mask | None]:
    stored = arrow_type(kind.single)
    if kind.is_decimal:
        return _decimals(parsed, stored)
    if kind.scalar in FLOATS:
        values = parsed.cast(stored, safe=False)
        finite = pc.is_finite(values)
        if pc.all(finite, min_count=0).as_py():
            return values, None
        return values, pc.fill_null(pc.invert(finite), fill_value=False).to_numpy(zero_copy_only=False)
    if kind.scalar not in TEMPORAL:
        return parsed, None
    if flavour == "text":
        counts = read_texts(kind.scalar, parsed, truncate=truncate)
        if counts.null_count == parsed.null_count:
            return counts.view(stored), None
        return counts.view(stored), pc.and_(counts.is_null(), parsed.is_valid()).to_numpy(zero_copy_only=False)
    if kind.scalar is Scalar.DATETIME:
        return parsed.view(stored), None
    outside = pc.fill_null(pc.or_(pc.less(parsed, _DAYS[0]), pc.greater(parsed, _DAYS[1])), fill_value=False)
    bad = outside.to_numpy(zero_copy_only=False)
    return parsed.cast(pa.int32(), safe=False).view(stored), bad if bad.any() else None


def _decimals(parsed: pa.Array, stored: pa.DataType) -> tuple[pa.Array, Mask | None]:
    if parsed.type == stored:
        return parsed, None
    try:
        return parsed.cast(stored), None
    except pa.ArrowInvalid:
        # Some have too many digits before the point.
        bound = pa.scalar(Decimal((0, (1,), stored.precision - stored.scale)), parsed.type)
        fits = pc.less(pc.abs(parsed), bound)
        bad = pc.fill_null(pc.invert(fits), fill_value=False).to_numpy(zero_copy_only=False)
        return pc.if_else(fits, parsed, pa.scalar(None, parsed.type)).cast(stored), bad


def _rows_of_items(lists: pa.Array, misfit: Mask) -> Mask | None:
    if not misfit.any():
        return None
    rows = np.zeros(len(lists), dtype=bool)
    offsets = lists.offsets.to_numpy()
    rows[np.searchsorted(offsets, np.flatnonzero(misfit), side="right") - 1] = True
    return rows


def _vectors(kind: PropertyType, parsed: pa.Array) -> tuple[pa.Array, Mask | None]:
    dimension = kind.dimension or 0
    is_null = parsed.is_null().to_numpy(zero_copy_only=False)
    offsets = parsed.offsets.to_numpy()
    fits = np.diff(offsets) == dimension
    with np.errstate(over="ignore", invalid="ignore"):
        items = parsed.values.to_numpy(zero_copy_only=False).astype(np.float32)
    misfit = _rows_of_items(parsed, ~np.isfinite(items))
    if misfit is not None:
        fits &= ~misfit
    fits &= ~is_null
    values = np.zeros((len(parsed), dimension), dtype=np.float32)
    at = np.flatnonzero(fits)
    values[at] = items[offsets[at][:, np.newaxis] + np.arange(dimension)]
    column = pa.FixedSizeListArray.from_arrays(
        pa.array(values.reshape(-1)), type=arrow_type(kind), mask=pa.array(~fits)
    )
    bad = ~(fits | is_null)
    return column, bad if bad.any() else None


def _blobs(prop: PropertyDef, parsed: pa.Array) -> tuple[pa.Array, Mask | None]:
    is_content = pa.types.is_large_binary(parsed.type)
    if is_content and not pc.any(pc.starts_with(parsed, EXTERNAL_MARK), min_count=0).as_py():
        return parsed, None
    payloads: list[bytes | None] = []
    bad = np.zeros(len(parsed), dtype=bool)
    for at, given in enumerate(parsed.to_pylist()):
        try:
            text = inline_text(given) if is_content and given is not None else given
            payloads.append(None if text is None else read_cell(prop, text))
        except ValueFormatError:
            payloads.append(None)
            bad[at] = True
    return pa.array(payloads, arrow_type(prop.type)), bad if bad.any() else None
