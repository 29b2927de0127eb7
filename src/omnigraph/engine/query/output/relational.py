"""Groups, distinct rows, order and cuts of computed rows, by the relational kernel, which spills when memory is short.

Expressions are computed by Arrow kernels before and after; what is sent between are plain columns. Dates travel as
numbers, because the kernel knows fewer of them than we do. Sums are exact, so that the order of rows does not show:
decimals travel as units of their last digit, and floats with their limbs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import arrow_type
from omnigraph.engine.columns import held_bytes
from omnigraph.engine.comparison import comparable, one_array
from omnigraph.engine.decimals import HALF, to_doubles, units_of
from omnigraph.engine.exact_sums import ExactSums, limb_columns
from omnigraph.engine.query.functions.decimals import finish_sums
from omnigraph.engine.query.functions.kernels import PATH_TYPE, cast_to
from omnigraph.engine.query.limits import Limits
from omnigraph.engine.query.output.few import MOST_BYTES, MOST_ROWS, arrange_few, can_compare, cut_few, group_few
from omnigraph.engine.relational import EnginePool, RelationalEngine
from omnigraph.errors import (
    BadValue,
    InternalError,
    LimitExceeded,
    OmnigraphError,
    QueryMemoryError,
    QueryRuntimeError,
)
from omnigraph.ir.model import AggregateCall
from omnigraph.records import record

if TYPE_CHECKING:
    import duckdb

NUMBER = "#n"
_FUNCTIONS = {
    "sum_int": "CAST(sum({0}) AS BIGINT)",
    "min": "min({0})",
    "max": "max({0})",
    "median": "median({0}::DOUBLE)",
    "stddev": "stddev_samp({0}::DOUBLE)",
    "variance": "var_samp({0}::DOUBLE)",
    "any": "bool_or({0})",
    "every": "bool_and({0})",
    "count": "count({0})",
}


@record
class SortKey:
    """A column to order by."""

    column: str
    descending: bool = False
    nulls_first: bool = True

    def sql(self, schema: pa.Schema) -> str:
        """Return the key as the kernel takes it."""
        way = "DESC" if self.descending else "ASC"
        return f"{_place(schema, self.column)} {way} NULLS {'FIRST' if self.nulls_first else 'LAST'}"


@record
class Measure:
    """An aggregate over columns: its argument, the condition of its rows, and the fraction of a percentile."""

    name: str
    call: AggregateCall
    argument: str | None
    where: str | None
    fraction: float | None = None


def quoted(name: str) -> str:
    """Return a name as the kernel takes it."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def _place(schema: pa.Schema, name: str) -> str:
    """Return what a column is ordered by. The kernel has NULL behind all values in lists, and we before them."""
    of = schema.field(name).type
    if pa.types.is_list(of):
        return _list_place(quoted(name))
    if of == PATH_TYPE:
        return f"[{', '.join(_list_place(f'{quoted(name)}.{part.name}') for part in of)}]"
    return quoted(name)


def _list_place(text: str) -> str:
    return f"list_transform({text}, lambda item: {{'has': item IS NOT NULL, 'value': item}})"


def encoded(values: pa.Array) -> pa.Array:
    """Return a column as the kernel takes it: dates as numbers, one zero per float, nothing without a type."""
    kind = values.type
    if pa.types.is_null(kind):
        return values.cast(pa.bool_())
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return values.cast(pa.list_(_plain(kind.value_type)))
    return comparable(values)


def decoded(values: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """Return a column of the kernel as what it was before."""
    plain = one_array(values) if isinstance(values, pa.ChunkedArray) else values
    if plain.type == kind:
        return plain
    if pa.types.is_null(kind):
        return pa.nulls(len(plain))
    if pa.types.is_date(kind):
        return plain.cast(_plain(kind)).view(kind)
    # The reads of a union may have numbers of other types.
    return cast_to(plain, kind)


def _plain(kind: pa.DataType) -> pa.DataType:
    return {pa.date32(): pa.int32(), pa.date64(): pa.int64()}.get(kind, kind)


class RelationalKernel:
    """One read's engine, taken with the first text that has to be run."""

    def __init__(self, engines: EnginePool, memory_bytes: int, limits: Limits) -> None:
        self._engines = engines
        self._memory_bytes = memory_bytes
        self._limits = limits
        self._engine: RelationalEngine | None = None
        self._has_failed = False

    def close(self) -> None:
        """Give the engine back; one that a text has failed in may not be as it was, and is ended."""
        engine, self._engine = self._engine, None
        if engine is None:
            return
        if self._has_failed:
            engine.close()
        else:
            self._engines.give_back(engine)

    def group(
        self, rows: RowStream, keys: Sequence[str], measures: Sequence[Measure], order: Sequence[str]
    ) -> pa.Table:
        """Return one row per group: its keys, then its measures; without keys there is always one.

        Lists of values are in the order of the columns ``order``, then in that of the rows.
        """
        few = self._few(rows)
        if few is not None and (groups := group_few(few, keys, measures, (*order, NUMBER))) is not None:
            return groups
        source, texts = "rows", []
        firsts = []
        exact = [measure for measure in measures if _is_exact(measure)]
        for at, measure in enumerate(measures):
            text, first = _measure_sql(measure, keys, at, _row_order(rows.schema, order))
            parts = _exact_parts(measure, text) if measure in exact else {measure.name: text}
            texts += [f"{part} AS {quoted(name)}" for name, part in parts.items()]
            firsts += [first] if first else []
        if firsts:
            source = f"(SELECT *, {', '.join(firsts)} FROM rows)"  # noqa: S608 - names are quoted, numbers are ours
        named = [quoted(key) for key in keys]
        columns = ", ".join([*named, *texts]) or "1"
        grouped = f" GROUP BY {', '.join(named)}" if named else ""
        decimals = {m.argument: m for m in measures if _is_of_decimals(m)}
        floats = [m.argument for m in exact if m.argument is not None and m.argument not in decimals]
        stream = RowStream(rows.schema, rows.batches, decimals, dict.fromkeys(floats))
        found = self._run(f"SELECT {columns} FROM {source}{grouped}", stream)  # noqa: S608 - as above
        if not exact:
            return found
        sums = {measure.name: _finished(found, measure) for measure in exact}
        names = [*keys, *(measure.name for measure in measures)]
        return pa.table({name: sums[name] if name in sums else found.column(name) for name in names})

    def arrange(
        self,
        rows: RowStream,
        shown: Sequence[str],
        *,
        is_distinct: bool,
        order: Sequence[SortKey],
        per: Sequence[str],
        offset: int,
        limit: int | None,
        best: str | None = None,
    ) -> pa.Table:
        """Return the columns to be shown of the rows, each row once if they are distinct, in order, and cut.

        ``best`` is a column that is not looked at when rows are made distinct: each has the least of its values.
        """
        wanted = dict.fromkeys([*shown, *(key.column for key in order), *per])
        different = [name for name in wanted if name != best]
        if can_compare(rows.schema, wanted) and (few := self._few(rows)) is not None:
            arranged = arrange_few(few, different if is_distinct else (), best, order)
            return cut_few(arranged, shown, per, offset, limit)
        columns = ", ".join(quoted(name) for name in shown)
        every = ", ".join(quoted(name) for name in different)
        keys = ", ".join(key.sql(rows.schema) for key in order)
        source = f"(SELECT DISTINCT {every} FROM rows)" if is_distinct else "rows"  # noqa: S608 - names are quoted
        if best is not None:
            least = f"min({quoted(best)}) AS {quoted(best)}"
            source = f"(SELECT {every}, {least} FROM rows GROUP BY {every})"  # noqa: S608 - names are quoted
        text = f"SELECT {columns} FROM {source}"  # noqa: S608 - names are quoted
        if per:
            groups = ", ".join(quoted(name) for name in per)
            rank = f"row_number() OVER (PARTITION BY {groups}{f' ORDER BY {keys}' if keys else ''})"
            text += f" QUALIFY {rank} > {offset}"
            text += f" AND {rank} <= {offset + limit}" if limit is not None else ""
        text += f" ORDER BY {keys}" if keys else ""
        if not per:
            text += f" LIMIT {limit}" if limit is not None else ""
            text += f" OFFSET {offset}" if offset else ""
        return self._run(text, rows)

    def _few(self, rows: RowStream) -> pa.Table | None:
        """Return all rows if they are few; None, with all of them still to come, if they are not."""
        held: list[pa.RecordBatch] = []
        batches, kept_bytes, count = iter(rows.batches), 0, 0
        try:
            for batch in batches:
                held.append(batch)
                count += batch.num_rows
                batch_bytes = held_bytes(batch)
                if count > MOST_ROWS or kept_bytes + batch_bytes > MOST_BYTES:
                    rows.batches = chain(held, batches)
                    return None
                self._limits.hold(batch_bytes)
                kept_bytes += batch_bytes
            rows.batches = held
            return pa.Table.from_batches(held, rows.schema)
        finally:
            self._limits.hold(-kept_bytes)

    def _run(self, text: str, rows: RowStream) -> pa.Table:
        if self._engine is None:
            self._engine = self._engines.take(self._memory_bytes)
        # Rows may come from an earlier stage that is still running: each text has a cursor of its own.
        cursor = self._engine.connection.cursor()
        try:
            with self._translated(rows):
                cursor.register("rows", rows.reader())
                found = cursor.sql(text).to_arrow_table()
        except BaseException:
            self._has_failed = True
            raise
        finally:
            cursor.close()
        self._limits.check(found.nbytes)
        return found

    @contextmanager
    def _translated(self, rows: RowStream) -> Iterator[None]:
        import duckdb  # noqa: PLC0415 - loaded with the first text that is run

        try:
            yield
        except duckdb.Error as error:
            if rows.problem is not None:
                raise rows.problem from None
            raise self._error(error) from error

    def _error(self, error: duckdb.Error) -> OmnigraphError:
        import duckdb  # noqa: PLC0415 - as above

        if isinstance(error, duckdb.OutOfMemoryException):
            limit = self._memory_bytes
            needs = LimitExceeded(resource="query memory in bytes", limit=limit, actual=limit)
            return QueryMemoryError(f"the query needs more memory than the limit of {limit} bytes", details=needs)
        if isinstance(error, duckdb.ConversionException | duckdb.OutOfRangeException):
            details = BadValue(what="sum_int", value=str(error)[:200], expected="a 64-bit integer")
            return QueryRuntimeError("sum_int does not fit a 64-bit integer", details=details)
        return InternalError(f"cannot compute the rows of the query: {error}")


_SUMS = frozenset({"sum", "avg"})
_OF_FLOATS = frozenset({"median", "percentile", "stddev", "variance"})


def _is_of_decimals(measure: Measure) -> bool:
    argument = measure.call.argument
    is_decimal = argument is not None and argument.type.is_decimal
    return is_decimal and measure.call.function in _SUMS | _OF_FLOATS


def _is_exact(measure: Measure) -> bool:
    """Whether a measure adds numbers: the kernel is given integers that they consist of."""
    return measure.argument is not None and measure.call.function in _SUMS


# The places of limbs that have columns of their own: of numbers between 1e-28 and 1e38.
_FIRST_PLACE, _PLACES = 31, 10


def _exact_parts(measure: Measure, text: str) -> dict[str, str]:
    """Return the sums of the integers that numbers consist of, and how many numbers there are.

    ``text`` gives a column of the rows that the measure is about, as in ``CASE WHEN … THEN {} END``.
    """
    argument = measure.argument or ""
    of = text.format(quoted(argument))
    count = {f"{measure.name}#count": f"count({of})"}
    if _is_of_decimals(measure):
        # Two halves of each number, which no number of rows can make too large.
        units = f"({of})::HUGEINT"
        return count | {
            f"{measure.name}#high": f"sum({units} // {HALF}::HUGEINT)",
            f"{measure.name}#low": f"sum({units} % {HALF}::HUGEINT)",
        }
    columns = {
        f"{measure.name}#{at}": f"CAST(sum({text.format(quoted(_limb(argument, at)))}) AS BIGINT)"
        for at in range(_PLACES)
    }
    # The few numbers that have no limbs in those places, each with how often it is there.
    return count | columns | {f"{measure.name}#others": f"histogram({text.format(quoted(_others(argument)))})"}


def _limb(argument: str, at: int) -> str:
    return f"{argument}#limb{at}"


def _others(argument: str) -> str:
    return f"{argument}#others"


def _finished(found: pa.Table, measure: Measure) -> pa.Array:
    count = one_array(found.column(f"{measure.name}#count"))
    if not _is_of_decimals(measure):
        return _finished_floats(found, measure, count)
    high, low = (one_array(found.column(f"{measure.name}#{part}")) for part in ("high", "low"))
    assert measure.call.argument is not None  # noqa: S101 - it adds something
    return finish_sums(
        measure.call.function, high, low, count, measure.call.argument.type, arrow_type(measure.call.type)
    )


def _finished_floats(found: pa.Table, measure: Measure, count: pa.Array) -> pa.Array:
    columns = [pc.fill_null(one_array(found.column(f"{measure.name}#{at}")), 0).to_numpy() for at in range(_PLACES)]
    sums = ExactSums.of_limbs(_FIRST_PLACE, np.column_stack(columns))
    others = one_array(found.column(f"{measure.name}#others"))
    if len(others) and len(others.keys):
        lengths = np.diff(others.offsets.to_numpy())
        groups = np.repeat(np.arange(len(others)), lengths)
        span = slice(others.offsets[0].as_py(), others.offsets[-1].as_py())
        numbers, times = others.keys.to_numpy()[span], others.items.to_numpy()[span].astype(np.int64)
        single = ExactSums.of(numbers, np.arange(len(numbers)), len(numbers)).times(times)
        sums = sums.plus(single.merge(groups, len(others)))
    total = pc.if_else(pc.greater(count, 0), pa.array(sums.rounded()), None)
    return total if measure.call.function == "sum" else pc.divide(total, count.cast(pa.float64()))


def _row_order(schema: pa.Schema, order: Sequence[str]) -> str:
    return ", ".join(f"{_place(schema, name)} NULLS FIRST" for name in (*order, NUMBER))


def _measure_sql(measure: Measure, keys: Sequence[str], at: int, order: str) -> tuple[str, str | None]:
    """Return the text of an aggregate, and that of the column which marks first occurrences, if it needs one.

    For an exact one the text is that of a column, whose name is left open.
    """
    call = measure.call
    if measure.argument is None:
        return ("count(*)" if measure.where is None else f"count({_where(measure.where, '1')})"), None
    argument = quoted(measure.argument)
    if call.function == "collect":
        conditions = [f"{argument} IS NOT NULL", *([] if measure.where is None else [quoted(measure.where)])]
        first = None
        if call.is_distinct:
            mark = quoted(f"#first{at}")
            partition = ", ".join([*(quoted(key) for key in keys), argument, *conditions[1:]])
            first = f"row_number() OVER (PARTITION BY {partition} ORDER BY {order}) = 1 AS {mark}"
            conditions.append(mark)
        value = f"CASE WHEN {' AND '.join(conditions)} THEN {argument} END"
        return f"coalesce(list_filter(list({value} ORDER BY {order}), lambda x: x IS NOT NULL), [])", first
    if _is_exact(measure):
        conditions = [] if measure.where is None else [quoted(measure.where)]
        first = None
        if call.is_distinct:
            mark = quoted(f"#first{at}")
            partition = ", ".join([*(quoted(key) for key in keys), argument, *conditions])
            first = f"row_number() OVER (PARTITION BY {partition}) = 1 AS {mark}"
            conditions.append(mark)
        chosen = " AND ".join(conditions).replace("{", "{{").replace("}", "}}")
        return (f"CASE WHEN {chosen} THEN {{}} END" if conditions else "{}"), first
    if measure.where is not None:
        argument = _where(measure.where, argument)
    distinct = "DISTINCT " if call.is_distinct else ""
    if call.function == "percentile" and measure.fraction is None:
        return "CAST(NULL AS DOUBLE)", None
    if call.function == "percentile":
        return f"quantile_cont({distinct}({argument})::DOUBLE, {measure.fraction!r})", None
    head, opening, rest = _FUNCTIONS[call.function].format(f"({argument})").partition("(")
    if head == "CAST":
        return f"CAST(sum({distinct}{argument}) AS BIGINT)", None
    return f"{head}{opening}{distinct}{rest}", None


def _where(condition: str, value: str) -> str:
    """Return a value that is NULL, which aggregates leave out, where a condition is not true.

    A filter of the kernel would keep rows of all columns for each aggregate: memory by the square of their number.
    """
    return f"CASE WHEN {quoted(condition)} THEN {value} END"


class RowStream:
    """Batches on their way into the kernel. What goes wrong while they are made is kept: the kernel only tells that.

    ``decimals`` are the columns of decimals that a measure adds up, or takes as floats; ``floats`` the columns of other
    numbers that one adds up, which get their limbs beside them.
    """

    def __init__(
        self,
        schema: pa.Schema,
        batches: Iterable[pa.RecordBatch],
        decimals: Mapping[str | None, Measure] = MappingProxyType({}),
        floats: Iterable[str] = (),
    ) -> None:
        fields = [
            field.with_type(_taken(pa.array([], field.type), decimals[field.name]).type)
            if field.name in decimals
            else field
            for field in schema
        ]
        self._floats = tuple(floats)
        for name in self._floats:
            fields += [pa.field(_limb(name, at), pa.int64()) for at in range(_PLACES)]
            fields.append(pa.field(_others(name), pa.float64()))
        self.schema = pa.schema(fields)
        self.batches = batches
        self._decimals = decimals
        self.problem: BaseException | None = None

    def reader(self) -> pa.RecordBatchReader:
        """Return the stream."""
        return pa.RecordBatchReader.from_batches(self.schema, self._watched())

    def _watched(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self.batches:
                yield self._prepared(batch) if self._decimals or self._floats else batch
        except BaseException as problem:
            self.problem = problem
            raise

    def _prepared(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [
            _taken(column, self._decimals[name]) if name in self._decimals else column
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        for name in self._floats:
            columns += _limbs_of(batch.column(name))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _limbs_of(column: pa.Array) -> Iterator[pa.Array]:
    """Yield the limbs of numbers, place by place, then the numbers that have none."""
    values = np.asarray(pc.fill_null(column.cast(pa.float64(), safe=False), 0.0))
    limbs, others = limb_columns(values, _FIRST_PLACE, _PLACES)
    yield from map(pa.array, limbs)
    yield pa.array(values, mask=~others)


def _taken(values: pa.Array, measure: Measure) -> pa.Array:
    """Return decimals as a measure takes them."""
    return units_of(values) if _is_exact(measure) else to_doubles(values)
