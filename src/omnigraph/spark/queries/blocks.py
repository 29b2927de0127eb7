"""Blocks inside a match as joins: solutions are found once for each of the outer rows that differ, and joined back.

Outer rows are told apart by the ids of their entities and by their values, so that nothing has to number them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa

from omnigraph.catalog.model import NodeType
from omnigraph.engine.query.functions.kernels import value_arrow_type
from omnigraph.engine.query.steps import AntiJoinStep, Block, BlockStep, OptionalStep, Step
from omnigraph.ir.model import Narrow, UnionScan, Unwind, Widen
from omnigraph.ir.types import item_type
from omnigraph.records import record
from omnigraph.spark.queries.layout import TYPE, VALUE, Layout, Live, Match
from omnigraph.spark.queries.liveness import block_wants, uses
from omnigraph.spark.queries.reading import Reading, properties
from omnigraph.spark.queries.relations import Relation
from omnigraph.spark.queries.scans import NoNodesTask, mixed_columns
from omnigraph.spark.queries.tasks.match import BindTask, BlockValueTask, UnwindTask
from omnigraph.store.tables.pinned import KEY

RunSteps = Callable[[Reading, Match, tuple[Step, ...], Live], Match]
_UNKNOWN = float("inf")


@record
class _Solutions:
    """What a block finds.

    Args:
        match: the outer rows.
        rows: the same as a relation.
        keys: the columns of outer rows that tell them apart, each under its own name in the solutions too.
        nulls: those of them in which NULL is a value like others.
        found: the solutions.
        layout: their columns.
        most: how many of them there are at most.
    """

    match: Match
    rows: Relation
    keys: tuple[str, ...]
    nulls: tuple[str, ...]
    found: Relation
    layout: Layout
    most: float


def _solve(reading: Reading, match: Match, step: Block, live: Live, run: RunSteps) -> _Solutions:
    match, rows = reading.rows(match)
    used = match.layout.only(uses(step, live)).columns
    entities = tuple(dict.fromkeys(variable for variable, _ in used if variable != VALUE))
    values = tuple(name for (variable, _), (name, _) in used.items() if variable == VALUE)
    keys = (*(name for variable in entities for name in match.layout.identity(variable)), *values)
    missing = (name for variable in entities if variable in match.nullable for name in match.layout.identity(variable))
    nulls = (*missing, *values)
    begin = Match(nullable=match.nullable)
    if used:
        start = rows.select({name: name for name, _ in used.values()}).distinct(list(keys))
        begin = replace(match, relation=start, layout=Layout(columns=used, types=match.layout.types))
    told = frozenset(key for key in used if key[1] in {KEY, TYPE} or key[0] == VALUE)
    inner, found = reading.rows(run(reading, begin, step.steps, told | block_wants(step, live)))
    return _Solutions(match=match, rows=rows, keys=keys, nulls=nulls, found=found, layout=inner.layout, most=inner.most)


def unless(reading: Reading, match: Match, step: AntiJoinStep, live: Live, run: RunSteps) -> Match:
    """Find the outer rows for which the inner steps find something, and drop them."""
    solved = _solve(reading, match, step, live, run)
    match, refuted, keys = solved.match, solved.found, solved.keys
    build = reading.sizes.build(match.most, match.estimate, match.most if keys else 1, "anti")
    if not keys:
        refuted = refuted.limit(1)
    else:
        refuted = refuted.select({name: name for name in keys})
        if build == "broadcast_right":
            refuted = refuted.distinct(keys)
    kept = solved.rows.join(refuted, _same(keys), how="anti", build=build, nulls=solved.nulls)
    return match.holding(kept, match.layout, live, most=match.most, estimate=match.estimate)


def block_value(reading: Reading, match: Match, step: BlockStep, live: Live, run: RunSteps) -> Match:
    """Give every row the number of its solutions, or whether it has any."""
    solved = _solve(reading, match, step, live, run)
    match, count = solved.match, reading.names.fresh()
    counts = solved.found.total(solved.keys, solved.layout.weights, count)
    build = reading.sizes.build(match.most, match.estimate, match.most if solved.keys else 1, "left")
    joined = solved.rows.join(counts, _same(solved.keys), how="left", build=build, nulls=solved.nulls)
    is_count = step.kind == "count"
    value = Layout(columns={(VALUE, step.name): (count, pa.int64() if is_count else pa.bool_())})
    kept = match.layout.plus(value).keeping(live)
    task = BlockValueTask(layout=match.layout, count=count, kept=kept, is_count=is_count)
    return replace(match, relation=joined.map(task), layout=kept)


def optional(reading: Reading, match: Match, step: OptionalStep, live: Live, run: RunSteps) -> Match:
    """Join every row with its solutions, and keep it with everything new missing where it has none."""
    solved = _solve(reading, match, step, live, run)
    match, wanted = solved.match, block_wants(step, live)
    new = solved.layout.only(wanted).columns
    columns = {name: name for name in (*solved.keys, *(name for name, _ in new.values()))}
    found = solved.found.select(columns) if columns else solved.found
    build = reading.sizes.build(match.most, match.estimate, solved.most, "left")
    joined = solved.rows.join(found, _same(solved.keys), how="left", build=build, nulls=solved.nulls)
    types = {name: of for name, of in solved.layout.types.items() if name in step.introduced}
    layout = match.layout.plus(Layout(columns=new, types=types))
    estimate = reading.facts.estimate(step, match.estimate)
    return match.holding(joined, layout, live, most=match.most * max(1.0, solved.most), estimate=estimate)


def _same(names: tuple[str, ...]) -> dict[str, str]:
    return {name: name for name in names}


def unwind(reading: Reading, match: Match, step: Unwind, live: Live) -> Match:
    """Make one row per item of a list."""
    match, rows = reading.rows(match)
    of = value_arrow_type(item_type(step.items.type))
    item = Layout(columns={(VALUE, step.name): (reading.names.fresh(), of)})
    kept = match.layout.plus(item).keeping(live)
    task = UnwindTask(given=reading.given, layout=match.layout, items=step.items, item=step.name, kept=kept)
    estimate = reading.facts.estimate(step, match.estimate)
    return replace(match, relation=rows.map(task), layout=kept, most=_UNKNOWN, estimate=estimate)


def union_scan(reading: Reading, match: Match, step: UnionScan, live: Live) -> Match:
    """Join every row with every node of an interface that passes."""
    wanted = sorted(properties(step.variable, live) | {KEY})
    catalog = reading.facts.catalog
    shared = catalog.interfaces[step.interface]
    first = catalog.nodes.get(next(iter(step.type_names), ""), NodeType(name=shared.name, properties=shared.properties))
    layout = mixed_columns(first, step.variable, {prop: reading.names.fresh() for prop in (*wanted, TYPE)})
    every: Relation | None = None if step.type_names else reading.relations.read(NoNodesTask(layout=layout), 0)
    for type_name in step.type_names:
        nodes, found = reading.nodes(step.variable, type_name, step.filters, [(step.variable, prop) for prop in wanted])
        one = nodes.map(BindTask(layout=found, kept=layout, copies={}, type_name=type_name))
        every = one if every is None else every.union(one)
    assert every is not None  # noqa: S101 - there are types, or there is the relation of none
    most = float(sum(map(reading.facts.node_count, step.type_names)))
    estimate = reading.facts.estimate(step, match.estimate)
    if match.is_unit:
        return replace(match, relation=every, layout=layout, most=most, estimate=estimate)
    match, rows = reading.rows(match)
    both = match.layout.plus(layout)
    return match.holding(rows.cross(every), both, live, most=match.most * most, estimate=estimate)


def narrow(reading: Reading, match: Match, step: Narrow, live: Live) -> Match:
    """Keep the rows in which a variable is of one type, and name it as one of that type."""
    match, rows = reading.rows(match)
    props = properties(step.name, live) | {KEY}
    copies = {(step.name, prop): (step.variable, prop) for prop in props}
    types = {(step.name, prop): match.layout.columns[step.variable, prop][1] for prop in props}
    new = {key: (reading.names.fresh(), of) for key, of in types.items()}
    kept = match.layout.plus(Layout(columns=new, types={step.name: step.type_name})).keeping(live | new.keys())
    only = ((step.variable, TYPE), step.type_name)
    task = BindTask(layout=match.layout, kept=kept, copies=copies, only=only)
    estimate = reading.facts.estimate(step, match.estimate)
    return replace(match, relation=rows.map(task), layout=kept, estimate=estimate)


def widen(reading: Reading, match: Match, step: Widen, live: Live) -> Match:
    """Give an entity of one type the name of a variable that ranges over several."""
    match, rows = reading.rows(match)
    props = sorted(properties(step.variable, live) - {TYPE} | {KEY})
    first = reading.facts.catalog.nodes[step.type_names[0]]
    new = mixed_columns(first, step.variable, {prop: reading.names.fresh() for prop in (*props, TYPE)})
    copies = {(step.variable, prop): (step.name, prop) for prop in props}
    kept = match.layout.plus(new).keeping(live | {(step.variable, KEY)})
    task = BindTask(layout=match.layout, kept=kept, copies=copies, type_name=step.type_name)
    return replace(match, relation=rows.map(task), layout=kept)
