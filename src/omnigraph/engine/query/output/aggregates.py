"""Aggregates with implicit groups.

Rows are first gathered by the entities behind the group columns, which are plain numbers, and only the few groups that
remain are gathered by their values. Partial sums of each morsel are kept, never its rows; they are exact, so that the
order of rows and morsels does not show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.comparison import comparable, one_array
from omnigraph.engine.exact_sums import PARTIAL, ExactSums
from omnigraph.engine.query.context import MatchedRows
from omnigraph.engine.query.entities import Entities
from omnigraph.engine.query.frame import Frame
from omnigraph.engine.query.output.ordering import PIECE_ROWS, output_type, parts_by_key, scalar_column
from omnigraph.ir.model import AggregateCall, Column, EntityRef, Output, RankingValue, ReadPlan, Scalarlike
from omnigraph.records import record

_WIDE_BITS = 64


@record
class GroupKey:
    """One group column.

    Args:
        values: what to group by.
        of: the type of the column.
        dictionary: what ``values`` number; None when they are the column itself.
    """

    values: pa.Array
    of: pa.DataType
    dictionary: pa.Array | None = None

    @classmethod
    def encode(cls, column: pa.Array) -> GroupKey:
        """Return a column as something to group by, equal exactly where its values are."""
        if pa.types.is_nested(column.type):
            return cls(values=_packed(column), of=column.type)
        values = comparable(column)
        if not pa.types.is_primitive(values.type) or values.type.bit_width < _WIDE_BITS:
            return cls(values=values, of=column.type)
        # Arrow's grouping puts wide numbers whose low bits are all zero, as those of most doubles, into one bucket.
        numbered = values.dictionary_encode()
        return cls(values=numbered.indices, of=column.type, dictionary=numbered.dictionary)

    def decode(self, groups: pa.ChunkedArray) -> pa.Array:
        """Return the groups' values as the column has them."""
        values = pa.concat_arrays([pa.array([], groups.type), *groups.chunks])
        if pa.types.is_nested(self.of):
            return _unpacked(values, self.of)
        if self.dictionary is not None:
            values = self.dictionary.take(values)
        return values if values.type == self.of else values.view(self.of)


def _packed(values: pa.Array) -> pa.Array:
    encoder = msgspec.msgpack.Encoder()
    flat = values.cast(pa.list_(_plain(values.type.value_type)))
    return pa.array([None if item is None else encoder.encode(item) for item in flat.to_pylist()], pa.binary())


def _unpacked(values: pa.Array, of: pa.DataType) -> pa.Array:
    decoder = msgspec.msgpack.Decoder()
    items = [None if item is None else decoder.decode(item) for item in values.to_pylist()]
    if pa.types.is_decimal(of.value_type):
        # Decimals are packed as texts.
        items = [None if item is None else [None if one is None else Decimal(one) for one in item] for item in items]
    return pa.array(items, pa.list_(_plain(of.value_type))).cast(of)


def _plain(of: pa.DataType) -> pa.DataType:
    return {pa.date32(): pa.int32(), pa.date64(): pa.int64()}.get(of, of)


# No variable can be called so.
_PLACE = "#place"
_ROW = "#row"
# Partial groups are merged when so many of them have gathered, and twice as many as the last merge left.
_PARTIAL_ROWS = 1 << 20
# Beside its input, merging holds the input in parts and its output.
_MERGE_SHARE = 2


@record
class _Measure:
    """One thing that is added up: how often (None), or the values of an argument by a function."""

    name: str
    function: str
    argument: Scalarlike | None

    @property
    def merge(self) -> str:
        """How partial results become one."""
        return "sum" if self.function == "count" else self.function


def aggregate(context: MatchedRows, read: ReadPlan, frames: Iterator[Frame]) -> pa.Table:
    """Return one row per group, with the columns of the result."""
    if not read.groups and all(_counts_rows(output) for output in read.outputs):
        return _counted(context, read, frames)
    return finish_groups(read, partial_groups(context, read, frames))


def _counts_rows(output: Output) -> bool:
    call = output.expression
    if not isinstance(call, AggregateCall) or call.is_distinct or call.where is not None:
        return False
    return call.function == "count" and isinstance(call.argument, EntityRef)


def _counted(context: MatchedRows, read: ReadPlan, frames: Iterator[Frame]) -> pa.Table:
    """Return the one row of a read that asks how many rows there are and nothing else."""
    total = 0
    for frame in frames:
        context.limits.check()
        total += frame.length if frame.weights is None else int(frame.weights.sum())
    columns = [pa.array([total], output_type(output.type)) for output in read.outputs]
    return pa.Table.from_arrays(columns, names=[output.name for output in read.outputs])


def partial_groups(context: MatchedRows, read: ReadPlan, frames: Iterator[Frame]) -> pa.Table:
    """Return one row per group of these rows, with what :func:`merge_groups` can merge with groups of other rows.

    The group columns come first, in the order of ``read.groups``.
    """
    keys = [read.outputs[index] for index in read.groups or ()]
    variables = list(dict.fromkeys(name for output in keys if (name := _variable(output)) is not None))
    measures = _measures(read)
    partials: list[pa.Table] = []
    held, held_bytes, merged, has_rows = 0, 0, 0, False
    for frame in frames:
        has_rows = has_rows or frame.length > 0
        for part in _partials(context, frame, variables, measures):
            context.limits.check(8 * frame.length * (len(variables) + len(measures)))
            context.limits.hold(part.nbytes)
            held_bytes += part.nbytes
            partials.append(part)
            held += part.num_rows
        if held > max(_PARTIAL_ROWS, 2 * merged):
            partials = [_merge(context, partials, variables, measures)]
            held = merged = partials[0].num_rows
            context.limits.hold(partials[0].nbytes - held_bytes)
            held_bytes = partials[0].nbytes
    if not partials:
        partials = [_empty(context, variables, measures)]
    by_entity = _merge(context, partials, variables, measures)
    if keys and not has_rows:
        by_entity = by_entity.slice(0, 0)
    found = _by_value(context, by_entity, variables, keys, measures)
    # The result counts once its batches are handed on; until then it is all that is left.
    context.limits.hold(-held_bytes)
    context.limits.check(2 * found.nbytes)
    return found


def merge_groups(context: MatchedRows, read: ReadPlan, groups: pa.Table) -> pa.Table:
    """Return one row per group of what :func:`partial_groups` made of several parts of the rows."""
    measures = _measures(read)
    keys = groups.column_names[: len(read.groups or ())]
    if not keys:
        return _group(groups, keys, measures)
    return _merge_values(context, {name: one_array(groups.column(name)) for name in keys}, groups, measures)


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
            found.append(_Measure(name=f"#count{index}", function="count", argument=argument))
        if call.function in {"sum", "avg"}:
            found.append(_Measure(name=f"#sum{index}", function="sum", argument=call.argument))
        if call.function in {"min", "max"}:
            found.append(_Measure(name=f"#{call.function}{index}", function=call.function, argument=call.argument))
    return found


def _partials(
    context: MatchedRows, frame: Frame, variables: Sequence[str], measures: Sequence[_Measure]
) -> Iterator[pa.Table]:
    is_plain = len(variables) == 1 and not context.keeps_order and all(item.merge == "sum" for item in measures)
    entities = context.whole_table(variables[0], frame.length) if is_plain else None
    if entities is not None:
        yield _binned(context, entities, frame, variables[0], measures)
        return
    for start in range(0, max(1, frame.length), PIECE_ROWS):
        yield _partial(context, frame.slice(start, start + PIECE_ROWS), variables, measures)


def _partial(context: MatchedRows, frame: Frame, variables: Sequence[str], measures: Sequence[_Measure]) -> pa.Table:
    weights = np.ones(frame.length, dtype=np.int64) if frame.weights is None else frame.weights
    columns = {name: pa.array(frame.ids[name]) for name in variables}
    for measure in measures:
        columns[measure.name] = _measured(context, frame, measure, weights)
    if not columns:
        return pa.table({})
    return _group(pa.table(columns), variables, measures, keeps_order=context.keeps_order)


def _binned(
    context: MatchedRows, entities: Entities, frame: Frame, variable: str, measures: Sequence[_Measure]
) -> pa.Table:
    """Add up by the code of one variable's entity, which is a place in an array."""
    codes, count = entities.codes(frame.ids[variable]), entities.image.row_count
    present = np.zeros(count, dtype=np.bool_)
    present[codes] = True
    chosen = np.flatnonzero(present)
    columns = {variable: pa.array(entities.all_ids[chosen])}
    places = np.cumsum(present) - 1
    for measure in measures:
        addends = _addends(context, frame, measure)
        if measure.function == "sum" and addends is not None:
            columns[measure.name] = ExactSums.of(addends, places[codes], len(chosen)).encode()
        else:
            counts = np.bincount(codes, weights=addends, minlength=count)[chosen]
            columns[measure.name] = pa.array(counts.astype(np.int64))
    return pa.table(columns)


def _addends(context: MatchedRows, frame: Frame, measure: _Measure) -> npt.NDArray[np.float64] | None:
    """Return what each row adds; None for one."""
    if measure.argument is None:
        return None if frame.weights is None else frame.weights.astype(np.float64)
    if isinstance(measure.argument, Column) and measure.argument.type.is_numeric:
        entities = context.whole_table(measure.argument.variable, frame.length)
        if entities is not None:
            codes = entities.codes(frame.ids[measure.argument.variable])
            numbers, is_valid = entities.numbers(measure.argument.property)
            return (numbers if measure.function == "sum" else is_valid.astype(np.float64))[codes]
    values = scalar_column(context, frame, measure.argument)
    if measure.function == "count":
        return np.asarray(values.is_valid(), dtype=np.float64)
    return np.asarray(pc.fill_null(values.cast(pa.float64(), safe=False), 0.0))


def _measured(context: MatchedRows, frame: Frame, measure: _Measure, weights: np.ndarray) -> pa.Array:
    if measure.argument is None:
        return pa.array(weights)
    values = scalar_column(context, frame, measure.argument)
    if measure.function == "count":
        return pa.array(np.where(values.is_valid().to_numpy(zero_copy_only=False), weights, 0))
    if measure.function == "sum":
        return values.cast(pa.float64(), safe=False)
    return values


def _group(rows: pa.Table, keys: Sequence[str], measures: Sequence[_Measure], *, keeps_order: bool = False) -> pa.Table:
    """Merge partial results of equal keys; groups come in any order, or in that of their first row."""
    sums = [measure for measure in measures if measure.function == "sum"]
    texts = [measure for measure in measures if _is_text(rows, measure)]
    plain = [measure for measure in measures if measure not in sums and measure not in texts]
    if keys:
        # Arrow gives groups in the order of its hash table.
        more = [(_PLACE, "min")] if keeps_order else []
        more += [(_ROW, "list")] if sums else []
        numbered = pa.array(np.arange(rows.num_rows))
        source = rows.append_column(_PLACE, numbered) if keeps_order else rows
        source = source.append_column(_ROW, numbered) if sums else source
        plan = [(measure.name, measure.merge) for measure in plain]
        grouped = source.group_by(list(keys), use_threads=False).aggregate(plan + more)
        columns = {key: grouped.column(key) for key in keys}
        columns |= {name: grouped.column(f"{name}_{function}") for name, function in plan}
        codes = _codes(grouped.column(f"{_ROW}_list"), rows.num_rows) if sums else np.zeros(0, dtype=np.int64)
        columns |= {measure.name: _added(rows.column(measure.name), codes, grouped.num_rows) for measure in sums}
        found = _with_texts(rows, pa.table(columns), keys, texts)
        return found.take(pc.sort_indices(grouped.column(f"{_PLACE}_min"))) if keeps_order else found
    merged = {}
    for measure in plain:
        column = rows.column(measure.name)
        function = {"sum": pc.sum, "min": pc.min, "max": pc.max}[measure.merge]
        merged[measure.name] = pa.array([function(column).as_py()], column.type)
    for measure in texts:
        least = _extreme_text(rows.column(measure.name), measure.merge)
        merged[measure.name] = pa.array([least.as_py()], pa.string())
    for measure in sums:
        merged[measure.name] = _added(rows.column(measure.name), np.zeros(rows.num_rows, dtype=np.int64), 1)
    return pa.table(merged)


def _codes(rows: pa.ChunkedArray, count: int) -> npt.NDArray[np.int64]:
    """Return the number of each row's group; ``rows`` are those of each group."""
    lists = one_array(rows)
    codes = np.empty(count, dtype=np.int64)
    codes[lists.flatten().to_numpy()] = np.repeat(np.arange(len(lists)), lists.value_lengths().to_numpy())
    return codes


def _added(column: pa.ChunkedArray, codes: npt.NDArray[np.int64], count: int) -> pa.Array:
    """Return partial sums of numbers, or of partial sums, by the code of their group."""
    values = one_array(column)
    if values.type == PARTIAL:
        return ExactSums.decode(values).merge(codes, count).encode()
    return ExactSums.of(np.asarray(pc.fill_null(values, 0.0)), codes, count).encode()


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
        # The same keys in the same order, since the rows are the same.
        best = in_order.take(grouped.column(f"{measure.name}_{measure.merge}").combine_chunks())
        found = found.append_column(measure.name, best)
    return found


def _merge(
    context: MatchedRows, partials: list[pa.Table], keys: Sequence[str], measures: Sequence[_Measure]
) -> pa.Table:
    if len(partials) == 1:
        return partials[0]
    return _group_in_parts(context, pa.concat_tables(partials), keys, measures)


def _group_in_parts(
    context: MatchedRows, rows: pa.Table, keys: Sequence[str], measures: Sequence[_Measure]
) -> pa.Table:
    """Merge partial results of equal keys, in pieces where the groups may come in any order."""
    context.limits.check(_MERGE_SHARE * rows.nbytes)
    if not keys or context.keeps_order:
        return _group(rows, keys, measures, keeps_order=context.keeps_order)
    grouped = []
    for part in parts_by_key(rows, keys):
        context.limits.check()
        grouped.append(_group(part, keys, measures))
    return pa.concat_tables(grouped)


def _by_value(
    context: MatchedRows,
    groups: pa.Table,
    variables: Sequence[str],
    keys: Sequence[Output],
    measures: Sequence[_Measure],
) -> pa.Table:
    """Merge the groups whose entities show the same values."""
    if not keys:
        return groups
    frame = Frame(length=groups.num_rows, ids={name: groups.column(name).to_numpy() for name in variables})
    shown: dict[str, pa.Array] = {}
    for index, output in enumerate(keys):
        assert not isinstance(output.expression, AggregateCall | RankingValue)  # noqa: S101 - none of them is a key
        shown[f"key{index}"] = scalar_column(context, frame, output.expression)
    return _merge_values(context, shown, groups, measures)


def _merge_values(
    context: MatchedRows, keys: Mapping[str, pa.Array], groups: pa.Table, measures: Sequence[_Measure]
) -> pa.Table:
    encoded = {name: GroupKey.encode(values) for name, values in keys.items()}
    columns = {name: key.values for name, key in encoded.items()}
    held_bytes = sum(column.nbytes for column in (*keys.values(), *columns.values()))
    context.limits.hold(held_bytes)
    columns |= {measure.name: groups.column(measure.name) for measure in measures}
    merged = _group_in_parts(context, pa.table(columns), list(encoded), measures)
    context.limits.hold(-held_bytes)
    for at, (name, key) in enumerate(encoded.items()):
        merged = merged.set_column(at, name, key.decode(merged.column(name)))
    return merged


def finish_groups(read: ReadPlan, groups: pa.Table) -> pa.Table:
    """Return whole groups as columns of the result: averages from sums and counts, NULL for sums of nothing."""
    keys = iter([name for name in groups.column_names if name.startswith("key")])
    columns = []
    for index, output in enumerate(read.outputs):
        call = output.expression
        if not isinstance(call, AggregateCall):
            columns.append(groups.column(next(keys)))
            continue
        of = output_type(output.type)
        if call.function == "count":
            columns.append(pc.fill_null(groups.column(f"#count{index}"), 0).cast(of))
        elif call.function in {"sum", "avg"}:
            count = groups.column(f"#count{index}")
            sums = pa.array(ExactSums.decode(one_array(groups.column(f"#sum{index}"))).rounded())
            total = pc.if_else(pc.greater(pc.fill_null(count, 0), 0), sums, None)
            columns.append(total if call.function == "sum" else pc.divide(total, count.cast(pa.float64())))
        else:
            columns.append(groups.column(f"#{call.function}{index}").cast(of))
    return pa.Table.from_arrays([one_array(column) for column in columns], names=[item.name for item in read.outputs])


def _empty(context: MatchedRows, variables: Sequence[str], measures: Sequence[_Measure]) -> pa.Table:
    nothing = Frame(length=0, ids=dict.fromkeys(context.variables, np.zeros(0, dtype=np.int64)))
    return _partial(context, nothing, variables, measures)
