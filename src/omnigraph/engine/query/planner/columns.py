"""Rule: only the properties that some step, output or order key looks at are read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from omnigraph.catalog.model import EdgeType, NodeType, Scalar
from omnigraph.engine.query.planner.facts import Facts
from omnigraph.engine.query.steps import QueryPlan, Scan, Step, Weigh, walk
from omnigraph.engine.query.values.predicates import read_columns
from omnigraph.ir.model import (
    AggregateCall,
    Bm25Ranking,
    Column,
    Expand,
    Filter,
    NearestRanking,
    Ranking,
    ReadPlan,
    RrfRanking,
)


def prune_columns(plan: QueryPlan, _: Facts) -> QueryPlan:
    """Read only the properties that some step, output or order key looks at."""
    wanted: dict[str, dict[str, None]] = {}
    for table, name in (*_match_columns(plan), *_output_columns(plan)):
        wanted.setdefault(table, {})[name] = None
    return replace(plan, columns={table: tuple(names) for table, names in wanted.items()})


def all_columns(facts: Facts) -> dict[str, tuple[str, ...]]:
    """Return every property of every type that a query may read."""
    owners: tuple[NodeType | EdgeType, ...] = (*facts.catalog.nodes.values(), *facts.catalog.edges.values())
    return {
        owner.table_key: tuple(prop.name for prop in owner.properties if prop.type.scalar is not Scalar.BLOB)
        for owner in owners
    }


def _match_columns(plan: QueryPlan) -> Iterator[tuple[str, str]]:
    for step, variables in walk(plan.steps, plan.variables):
        yield from ((variables[column.variable], column.property) for column in _step_columns(step))


def _output_columns(plan: QueryPlan) -> Iterator[tuple[str, str]]:
    for column in _read_after_match(plan.read):
        yield plan.variables[column.variable], column.property


def _read_after_match(read: ReadPlan) -> Iterator[Column]:
    for output in read.outputs:
        expression = output.expression
        if isinstance(expression, AggregateCall):
            expression = expression.argument
        if isinstance(expression, Column):
            yield expression
    yield from (key.key for key in read.order if isinstance(key.key, Column))
    if read.ranking is not None:
        yield from ranking_columns(read.ranking)


def _step_columns(step: Step) -> Iterator[Column]:
    if isinstance(step, Filter):
        yield from read_columns(step.predicate)
    elif isinstance(step, Scan | Expand):
        for predicate in step.filters:
            yield from read_columns(predicate)
    elif isinstance(step, Weigh):
        yield from _step_columns(step.expand)


def ranking_columns(ranking: Ranking) -> Iterator[Column]:
    """Yield the properties that a ranking looks at."""
    match ranking:
        case RrfRanking():
            yield from ranking_columns(ranking.first)
            yield from ranking_columns(ranking.second)
        case NearestRanking() | Bm25Ranking():
            yield ranking.field
