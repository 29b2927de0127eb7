"""Groups, distinct rows, order and cuts of few rows, by Arrow and numpy.

Handing a few rows to the relational engine and back takes longer than everything else that a short read does. What is
returned is what the engine returns; where a value cannot be compared here, nothing is, and the engine is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.comparison import one_array
from omnigraph.engine.exact_sums import ExactSums

if TYPE_CHECKING:
    from omnigraph.engine.query.output.relational import Measure, SortKey

MOST_ROWS, MOST_BYTES = 1 << 13, 1 << 21
_NULL = -1
_Integers = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]


class Rows:
    """Rows with a number for each value of a column: which one it is, and where it stands among the others."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self._encoded: dict[str, pa.DictionaryArray] = {}
        self._places: dict[str, _Integers] = {}

    def places(self, name: str) -> _Integers:
        """Return where the values of a column stand; NULL is at -1."""
        if name not in self._places:
            values = self._values(name)
            order = np.asarray(pc.array_sort_indices(values.dictionary))
            place = np.empty(len(order) + 1, dtype=np.int64)
            place[order] = np.arange(len(order))
            place[-1] = _NULL
            self._places[name] = place[np.asarray(pc.fill_null(values.indices, _NULL))]
        return self._places[name]

    def groups(self, names: Sequence[str]) -> tuple[_Integers, _Integers]:
        """Return the first row of each group of equal values, and the number of each row's group."""
        first, codes = np.zeros(min(1, self.table.num_rows), np.int64), np.zeros(self.table.num_rows, np.int64)
        for name in names:
            values = self._values(name)
            codes = codes * (len(values.dictionary) + 1) + np.asarray(pc.fill_null(values.indices, _NULL)) + 1
            _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
        # In the order in which they come first.
        order = np.argsort(first, kind="stable")
        number = np.empty(len(order), dtype=np.int64)
        number[order] = np.arange(len(order))
        return first[order], number[codes]

    def order(self, keys: Sequence[SortKey]) -> _Integers:
        """Return the rows in the order of some keys."""
        columns = [one_array(self.table.column(key.column)) for key in keys]
        if not any(column.null_count or pa.types.is_floating(column.type) for column in columns):
            table = pa.table({str(at): column for at, column in enumerate(columns)})
            ways = [(str(at), "descending" if key.descending else "ascending") for at, key in enumerate(keys)]
            return np.asarray(pc.sort_indices(table, sort_keys=ways))
        numbers = []
        for key in keys:
            places = self.places(key.column)
            numbers.append(np.where(places == _NULL, 0 if key.nulls_first else 2, 1))
            numbers.append(-places if key.descending else places)
        return _sorted(numbers, self.table.num_rows)

    def take(self, rows: _Integers) -> Rows:
        """Return some of the rows."""
        return Rows(self.table.take(pa.array(rows)))

    def _values(self, name: str) -> pa.DictionaryArray:
        if name not in self._encoded:
            self._encoded[name] = one_array(self.table.column(name)).dictionary_encode()
        return self._encoded[name]


def can_compare(schema: pa.Schema, names: Iterable[str]) -> bool:
    """Return True if the values of all these columns can be compared here."""
    return not any(pa.types.is_nested(schema.field(name).type) for name in names)


def _sorted(columns: Sequence[npt.NDArray[np.generic]], count: int) -> _Integers:
    order: _Integers = np.lexsort(columns[::-1]) if columns else np.arange(count)
    return order


def arrange_few(table: pa.Table, different: Sequence[str], best: str | None, order: Sequence[SortKey]) -> Rows:
    """Return rows in order; with ``different`` each combination of these columns once, with the least of ``best``."""
    rows = Rows(table)
    if table.num_rows <= 1:
        return rows
    if different and best is not None:
        places = rows.places(best)
        rows = rows.take(_sorted([places == _NULL, places], table.num_rows))
    if different:
        rows = rows.take(rows.groups(different)[0])
    return rows.take(rows.order(order)) if order else rows


def cut_few(rows: Rows, shown: Sequence[str], per: Sequence[str], offset: int, limit: int | None) -> pa.Table:
    """Return columns of the rows from ``offset`` on, ``limit`` at most; with ``per`` of each group of equal values."""
    found = rows.table.select(list(shown))
    if not per:
        return found.slice(offset, limit)
    codes = rows.groups(per)[1]
    by_group = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[by_group], prepend=-1))
    number = np.empty(len(codes), dtype=np.int64)
    number[by_group] = np.arange(len(codes)) - np.repeat(starts, np.diff(starts, append=len(codes)))
    return found.take(
        pa.array(np.flatnonzero((number >= offset) & (True if limit is None else number < offset + limit)))
    )


def group_few(
    table: pa.Table, keys: Sequence[str], measures: Sequence[Measure], order: Sequence[str]
) -> pa.Table | None:
    """Return what the kernel's ``group`` does; None if something is asked for that is not computed here."""
    if not (keys or measures):
        # A row without columns, which only the engine can make.
        return None
    compared = {*keys, *order, *(measure.argument for measure in measures if measure.argument is not None)}
    if not can_compare(table.schema, compared) or not all(_is_computed(table.schema, one) for one in measures):
        return None
    rows = Rows(table)
    first, codes = rows.groups(keys)
    count = len(first) if keys else 1
    columns = {key: table.column(key).take(pa.array(first)) for key in keys}
    for measure in measures:
        values = _computed(rows, measure, codes, count, order)
        if values is None:
            return None
        columns[measure.name] = values
    return pa.table(columns)


def _is_computed(schema: pa.Schema, measure: Measure) -> bool:
    if measure.argument is None:
        return True
    if measure.call.function in _SUMS:
        return not pa.types.is_decimal(schema.field(measure.argument).type)
    return measure.call.function in {*_FUNCTIONS, "collect"}


_SUMS = frozenset({"sum", "avg"})


def _computed(
    rows: Rows, measure: Measure, codes: _Integers, count: int, order: Sequence[str]
) -> pa.Array | pa.ChunkedArray | None:
    table = rows.table
    chosen: _Mask = np.ones(table.num_rows, dtype=np.bool_)
    if measure.where is not None:
        chosen &= np.asarray(pc.fill_null(table.column(measure.where), fill_value=False))
    if measure.argument is None:
        return pa.array(np.bincount(codes[chosen], minlength=count))
    chosen &= np.asarray(table.column(measure.argument).is_valid())
    at = np.flatnonzero(chosen)
    if measure.call.function == "collect":
        at = at[_sorted([codes[at], *(rows.places(name)[at] for name in order)], len(at))]
    if measure.call.is_distinct:
        pairs = np.column_stack([codes[at], rows.places(measure.argument)[at]])
        at = at[np.sort(np.unique(pairs, axis=0, return_index=True)[1])] if len(at) else at
    values = one_array(table.column(measure.argument))
    if measure.call.function == "collect":
        ends = np.cumsum(np.bincount(codes[at], minlength=count))
        return pa.ListArray.from_arrays(pa.array(np.r_[0, ends], pa.int32()), values.take(pa.array(at)))
    if measure.call.function in _SUMS:
        return _added(values, at, codes[at], count, is_mean=measure.call.function == "avg")
    return _FUNCTIONS[measure.call.function](values, rows.places(measure.argument), at, codes[at], count)


def _added(values: pa.Array, at: _Integers, codes: _Integers, count: int, *, is_mean: bool) -> pa.Array:
    numbers = np.asarray(values.take(pa.array(at)).cast(pa.float64(), safe=False))
    how_many = np.bincount(codes, minlength=count)
    total = pa.array(ExactSums.of(numbers, codes, count).rounded(), mask=how_many == 0)
    return pc.divide(total, pa.array(how_many).cast(pa.float64())) if is_mean else total


def _counted(_: pa.Array, __: _Integers, ___: _Integers, codes: _Integers, count: int) -> pa.Array:
    return pa.array(np.bincount(codes, minlength=count))


def _extreme(*, is_greatest: bool) -> Callable[[pa.Array, _Integers, _Integers, _Integers, int], pa.Array]:
    def chosen(values: pa.Array, places: _Integers, at: _Integers, codes: _Integers, count: int) -> pa.Array:
        order = np.lexsort((-places[at] if is_greatest else places[at], codes))
        found, first = np.unique(codes[order], return_index=True)
        rows = np.full(count, _NULL)
        rows[found] = at[order][first]
        return values.take(pa.array(rows, mask=rows == _NULL))

    return chosen


def _integer_sum(values: pa.Array, _: _Integers, at: _Integers, codes: _Integers, count: int) -> pa.Array | None:
    sums: list[int | None] = [None] * count
    for number, code in zip(values.take(pa.array(at)).to_pylist(), codes.tolist(), strict=True):
        sums[code] = (sums[code] or 0) + int(number)
    try:
        return pa.array(sums, pa.int64())
    except (OverflowError, pa.ArrowInvalid):
        # The engine says what is wrong.
        return None


_FUNCTIONS: Mapping[str, Callable[[pa.Array, _Integers, _Integers, _Integers, int], pa.Array | None]] = {
    "count": _counted,
    "min": _extreme(is_greatest=False),
    "max": _extreme(is_greatest=True),
    "any": _extreme(is_greatest=True),
    "every": _extreme(is_greatest=False),
    "sum_int": _integer_sum,
}
