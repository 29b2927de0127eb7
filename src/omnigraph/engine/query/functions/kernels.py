"""What every kernel shares: the types of computed values, and how a row without a value is reported."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.model import PropertyType, Scalar
from omnigraph.engine.comparison import one_array
from omnigraph.engine.decimals import exact_cast, is_decimal_list, to_doubles
from omnigraph.errors import BadValue, QueryRuntimeError
from omnigraph.ir.model import Apply
from omnigraph.ir.types import INTERVAL, NULL, PATH
from omnigraph.values.decimals import MAX_PRECISION

_SHOWN = 100
# What an error about one row expects; other errors are about the text or a parameter.
EVERY_ROW = "a value for every row"

Kernel = Callable[[Apply, list[pa.Array], list[PropertyType]], pa.Array]

# A span of time: whole months, whose length depends on the calendar, and milliseconds.
INTERVAL_TYPE = pa.struct([pa.field("months", pa.int64()), pa.field("ms", pa.int64())])
# A way over edges: the ids of its nodes, and those of its edges.
PATH_TYPE = pa.struct([pa.field("nodes", pa.list_(pa.string())), pa.field("edges", pa.list_(pa.string()))])


def value_arrow_type(of: PropertyType) -> pa.DataType:
    """Return the Arrow type of computed values."""
    if of is INTERVAL:
        return INTERVAL_TYPE
    if of is PATH:
        return PATH_TYPE
    return pa.null() if of is NULL else arrow_type(of)


def cast_to(values: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """Return computed values in the type that the checker promised."""
    values = one_array(values) if isinstance(values, pa.ChunkedArray) else values
    if values.type == kind:
        return values
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), kind)
    is_decimal = pa.types.is_decimal(kind) or is_decimal_list(kind)
    try:
        if is_decimal:
            return exact_cast(values, kind)
        if pa.types.is_decimal(values.type) and pa.types.is_floating(kind):
            return to_doubles(values).cast(kind, safe=False)
        # A whole number that no float equals becomes the nearest one.
        return values.cast(kind, safe=not pa.types.is_floating(kind))
    except pa.ArrowInvalid as problem:
        details = BadValue(what="value", value=str(problem)[:_SHOWN], expected=str(kind))
        what = f"{MAX_PRECISION} digits" if is_decimal else "a 64-bit integer"
        raise QueryRuntimeError(f"a value does not fit {what}", details=details) from problem


def failure(call: Apply, problem: str, arguments: Sequence[pa.Array], at: int) -> QueryRuntimeError:
    """Return the error about one row, with the values that it was computed from."""
    values = ", ".join(str(argument[at].as_py()) for argument in arguments)
    details = BadValue(what=str(call), value=values, expected=EVERY_ROW)
    return QueryRuntimeError(f"{call} {problem} for the values {values}", details=details)


def numbers(arrays: Sequence[pa.Array], *, whole: bool) -> list[pa.Array]:
    """Return numbers as whole ones, or as floats."""
    return [cast_to(array, pa.int64() if whole else pa.float64()) for array in arrays]


def finite(call: Apply, found: pa.Array, arguments: Sequence[pa.Array]) -> pa.Array:
    """Return numbers, refusing the first one that is none."""
    plain = found.to_numpy(zero_copy_only=False)
    bad = np.flatnonzero(~np.isfinite(plain) & np.asarray(found.is_valid()))
    if len(bad):
        raise failure(call, "is not a finite number", arguments, int(bad[0]))
    return found


def is_whole(call: Apply) -> bool:
    """Whether a call gives whole numbers."""
    return call.type is not INTERVAL and call.type.scalar is Scalar.I64
