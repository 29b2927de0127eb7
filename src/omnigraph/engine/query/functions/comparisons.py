"""Kernels that compare values, and those of lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import PropertyType
from omnigraph.engine.query.functions.kernels import Kernel, cast_to, value_arrow_type
from omnigraph.engine.query.functions.moments import total_ms
from omnigraph.engine.query.predicates import compare_arrays
from omnigraph.ir.model import Apply
from omnigraph.ir.types import INTERVAL, exact_decimal
from omnigraph.values.decimals import fit_decimal


def member_of(values: pa.Array, items: list[Any] | pa.Array | None) -> pa.Array:
    """Return whether each value is a member of the items: one list for all rows, or one per row.

    Unknown where the value or the list is NULL, and where the value is not found but an item is NULL.
    """
    count = len(values)
    if items is None:
        return pa.nulls(count, pa.bool_())
    if isinstance(items, list) and not items:
        return pa.array(np.zeros(count, dtype=np.bool_))
    if isinstance(items, list):
        return _member_of_all(values, items)
    found = np.zeros(count, dtype=np.bool_)
    is_empty = np.asarray(pc.fill_null(pc.equal(pc.list_value_length(items), 0), fill_value=False))
    unknown = (np.asarray(items.is_null()) | np.asarray(values.is_null())) & ~is_empty
    members, rows = pc.list_flatten(items), pc.list_parent_indices(items)
    if len(members):
        at = rows.to_numpy(zero_copy_only=False)
        same = np.asarray(
            compare_arrays(members, "=", values.take(rows)).to_numpy(zero_copy_only=False), dtype=np.bool_
        )
        found[at[same]] = True
        unknown[at[np.asarray(members.is_null())]] = True
    return pa.array(found, pa.bool_(), mask=unknown & ~found)


def _member_of_all(values: pa.Array, items: list[Any]) -> pa.Array:
    known = [item for item in items if item is not None]
    found = np.zeros(len(values), dtype=np.bool_)
    if known and not pa.types.is_null(values.type):
        try:
            wanted = pa.array(_of_type(known, values.type), values.type)
            found = np.asarray(pc.is_in(values, value_set=wanted).to_numpy(zero_copy_only=False), dtype=np.bool_)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            for item in known:
                one = pa.array([item]).take(pa.array(np.zeros(len(values), dtype=np.int64)))
                found |= np.asarray(compare_arrays(values, "=", one).to_numpy(zero_copy_only=False), dtype=np.bool_)
    unknown = np.asarray(values.is_null())
    return pa.array(found & ~unknown, pa.bool_(), mask=unknown | (~found & (len(known) < len(items))))


def _of_type(items: list[Any], kind: pa.DataType) -> list[Any]:
    """Return the items that can be values of a type: no decimal equals a number of more digits."""
    if not pa.types.is_decimal(kind):
        return items
    exact = (exact_decimal(item) for item in items)
    fitted = (None if one is None else fit_decimal(one, kind.precision, kind.scale) for one in exact)
    return [one for one in fitted if one is not None]


def _comparison(call: Apply, arguments: list[pa.Array], types: list[PropertyType]) -> pa.Array:
    left, right = arguments
    is_null = np.asarray(left.is_null()) | np.asarray(right.is_null())
    if is_null.all():
        return pa.nulls(len(left), pa.bool_())
    if INTERVAL in types:
        left, right = total_ms(left), total_ms(right)
    op: Any = call.function
    holds = compare_arrays(left, op, right)
    return pa.array(np.asarray(holds.to_numpy(zero_copy_only=False), dtype=np.bool_), pa.bool_(), mask=is_null)


def _not(_: Apply, arguments: list[pa.Array], __: list[PropertyType]) -> pa.Array:
    return pc.invert(cast_to(arguments[0], pa.bool_()))


def _extreme(kernel: Callable[..., Any]) -> Kernel:
    def choose(call: Apply, arguments: list[pa.Array], _: list[PropertyType]) -> pa.Array:
        kind = value_arrow_type(call.type)
        plain = pa.uint8() if pa.types.is_boolean(kind) else kind
        found = kernel(*(cast_to(cast_to(array, kind), plain) for array in arguments), skip_nulls=False)
        return cast_to(found, kind)

    return choose


def _size(_: Apply, arguments: list[pa.Array], __: list[PropertyType]) -> pa.Array:
    if pa.types.is_null(arguments[0].type):
        return pa.nulls(len(arguments[0]), pa.int64())
    return pc.list_value_length(arguments[0]).cast(pa.int64())


def _item(_: Apply, arguments: list[pa.Array], __: list[PropertyType]) -> pa.Array:
    lists, indexes = arguments
    if pa.types.is_null(lists.type):
        return pa.nulls(len(lists))
    lengths = np.asarray(pc.fill_null(pc.list_value_length(lists), 0)).astype(np.int64)
    at = np.asarray(pc.fill_null(cast_to(indexes, pa.int64()), -1))
    is_inside = (at >= 0) & (at < lengths)
    members = pc.list_flatten(lists)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]) if len(lengths) else lengths
    places = pa.array(np.where(is_inside, starts + at, 0), pa.int64(), mask=~is_inside)
    return members.take(places)


def _list(call: Apply, arguments: list[pa.Array], _: list[PropertyType]) -> pa.Array:
    kind = value_arrow_type(call.type)
    members = pa.concat_arrays([cast_to(array, kind.value_type) for array in arguments])
    count, width = len(arguments[0]), len(arguments)
    order = np.arange(count * width, dtype=np.int64).reshape(width, count).T.ravel()
    offsets = pa.array(np.arange(count + 1, dtype=np.int32) * width)
    return pa.ListArray.from_arrays(offsets, members.take(pa.array(order))).cast(kind)


KERNELS: dict[str, Kernel] = {
    **dict.fromkeys(("=", "!=", "<", "<=", ">", ">="), _comparison),
    "not": _not,
    "item": _item,
    "list": _list,
    "greatest": _extreme(pc.max_element_wise),
    "least": _extreme(pc.min_element_wise),
    "size": _size,
}
