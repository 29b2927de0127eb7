"""Running a plan: rows of the match, then groups, ranks, order, limit, and the columns of the result."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from omnigraph.engine.columns import held_bytes
from omnigraph.engine.query.context import LeadingRanking, MatchedRows, QueryContext
from omnigraph.engine.query.frame import UNIT, Frame
from omnigraph.engine.query.operators.pipeline import run_steps
from omnigraph.engine.query.output.ordering import collect, order_table, ordered, output_type, scalar_column
from omnigraph.engine.query.output.ranking import RankingInput, Scores, ranked, ranked_table, resolve_ranking
from omnigraph.engine.query.steps import QueryPlan
from omnigraph.engine.results.info import PatternEdge, PatternNode, PropertyColumn, ResultPattern
from omnigraph.errors import InternalError
from omnigraph.ir.model import (
    AggregateCall,
    Bm25Ranking,
    Column,
    EntityRef,
    Expand,
    Filter,
    NodeScan,
    Operator,
    OptionalJoin,
    Output,
    Ranking,
    RankingValue,
    ReadPlan,
    SameEntity,
    Scalarlike,
    Walk,
)

_BATCH_ROWS = 1 << 16
_RANKING_BYTES = 32


def result_schema(read: ReadPlan) -> pa.Schema:
    """Return the columns of a read's result."""
    return pa.schema([pa.field(output.name, output_type(output.type)) for output in read.outputs])


def run_plan(context: QueryContext, plan: QueryPlan, schema: pa.Schema) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of the result, whose columns are ``schema``, in batches of bounded size."""
    read = plan.read
    rows = _staged(context, plan, schema) if read.stages else _classic(context, plan, schema)
    returned = 0
    with context.snapshot.reading():
        for batch in rows:
            returned += batch.num_rows
            context.limits.check_rows(returned)
            yield batch


def _staged(context: QueryContext, plan: QueryPlan, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    # Most reads have no stages, and load nothing of what runs them.
    from omnigraph.engine.query.stages import run_stages  # noqa: PLC0415 - see above

    trace = context.trace.steps[id(plan.read)]
    trace.rows = 0
    for batch in run_stages(context, plan, schema):
        trace.rows += batch.num_rows
        yield batch


def _classic(context: QueryContext, plan: QueryPlan, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    ranking = plan.read.ranking
    given = None if ranking is None else resolve_ranking(context, ranking)
    if isinstance(ranking, Bm25Ranking) and plan.read.groups is None:
        limit = plan.read.limit if len(plan.steps) == 1 else None
        context.leading = LeadingRanking(ranking=ranking, limit=limit)
    frames = run_steps(context, plan.steps, iter([UNIT]))
    if plan.read.groups is not None:
        return _grouped(context, plan, frames, given, schema)
    return _plain(context, plan, frames, given, schema)


def _grouped(
    context: QueryContext, plan: QueryPlan, frames: Iterator[Frame], given: RankingInput | None, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    read = plan.read
    if read.ranking is not None and given is not None:
        frames = iter([_in_rank_order(context, read, read.ranking, given, frames)[0]])
    groups = context.trace.measure(
        read, lambda: _ordered_groups(context, read, frames, schema), lambda table: int(table.num_rows)
    )
    yield from groups.to_batches(max_chunksize=_BATCH_ROWS)


def _ordered_groups(context: QueryContext, read: ReadPlan, frames: Iterator[Frame], schema: pa.Schema) -> pa.Table:
    from omnigraph.engine.query.output.aggregates import aggregate  # noqa: PLC0415 - loaded for the reads that need it

    groups = aggregate(context, read, frames)
    table = pa.Table.from_arrays(groups.columns, schema=schema)
    if table.num_rows == 1 and read.limit != 0:
        return table
    return table.take(pa.array(order_table(read, table))).combine_chunks()


def _plain(
    context: QueryContext, plan: QueryPlan, frames: Iterator[Frame], given: RankingInput | None, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    read, scores = plan.read, None
    if read.ranking is not None and given is not None:
        if plan.ranked_scan is None:
            frame, scores = _in_rank_order(context, read, read.ranking, given, frames)
        else:
            frame, scores = ranked_table(context, read, read.ranking, given, plan.ranked_scan)
        frames = iter([frame])
    elif read.order:
        frames = iter([ordered(context, read, frames, cuts_early=plan.cuts_early)])
    elif read.limit is not None:
        frames = _limited(frames, read.limit)
    trace = context.trace.steps[id(read)]
    trace.rows = 0
    for frame in frames:
        for start in range(0, frame.length, _BATCH_ROWS):
            context.limits.check()
            piece = frame.slice(start, start + _BATCH_ROWS)
            part = None if scores is None else scores[start : start + _BATCH_ROWS]
            trace.rows += piece.length
            yield project(context, read, piece, part, schema)


def _in_rank_order(
    context: QueryContext, read: ReadPlan, ranking: Ranking, given: RankingInput, frames: Iterator[Frame]
) -> tuple[Frame, Scores]:
    rows = collect(context, frames)
    # Where each row stands, which of them stay, and two numbers to order them by.
    context.limits.check(_RANKING_BYTES * rows.length)
    frame, scores = ranked(context, read, ranking, given, rows)
    context.limits.keep(frame)
    context.limits.hold(scores.nbytes)
    context.limits.drop(rows)
    return frame, scores


def _limited(frames: Iterator[Frame], limit: int) -> Iterator[Frame]:
    left = limit
    while left > 0:
        frame = next(frames, None)
        if frame is None:
            return
        taken = min(left, frame.length)
        yield frame.slice(0, taken)
        left -= taken


def project(
    context: MatchedRows, read: ReadPlan, frame: Frame, scores: Scores | None, schema: pa.Schema
) -> pa.RecordBatch:
    """Return the columns of the result for rows of the match; ``scores`` holds their ranks, if the read has any."""
    columns: list[pa.Array] = []
    made_bytes = 0
    try:
        for output, field in zip(read.outputs, schema, strict=True):
            values = _shown(context, output.expression, frame, scores)
            columns.append(values if values.type == field.type else values.cast(field.type))
            column_bytes = held_bytes(columns[-1])
            context.limits.hold(column_bytes)
            made_bytes += column_bytes
    finally:
        # Whoever draws the batch counts it for as long as it is kept.
        context.limits.hold(-made_bytes)
    if not columns:
        # Without a column only this form keeps how many rows there are.
        return pa.RecordBatch.from_struct_array(pa.array([{}] * frame.length, pa.struct([])))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _shown(
    context: MatchedRows, expression: Scalarlike | AggregateCall | RankingValue, frame: Frame, scores: Scores | None
) -> pa.Array:
    if isinstance(expression, RankingValue):
        return pa.array(np.zeros(0) if scores is None else scores)
    if isinstance(expression, AggregateCall):
        message = f"an aggregate in a read without groups: {expression}"
        raise InternalError(message)
    return scalar_column(context, frame, expression)


def pattern_of(read: ReadPlan) -> ResultPattern:
    """Return the nodes whose ids are columns, and the traversals that have both of their ends among them.

    A node of several types has none that its column tells, and so have the columns of a union.
    """
    if read.unions:
        return ResultPattern()
    outputs = read.stages[-1].output.shown if read.stages else read.outputs
    types = _types(read)
    columns = {
        output.expression.variable: number
        for number, output in enumerate(outputs)
        if isinstance(output.expression, EntityRef) and output.expression.variable in types
    }
    positions = {variable: position for position, variable in enumerate(columns)}
    nodes = tuple(
        PatternNode(type_name=types[variable], column=column, properties=_properties(outputs, variable))
        for variable, column in columns.items()
    )
    operators = tuple(_flat(read.stages[-1].operators if read.stages else read.operators))
    return ResultPattern(nodes=nodes, edges=tuple(_edges(operators, outputs, positions)))


def _flat(operators: Iterable[Operator]) -> Iterator[Operator]:
    """Yield operators whose variables are seen behind the match: those of optional blocks too."""
    for operator in operators:
        if isinstance(operator, OptionalJoin):
            yield from _flat(operator.inner)
        else:
            yield operator


def _types(read: ReadPlan) -> Mapping[str, str]:
    """Return the types of nodes by their names in the last match."""
    if not read.stages:
        return _bound_types(read.operators)
    found: dict[str, str] = {}
    for stage in read.stages:
        found |= _bound_types(stage.operators)
        if stage is not read.stages[-1]:
            found = {name: found[before] for name, before in stage.output.kept if before in found}
    return found


def _bound_types(operators: Iterable[Operator]) -> dict[str, str]:
    found: dict[str, str] = {}
    for operator in _flat(operators):
        if isinstance(operator, NodeScan):
            found[operator.variable] = operator.type_name
        elif isinstance(operator, Expand | Walk):
            found[operator.destination] = operator.destination_type
    return found


def _same(operators: Iterable[Operator]) -> Mapping[str, str]:
    """Return what the private end of a traversal was written as: one that closes a circle ends in a test."""
    return {
        operator.predicate.left: operator.predicate.right
        for operator in operators
        if isinstance(operator, Filter) and isinstance(operator.predicate, SameEntity)
    }


def _edges(
    operators: Sequence[Operator], outputs: Sequence[Output], positions: Mapping[str, int]
) -> Iterator[PatternEdge]:
    same = _same(operators)
    for operator in operators:
        if not isinstance(operator, Expand | Walk) or "|" in operator.edge:
            # Which of several types an edge has is not to be seen in the rows.
            continue
        if (operator.min_hops, operator.max_hops) != (1, 1):
            # Rows have the ends of a walk; whether an edge is stored between the two they do not say.
            continue
        near, far = (positions.get(same.get(name, name)) for name in (operator.source, operator.destination))
        if near is None or far is None:
            continue
        source, target = (far, near) if operator.direction == "in" else (near, far)
        yield PatternEdge(
            type_name=operator.edge,
            source=source,
            target=target,
            is_directed=operator.direction != "both",
            properties=() if operator.edge_variable is None else _properties(outputs, operator.edge_variable),
        )


def _properties(outputs: Sequence[Output], variable: str) -> tuple[PropertyColumn, ...]:
    return tuple(
        PropertyColumn(name=output.expression.property, column=number)
        for number, output in enumerate(outputs)
        if isinstance(output.expression, Column) and output.expression.variable == variable
    )
