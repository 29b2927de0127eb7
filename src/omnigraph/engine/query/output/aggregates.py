"""Aggregates with implicit groups.

Rows are first gathered by the entities behind the group columns, which are plain numbers, and only the few groups that
remain are gathered by their values. Partial sums of each morsel are kept, never its rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.predicates import comparable
from omnigraph.engine.query.context import QueryContext
from omnigraph.engine.query.frame import Frame
from omnigraph.engine.query.output.columns import output_type, scalar_column
from omnigraph.ir.model import AggregateCall, Column, EntityRef, Output, RankingValue, ReadPlan, Scalarlike

_WEIGHT = "weight"
# Partial groups are merged when so many of them have gathered.
_PARTIAL_ROWS = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measure:
    """One thing that is added up: how often (None), or the values of an argument by a function."""

    name: str
    function: str
    argument: Scalarlike | None

    @property
    def merge(self) -> str:
        """How partial results become one."""
        return "sum" if self.function == "count" else self.function


def aggregate(context: QueryContext, read: ReadPlan, frames: Iterator[Frame]) -> pa.Table:
    """Return one row per group, with the columns of the result."""
    keys = [read.outputs[index] for index in read.groups or ()]
    variables = list(dict.fromkeys(name for output in keys if (name := _variable(output)) is not None))
    measures = _measures(read)
    partials: list[pa.Table] = []
    held, has_rows = 0, False
    for frame in frames:
        has_rows = has_rows or frame.length > 0
        context.limits.check(8 * frame.length * (len(variables) + len(measures)))
        part = _partial(context, frame, variables, measures)
        partials.append(part)
        held += part.num_rows
        if held > _PARTIAL_ROWS:
            partials = [_merge(partials, variables, measures)]
            held = partials[0].num_rows
            context.limits.check(partials[0].nbytes)
    if not partials:
        partials = [_empty(context, variables, measures)]
    by_entity = _merge(partials, variables, measures)
    if keys and not has_rows:
        by_entity = by_entity.slice(0, 0)
    by_value = _by_value(context, by_entity, variables, keys, measures)
    return _finish(read, by_value)


def _variable(output: Output) -> str | None:
    """Return the variable behind a group column; a parameter has none and is the same in every row."""
    expression = output.expression
    return expression.variable if isinstance(expression, Column | EntityRef) else None


def _measures(read: ReadPlan) -> list[_Measure]:
    found: list[_Measure] = []
    for index, output in enumerate(read.outputs):
        call = output.expression
        if not isinstance(call, AggregateCall):
            continue
        is_rows = call.function == "count" and isinstance(call.argument, EntityRef)
        if call.function in {"sum", "avg", "count"}:
            argument = None if is_rows else call.argument
            found.append(_Measure(name=f"count{index}", function="count", argument=argument))
        if call.function in {"sum", "avg"}:
            found.append(_Measure(name=f"sum{index}", function="sum", argument=call.argument))
        if call.function in {"min", "max"}:
            found.append(_Measure(name=f"{call.function}{index}", function=call.function, argument=call.argument))
    return found


def _partial(context: QueryContext, frame: Frame, variables: Sequence[str], measures: Sequence[_Measure]) -> pa.Table:
    is_plain = len(variables) == 1 and not context.keeps_order and all(item.merge == "sum" for item in measures)
    if is_plain and context.entities_of(variables[0]).prefers_memory(frame.length):
        return _binned(context, frame, variables[0], measures)
    weights = np.ones(frame.length, dtype=np.int64) if frame.weights is None else frame.weights
    columns = {name: pa.array(frame.ids[name]) for name in variables}
    for measure in measures:
        columns[measure.name] = _measured(context, frame, measure, weights)
    return _group(pa.table(columns), variables, measures) if columns else pa.table({})


def _binned(context: QueryContext, frame: Frame, variable: str, measures: Sequence[_Measure]) -> pa.Table:
    """Add up by the code of one variable's entity, which is a place in an array."""
    entities = context.entities_of(variable)
    codes, count = entities.codes(frame.ids[variable]), entities.image.row_count
    present = np.zeros(count, dtype=np.bool_)
    present[codes] = True
    chosen = np.flatnonzero(present)
    columns = {variable: pa.array(entities.all_ids[chosen])}
    for measure in measures:
        sums = np.bincount(codes, weights=_addends(context, frame, measure), minlength=count)[chosen]
        columns[measure.name] = pa.array(sums if measure.function == "sum" else sums.astype(np.int64))
    return pa.table(columns)


def _addends(context: QueryContext, frame: Frame, measure: _Measure) -> npt.NDArray[np.float64] | None:
    """Return what each row adds; None for one."""
    if measure.argument is None:
        return None if frame.weights is None else frame.weights.astype(np.float64)
    if isinstance(measure.argument, Column):
        entities = context.entities_of(measure.argument.variable)
        if measure.argument.type.is_numeric and entities.prefers_memory(frame.length):
            codes = entities.codes(frame.ids[measure.argument.variable])
            numbers, is_valid = entities.numbers(measure.argument.property)
            return (numbers if measure.function == "sum" else is_valid.astype(np.float64))[codes]
    values = scalar_column(context, frame, measure.argument)
    if measure.function == "count":
        return np.asarray(values.is_valid(), dtype=np.float64)
    return np.asarray(pc.fill_null(values.cast(pa.float64(), safe=False), 0.0))


def _measured(context: QueryContext, frame: Frame, measure: _Measure, weights: np.ndarray) -> pa.Array:
    if measure.argument is None:
        return pa.array(weights)
    values = scalar_column(context, frame, measure.argument)
    if measure.function == "count":
        return pa.array(np.where(values.is_valid().to_numpy(zero_copy_only=False), weights, 0))
    if measure.function == "sum":
        return values.cast(pa.float64(), safe=False)
    return values


def _group(rows: pa.Table, keys: Sequence[str], measures: Sequence[_Measure]) -> pa.Table:
    """Merge partial results of equal keys."""
    if keys:
        plan = [(measure.name, measure.merge) for measure in measures if not _is_text(rows, measure)]
        grouped = rows.group_by(list(keys), use_threads=False).aggregate(plan)
        names = [f"{name}_{function}" for name, function in plan]
        columns = {key: grouped.column(key) for key in keys}
        columns |= {name: grouped.column(full) for (name, _), full in zip(plan, names, strict=True)}
        texts = [measure for measure in measures if _is_text(rows, measure)]
        found = pa.table(columns)
        return _with_texts(rows, found, keys, texts) if texts else found
    merged = {}
    for measure in measures:
        column = rows.column(measure.name)
        function = {"sum": pc.sum, "min": pc.min, "max": pc.max}[measure.merge]
        scalar = _extreme_text(column, measure.merge) if _is_text(rows, measure) else function(column)
        merged[measure.name] = pa.array([scalar.as_py()], column.type)
    return pa.table(merged)


def _is_text(rows: pa.Table, measure: _Measure) -> bool:
    return bool(pa.types.is_string(rows.schema.field(measure.name).type))


def _extreme_text(column: pa.ChunkedArray, function: str) -> pa.Scalar:
    order = "ascending" if function == "min" else "descending"
    at = pc.sort_indices(column.drop_null(), sort_keys=[("", order)])
    return column.drop_null()[at[0].as_py()] if len(at) else pa.scalar(None, pa.string())


def _with_texts(rows: pa.Table, found: pa.Table, keys: Sequence[str], texts: Sequence[_Measure]) -> pa.Table:
    """Add the least or greatest text of each group: texts are ranked, and ranks are compared."""
    for measure in texts:
        column = rows.column(measure.name)
        distinct = pc.unique(column).drop_null()
        in_order = distinct.take(pc.sort_indices(distinct))
        numbered = rows.select(list(keys)).append_column(measure.name, pc.index_in(column, value_set=in_order))
        grouped = numbered.group_by(list(keys), use_threads=False).aggregate([(measure.name, measure.merge)])
        # The same keys in the same order of first appearance, since the rows are the same.
        best = in_order.take(grouped.column(f"{measure.name}_{measure.merge}").combine_chunks())
        found = found.append_column(measure.name, best)
    return found


def _merge(partials: list[pa.Table], keys: Sequence[str], measures: Sequence[_Measure]) -> pa.Table:
    return partials[0] if len(partials) == 1 else _group(pa.concat_tables(partials), keys, measures)


def _by_value(
    context: QueryContext,
    groups: pa.Table,
    variables: Sequence[str],
    keys: Sequence[Output],
    measures: Sequence[_Measure],
) -> pa.Table:
    """Merge the groups whose entities show the same values."""
    if not keys:
        return groups
    frame = Frame(length=groups.num_rows, ids={name: groups.column(name).to_numpy() for name in variables})
    columns: dict[str, pa.Array] = {}
    shown: dict[str, pa.DataType] = {}
    for index, output in enumerate(keys):
        assert not isinstance(output.expression, AggregateCall | RankingValue)  # noqa: S101 - none of them is a key
        values = scalar_column(context, frame, output.expression)
        shown[f"key{index}"] = values.type
        columns[f"key{index}"] = _groupable(values)
    names = list(columns)
    columns |= {measure.name: groups.column(measure.name) for measure in measures}
    merged = _group(pa.table(columns), names, measures)
    for at, name in enumerate(names):
        merged = merged.set_column(at, name, _shown(merged.column(name), shown[name]))
    return merged


def _groupable(values: pa.Array) -> pa.Array:
    """Return values that Arrow can group by: lists and vectors as their text form is not exact, so by number."""
    if pa.types.is_nested(values.type):
        return _NestedKeys.encode(values)
    return comparable(values)


def _shown(column: pa.ChunkedArray, of: pa.DataType) -> pa.Array:
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], column.type)
    if pa.types.is_nested(of):
        return _NestedKeys.decode(values, of)
    return values if values.type == of else values.view(of)


class _NestedKeys:
    """Lists and vectors as bytes that are equal exactly where the values are."""

    @staticmethod
    def encode(values: pa.Array) -> pa.Array:
        import msgspec  # noqa: PLC0415 - grouping by a list is rare

        encoder = msgspec.msgpack.Encoder()
        flat = values.cast(pa.list_(_plain(values.type.value_type)))
        return pa.array([None if item is None else encoder.encode(item) for item in flat.to_pylist()], pa.binary())

    @staticmethod
    def decode(values: pa.Array, of: pa.DataType) -> pa.Array:
        import msgspec  # noqa: PLC0415 - as above

        decoder = msgspec.msgpack.Decoder()
        items = [None if item is None else decoder.decode(item) for item in values.to_pylist()]
        return pa.array(items, pa.list_(_plain(of.value_type))).cast(of)


def _plain(of: pa.DataType) -> pa.DataType:
    return {pa.date32(): pa.int32(), pa.date64(): pa.int64()}.get(of, of)


def _finish(read: ReadPlan, groups: pa.Table) -> pa.Table:
    """Return the columns of the result: averages from sums and counts, NULL for sums of nothing."""
    keys = iter([name for name in groups.column_names if name.startswith("key")])
    columns = []
    for index, output in enumerate(read.outputs):
        call = output.expression
        if not isinstance(call, AggregateCall):
            columns.append(groups.column(next(keys)))
            continue
        of = output_type(output.type)
        if call.function == "count":
            columns.append(pc.fill_null(groups.column(f"count{index}"), 0).cast(of))
        elif call.function in {"sum", "avg"}:
            count = groups.column(f"count{index}")
            total = pc.if_else(pc.greater(pc.fill_null(count, 0), 0), groups.column(f"sum{index}"), None)
            columns.append(total if call.function == "sum" else pc.divide(total, count.cast(pa.float64())))
        else:
            columns.append(groups.column(f"{call.function}{index}").cast(of))
    return pa.Table.from_arrays([_one(column) for column in columns], names=[item.name for item in read.outputs])


def _one(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    if isinstance(column, pa.Array):
        return column
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _empty(context: QueryContext, variables: Sequence[str], measures: Sequence[_Measure]) -> pa.Table:
    nothing = Frame(length=0, ids=dict.fromkeys(context.variables, np.zeros(0, dtype=np.int64)))
    return _partial(context, nothing, variables, measures)
