"""One parsed JSON column into the column that is stored, and which rows do not fit it."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.model import FLOATS, PropertyDef, PropertyType, Scalar
from omnigraph.engine.rows.batch import relist
from omnigraph.engine.rows.cells import read_cell
from omnigraph.engine.rows.temporal import read_texts
from omnigraph.errors import ValueFormatError

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
        single = arrow_type(PropertyType(scalar=kind.scalar))
    return pa.list_(single) if kind.is_list or kind.is_vector else single


def read_column(prop: PropertyDef, parsed: pa.Array, flavour: Flavour) -> tuple[pa.Array, Mask | None]:
    """Return the stored column, null where nothing fits, and the rows that do not fit (None when all do)."""
    kind = prop.type
    if kind.is_vector:
        return _vectors(kind, parsed)
    if kind.is_list:
        values, bad = _scalars(kind, parsed.values, flavour)
        misfit = bad if bad is not None else np.zeros(len(values), dtype=bool)
        if parsed.values.null_count:
            misfit |= parsed.values.is_null().to_numpy(zero_copy_only=False)
        return relist(parsed, values, kind), _rows_of_items(parsed, misfit)
    if kind.scalar is Scalar.BLOB:
        return _blobs(prop, parsed)
    return _scalars(kind, parsed, flavour)


def _scalars(kind: PropertyType, parsed: pa.Array, flavour: Flavour) -> tuple[pa.Array, Mask | None]:
    stored = arrow_type(PropertyType(scalar=kind.scalar))
    if kind.scalar in FLOATS:
        values = parsed.cast(stored, safe=False)
        finite = pc.is_finite(values)
        if pc.all(finite, min_count=0).as_py():
            return values, None
        return values, pc.fill_null(pc.invert(finite), fill_value=False).to_numpy(zero_copy_only=False)
    if kind.scalar not in TEMPORAL:
        return parsed, None
    if flavour == "text":
        counts = read_texts(kind.scalar, parsed)
        if counts.null_count == parsed.null_count:
            return counts.view(stored), None
        return counts.view(stored), pc.and_(counts.is_null(), parsed.is_valid()).to_numpy(zero_copy_only=False)
    if kind.scalar is Scalar.DATETIME:
        return parsed.view(stored), None
    outside = pc.fill_null(pc.or_(pc.less(parsed, _DAYS[0]), pc.greater(parsed, _DAYS[1])), fill_value=False)
    bad = outside.to_numpy(zero_copy_only=False)
    return parsed.cast(pa.int32(), safe=False).view(stored), bad if bad.any() else None


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
    if pa.types.is_large_binary(parsed.type):
        return parsed, None
    payloads: list[bytes | None] = []
    bad = np.zeros(len(parsed), dtype=bool)
    for at, text in enumerate(parsed.to_pylist()):
        try:
            payloads.append(None if text is None else read_cell(prop, text))
        except ValueFormatError:
            payloads.append(None)
            bad[at] = True
    return pa.array(payloads, arrow_type(prop.type)), bad if bad.any() else None
