"""From the compiled read to the plan that runs: every rule in turn, each of which can be left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import assert_never

from omnigraph.catalog.model import EdgeType, NodeType, PropertyType, Scalar
from omnigraph.engine.query.planner.facts import Facts, fixes_key, map_sequences, map_steps
from omnigraph.engine.query.planner.intersections import intersect_neighbours
from omnigraph.engine.query.planner.join_order import counts_rows, group_variables, order_joins
from omnigraph.engine.query.predicates import read_columns
from omnigraph.engine.query.steps import (
    AntiJoinStep,
    BlockStep,
    CountExpand,
    Intersect,
    LinkTest,
    OptionalStep,
    QueryPlan,
    Scan,
    StageSteps,
    Step,
    is_one_hop,
    walk,
)
from omnigraph.errors import BadValue, UsageError
from omnigraph.ir.model import (
    INTERFACE_MARK,
    PRIVATE_MARK,
    TABLE_MARK,
    AggregateCall,
    AntiJoin,
    BlockValue,
    Bm25Ranking,
    Column,
    Compare,
    Constant,
    Expand,
    Filter,
    Narrow,
    NearestRanking,
    NodeScan,
    Operator,
    OptionalJoin,
    Output,
    OutputPlan,
    OutputRef,
    ParameterRef,
    Ranking,
    RankingValue,
    ReadPlan,
    RrfRanking,
    SameEntity,
    Scalarlike,
    StagePlan,
    UnionScan,
    Unwind,
    Walk,
    Widen,
    inner_values,
)
from omnigraph.ir.types import PATH, item_type
from omnigraph.values import meant


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
        for column in _step_columns(step):
            yield from ((table, column.property) for table in _tables(variables[column.variable]))
        if isinstance(step, Walk) and step.condition is not None:
            for column in read_columns(step.condition):
                is_edge = column.variable == step.edge_variable
                tables = step.edge_tables if is_edge else variables[column.variable]
                yield from ((table, column.property) for table in _tables(tables))


def _tables(text: str) -> list[str]:
    return [] if text.startswith(INTERFACE_MARK) else text.split(TABLE_MARK)


def _output_columns(plan: QueryPlan) -> Iterator[tuple[str, str]]:
    for column in _read_after_match(plan.read):
        yield from ((table, column.property) for table in _tables(plan.variables[column.variable]))


def _read_after_match(read: ReadPlan) -> Iterator[Column]:
    for output in read.outputs:
        expression = output.expression
        value = expression.argument if isinstance(expression, AggregateCall) else expression
        if isinstance(value, Column):
            yield value
    yield from (key.key for key in read.order if isinstance(key.key, Column))
    if read.ranking is not None:
        yield from ranking_columns(read.ranking)


def _step_columns(step: Step) -> Iterator[Column]:
    if isinstance(step, Filter):
        yield from read_columns(step.predicate)
    elif isinstance(step, Scan | UnionScan | Expand | Walk | Intersect):
        for predicate in step.filters:
            yield from read_columns(predicate)
    elif isinstance(step, CountExpand):
        yield from _step_columns(step.expand)
    elif isinstance(step, Unwind):
        yield from (value for value in inner_values(step.items) if isinstance(value, Column))


def ranking_columns(ranking: Ranking) -> Iterator[Column]:
    """Yield the properties that a ranking looks at."""
    match ranking:
        case RrfRanking():
            yield from ranking_columns(ranking.first)
            yield from ranking_columns(ranking.second)
        case NearestRanking() | Bm25Ranking():
            yield ranking.field


def count_without_rows(plan: QueryPlan, _: Facts) -> QueryPlan:
    """Turn trailing expansions whose end nobody looks at into counts, each with the counts that start at its end."""
    if not counts_rows(plan.read):
        return plan
    kept = group_variables(plan.read)
    steps, weighs = list(plan.steps), list[CountExpand]()
    while steps and (expand := _countable(steps[-1], kept, steps[:-1])) is not None:
        steps.pop()
        inner = tuple(count_expand for count_expand in weighs if count_expand.expand.source == expand.destination)
        weighs = [
            CountExpand(expand=expand, inner=inner),
            *(count_expand for count_expand in weighs if count_expand not in inner),
        ]
    if steps and isinstance(last := steps[-1], Intersect) and _is_only_counted(last, kept, weighs):
        steps[-1] = replace(last, is_counted=True)
    return replace(plan, steps=(*steps, *weighs))


def _is_only_counted(step: Intersect, kept: frozenset[str], weighs: list[CountExpand]) -> bool:
    bound = {step.destination, *(link.edge_variable for link in step.links)}
    return not bound & kept and all(weigh.expand.source != step.destination for weigh in weighs)


def _countable(step: Step, kept: frozenset[str], before: list[Step]) -> Expand | None:
    if not isinstance(step, Expand) or {step.destination, step.edge_variable} & kept:
        return None
    if (step.min_hops, step.max_hops) != (1, 1):
        return None
    # Filters on the way stand behind all expansions, so what remains in front cannot look at this end but through it.
    is_source = any(isinstance(other, Expand) and other.source == step.destination for other in before)
    return None if is_source else step


def ask_existence(plan: QueryPlan, _: Facts) -> QueryPlan:
    """Mark anti-joins whose inner steps are one plain hop from an outer variable."""

    def rewrite(step: Step) -> Step:
        return replace(step, is_existence=True) if isinstance(step, AntiJoinStep) and is_one_hop(step) else step

    return map_steps(plan, rewrite)


def push_filters(plan: QueryPlan, _: Facts) -> QueryPlan:
    """Let storage filter what a scan reads."""
    return map_steps(plan, lambda step: replace(step, is_pushed=True) if isinstance(step, Scan) else step)


def find_goals(plan: QueryPlan, facts: Facts) -> QueryPlan:
    """Find the node that a path ends at first, when its key is given: a search that knows its goal stops there."""
    steps, variables = list[Step](), dict(plan.variables)
    for step in plan.steps:
        if isinstance(step, Walk) and _ends_at_key(step, facts):
            end = f"{step.destination}{PRIVATE_MARK}end"
            variables[end] = variables[step.destination]
            steps.append(Scan(variable=step.destination, type_name=step.destination_type, filters=step.filters))
            steps.append(replace(step, destination=end, goal=step.destination, filters=()))
        else:
            steps.append(step)
    return replace(plan, steps=tuple(steps), variables=variables)


def _ends_at_key(step: Walk, facts: Facts) -> bool:
    is_open = step.path is not None and step.goal is None
    return is_open and fixes_key(facts.catalog.nodes[step.destination_type], step.filters)


def look_up_keys(plan: QueryPlan, facts: Facts) -> QueryPlan:
    """Give scans the values of their key. The filters stay: the scan applies what the id does not say."""

    def rewrite(step: Step) -> Step:
        if not isinstance(step, Scan):
            return step
        node = facts.catalog.nodes[step.type_name]
        if node.key is None or not fixes_key(node, step.filters):
            return step
        return replace(step, key=tuple(_value_of(step, name) for name in node.key))

    return map_steps(plan, rewrite)


def _value_of(step: Scan, name: str) -> Constant | ParameterRef:
    for predicate in step.filters:
        if (
            isinstance(predicate, Compare)
            and predicate.op == "="
            and isinstance(predicate.left, Column)
            and predicate.left.property == name
            and isinstance(predicate.right, Constant | ParameterRef)
        ):
            return predicate.right
    message = f"no filter fixes {name}"
    raise LookupError(message)


def read_late(plan: QueryPlan, _: Facts) -> QueryPlan:
    """Do not read the properties of a variable when it is bound."""
    return replace(plan, is_late=True)


def ask_links(plan: QueryPlan, _: Facts) -> QueryPlan:
    """Replace an expansion to a private variable and the comparison that follows it by one test per row."""
    return map_sequences(plan, _fuse)


def _fuse(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    fused: list[Step] = []
    for step in steps:
        test = _link_test(fused[-1], step) if fused else None
        if test is None:
            fused.append(step)
        else:
            fused[-1] = test
    return tuple(fused)


def _link_test(before: Step, step: Step) -> LinkTest | None:
    if not (isinstance(before, Expand) and isinstance(step, Filter) and isinstance(step.predicate, SameEntity)):
        return None
    is_single = (before.min_hops, before.max_hops) == (1, 1) and before.edge_variable is None and not before.filters
    if not is_single or step.predicate.left != before.destination:
        return None
    return LinkTest(
        source=before.source, destination=step.predicate.right, edge=before.edge, direction=before.direction
    )


def fit_literals(plan: QueryPlan, _: Facts) -> QueryPlan:
    """Compare in the column's own type instead of a wider one."""
    return replace(plan, fits_literals=True)


def limit_scan(plan: QueryPlan, _: Facts) -> QueryPlan:
    """Give the limit of the read to its only step."""
    read, limit = plan.read, plan.read.limit
    if limit is None or read.order or read.ranking is not None or read.groups is not None or len(plan.steps) != 1:
        return plan
    only = plan.steps[0]
    if not isinstance(only, Scan) or only.filters:
        return plan
    return replace(plan, steps=(replace(only, limit=limit),))


def cut_early(plan: QueryPlan, _: Facts) -> QueryPlan:
    """Keep no more ordered rows than the limit asks for."""
    return replace(plan, cuts_early=plan.read.limit is not None and bool(plan.read.order))


def rank_table(plan: QueryPlan, _: Facts) -> QueryPlan:
    """Rank all nodes of a type where they are, if that is all that is matched, and make rows of the best only.

    A ranking by words has its own way: it makes rows of those that have the words.
    """
    only = plan.steps[0] if len(plan.steps) == 1 else None
    if not isinstance(plan.read.ranking, NearestRanking | RrfRanking) or plan.read.groups is not None:
        return plan
    if not isinstance(only, Scan):
        return plan
    is_whole = not only.filters and only.key is None and only.limit is None
    return replace(plan, ranked_scan=only) if is_whole else plan


Rule = Callable[[QueryPlan, Facts], QueryPlan]

# In this order: later rules look at what earlier ones made of the steps.
RULES: Mapping[str, Rule] = {
    "join_order": order_joins,
    "path_goal": find_goals,
    "key_lookup": look_up_keys,
    "intersect": intersect_neighbours,
    "link_test": ask_links,
    "existence": ask_existence,
    "count_rows": count_without_rows,
    "limit_scan": limit_scan,
    "push_filters": push_filters,
    "fit_literals": fit_literals,
    "prune_columns": prune_columns,
    "read_late": read_late,
    "cut_early": cut_early,
    "rank_table": rank_table,
}


def plan_read(
    read: ReadPlan,
    facts: Facts,
    rules_off: frozenset[str] = frozenset(),
    outer: Mapping[str, str] = MappingProxyType({}),
) -> QueryPlan:
    """Apply every rule that is not switched off.

    ``outer`` are the tables of variables that the rows of the first stage start with.

    Raises:
        UsageError: no rule has such a name.
    """
    for name in sorted(rules_off - RULES.keys()):
        details = BadValue(what="rewrite rule", value=name, expected=" | ".join(RULES))
        raise UsageError(f"unknown rewrite rule '{name}'", details=details, hint=meant(name, RULES))
    if read.stages:
        return _plan_stages(read, facts, rules_off, outer)
    return _plan_match(read, {}, facts, rules_off)


def _plan_match(read: ReadPlan, outer: Mapping[str, str], facts: Facts, rules_off: frozenset[str]) -> QueryPlan:
    variables = _variables(read.operators, outer)
    steps = _translate(read.operators, variables)
    plan = QueryPlan(read=read, steps=steps, variables=variables, columns=all_columns(facts))
    for name, rule in RULES.items():
        if name not in rules_off:
            plan = replace(rule(plan, facts), rules=(*plan.rules, name))
    return plan


def _plan_stages(read: ReadPlan, facts: Facts, rules_off: frozenset[str], started: Mapping[str, str]) -> QueryPlan:
    """Plan every stage by itself; what they read is read together."""
    sequences: list[tuple[StageSteps, ...]] = []
    plans: list[QueryPlan] = []
    for stages in (read.stages, *(union.stages for union in read.unions)):
        outer = dict(started)
        sequence: list[StageSteps] = []
        for stage in stages:
            outputs = tuple(Output(name=str(item), expression=item, type=item.type) for item in output_columns(stage))
            asked = ReadPlan(name=read.name, parameters=read.parameters, operators=stage.operators, outputs=outputs)
            plan = _plan_match(asked, outer, facts, rules_off)
            plans.append(plan)
            sequence.append(
                StageSteps(steps=plan.steps, variables=plan.variables, output=stage.output, nullable=stage.nullable)
            )
            outer = {name: plan.variables[source] for name, source in stage.output.kept}
        sequences.append(tuple(sequence))
    columns: dict[str, dict[str, None]] = {}
    for plan in plans:
        for table, names in plan.columns.items():
            columns.setdefault(table, {}).update(dict.fromkeys(names))
    first = plans[0]
    return QueryPlan(
        read=read,
        steps=tuple(step for plan in plans for step in plan.steps),
        variables=first.variables,
        columns={table: tuple(names) for table, names in columns.items()},
        fits_literals=first.fits_literals,
        is_late=first.is_late,
        rules=first.rules,
        stages=tuple(sequences),
    )


def output_columns(stage: StagePlan) -> Iterator[Column]:
    """Yield the properties that the output of a stage looks at."""
    for value in output_values(stage.output):
        yield from (inner for inner in inner_values(value) if isinstance(inner, Column))
    if stage.output.rank is not None:
        yield from ranking_columns(stage.output.rank.ranking)


def output_values(output: OutputPlan) -> Iterator[Scalarlike]:
    """Yield every value that an output computes."""
    yield from (key for _, key in output.keys or ())
    for _, call in output.aggregates:
        yield from (value for value in (call.argument, call.where) if value is not None)
    for shown in output.shown:
        if not isinstance(shown.expression, AggregateCall | RankingValue):
            yield shown.expression
    yield from (key.key for key in output.order if not isinstance(key.key, OutputRef))
    yield from output.per
    yield from output.ties
    yield from output.row_order
    if output.rank is not None:
        yield from output.rank.ties
    if output.having is not None:
        yield output.having


def _translate(operators: tuple[Operator, ...], variables: Mapping[str, str]) -> tuple[Step, ...]:
    return tuple(_step(operator, variables) for operator in operators)


def _step(operator: Operator, variables: Mapping[str, str]) -> Step:
    if isinstance(operator, NodeScan):
        return Scan(variable=operator.variable, type_name=operator.type_name, filters=operator.filters)
    if isinstance(operator, AntiJoin | OptionalJoin | BlockValue):
        inner = _variables(operator.inner, variables)
        return _block(operator, _translate(operator.inner, inner), inner)
    return operator


def _block(operator: AntiJoin | OptionalJoin | BlockValue, steps: tuple[Step, ...], inner: dict[str, str]) -> Step:
    match operator:
        case AntiJoin():
            return AntiJoinStep(outer=operator.outer, steps=steps, variables=inner)
        case OptionalJoin():
            items = dict(_introduced_values(steps, inner))
            return OptionalStep(
                outer=operator.outer,
                steps=steps,
                variables=inner,
                introduced=operator.introduced,
                values={name: of for name, of in items.items() if name in operator.introduced},
            )
        case BlockValue():
            return BlockStep(name=operator.name, kind=operator.kind, outer=operator.outer, steps=steps, variables=inner)
        case _:
            assert_never(operator)


def _introduced_values(steps: tuple[Step, ...], variables: Mapping[str, str]) -> Iterator[tuple[str, PropertyType]]:
    for step, _ in walk(steps, variables):
        if isinstance(step, Unwind):
            yield step.name, item_type(step.items.type)
        elif isinstance(step, Walk) and step.path is not None:
            yield step.path, PATH


def _variables(operators: tuple[Operator, ...], outer: Mapping[str, str]) -> dict[str, str]:
    """Return the table of every variable that stands in these operators or outside of them."""
    tables = dict(outer)
    for operator in operators:
        if isinstance(operator, NodeScan):
            tables[operator.variable] = f"node:{operator.type_name}"
        elif isinstance(operator, UnionScan | Widen):
            tables[operator.variable] = operator.tables
        elif isinstance(operator, Narrow):
            tables[operator.name] = f"node:{operator.type_name}"
        elif isinstance(operator, Expand):
            tables[operator.destination] = f"node:{operator.destination_type}"
            if operator.edge_variable is not None:
                tables[operator.edge_variable] = f"edge:{operator.edge}"
        elif isinstance(operator, Walk):
            tables[operator.destination] = f"node:{operator.destination_type}"
            if operator.binds_edge and operator.edge_variable is not None:
                tables[operator.edge_variable] = operator.edge_tables
        elif isinstance(operator, OptionalJoin):
            tables.update(_variables(operator.inner, tables))
    return tables
