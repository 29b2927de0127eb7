"""Rule: start each connected part of the match where few rows are, and take the cheapest expansion next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from omnigraph.engine.query.planner.facts import Facts
from omnigraph.engine.query.steps import QueryPlan, Scan, Step
from omnigraph.ir.model import (
    AggregateCall,
    Column,
    Direction,
    EntityRef,
    Expand,
    Filter,
    Predicate,
    ReadPlan,
    SameEntity,
)
from omnigraph.records import record

_REVERSED: dict[Direction, Direction] = {"out": "in", "in": "out", "both": "both"}
# Another start must promise this much less work: estimates are coarse, and the written order is often meant.
_CLEARLY = 0.5
# Where so many nodes are, those with the fewest rows are tried; an order takes time of the square of their number.
_STARTS = 16


def order_joins(plan: QueryPlan, facts: Facts) -> QueryPlan:
    """Re-root the connected parts of the outermost match; anti-joins start at their outer variables anyway."""
    before, parts, rest = _parts(plan.steps)
    grouped = group_variables(plan.read) if counts_rows(plan.read) and not rest else frozenset[str]()
    ordered = [step for part in parts for step in _best_order(part, facts, grouped)]
    return replace(plan, steps=(*before, *ordered, *rest))


@record
class _Part:
    """A scan and everything that hangs together with it. A test is an expansion and the comparison behind it."""

    steps: tuple[Step, ...]
    scan: Scan
    expands: tuple[Expand, ...]
    tests: tuple[tuple[Expand, Filter], ...]

    def nodes(self) -> dict[str, tuple[str, tuple[Predicate, ...]]]:
        """Return type and filters of every variable that a walk may start at."""
        found = {self.scan.variable: (self.scan.type_name, self.scan.filters)}
        found.update({item.destination: (item.destination_type, item.filters) for item in self.expands})
        return found


def _parts(steps: tuple[Step, ...]) -> tuple[tuple[Step, ...], list[_Part], tuple[Step, ...]]:
    """Return what starts from rows that are there, the parts that start with a scan, and what follows the joins."""
    end = 0
    while end < len(steps) and _is_joining(steps[end]):
        end += 1
    starts = [position for position in range(end) if isinstance(steps[position], Scan)]
    bounds = [*starts, end]
    parts = [_part(steps[low:high]) for low, high in zip(starts, bounds[1:], strict=False)]
    return steps[: bounds[0]], parts, steps[end:]


def _is_joining(step: Step) -> bool:
    return isinstance(step, Scan | Expand) or (isinstance(step, Filter) and isinstance(step.predicate, SameEntity))


def _part(steps: tuple[Step, ...]) -> _Part:
    scan, *others = steps
    assert isinstance(scan, Scan)  # noqa: S101 - parts are cut at scans
    expands, tests = list[Expand](), list[tuple[Expand, Filter]]()
    for step in others:
        if isinstance(step, Expand):
            expands.append(step)
        elif isinstance(step, Filter):
            tests.append((expands.pop(), step))
    return _Part(steps=steps, scan=scan, expands=tuple(expands), tests=tuple(tests))


def counts_rows(read: ReadPlan) -> bool:
    """Whether a read makes groups and only counts the rows of each."""
    if read.groups is None or read.ranking is not None:
        return False
    calls = [output.expression for output in read.outputs if isinstance(output.expression, AggregateCall)]
    return all(call.function == "count" and isinstance(call.argument, EntityRef) for call in calls)


def group_variables(read: ReadPlan) -> frozenset[str]:
    """Return the entities whose properties make the groups of a read."""
    keys = (output.expression for output in read.outputs)
    return frozenset(key.variable for key in keys if isinstance(key, Column | EntityRef))


def _best_order(part: _Part, facts: Facts, grouped: frozenset[str]) -> tuple[Step, ...]:
    nodes = part.nodes()
    wanted = grouped & (nodes.keys() | {expand.edge_variable for expand in part.expands})
    if len(wanted) == 1 and wanted <= nodes.keys() and not part.tests:
        # Walked from there, everything else is only counted, so that no row is made but those of the groups.
        counted = _rooted_at(part, min(wanted), facts)
        if _counting_work(counted, facts) < _work(part.steps, facts) * _CLEARLY:
            return counted
    best, least = part.steps, _work(part.steps, facts) * _CLEARLY
    starts = list(nodes)
    if len(starts) > _STARTS:
        starts.sort(key=lambda name: facts.node_count(nodes[name][0]) * facts.passing(*nodes[name]))
    for variable in starts[:_STARTS]:
        candidate = _rooted_at(part, variable, facts)
        work = _work(candidate, facts)
        if work < least:
            best, least = candidate, work
    return best


def _work(steps: Sequence[Step], facts: Facts) -> float:
    """Return how many rows all steps look at together."""
    rows, total = 1.0, 0.0
    for step in steps:
        total += facts.effort(step, rows)
        rows = facts.estimate(step, rows)
    return total


def _counting_work(steps: Sequence[Step], facts: Facts) -> float:
    """Return how many rows steps look at whose ends are counted: those of the scan, once for each step."""
    if any(isinstance(step, Expand) and (step.min_hops, step.max_hops) != (1, 1) for step in steps):
        return float("inf")
    return _work(steps[:1], facts) + facts.estimate(steps[0], 1.0) * (len(steps) - 1)


def _rooted_at(part: _Part, root: str, facts: Facts) -> tuple[Step, ...]:
    nodes = part.nodes()
    type_name, filters = nodes[root]
    steps: list[Step] = [Scan(variable=root, type_name=type_name, filters=filters)]
    bound, waiting, tests = {root}, list(part.expands), list(part.tests)
    while waiting:
        reachable = [item for item in waiting if item.source in bound or item.destination in bound]
        turned = [item if item.source in bound else _turn(item, nodes) for item in reachable]
        cheapest = min(range(len(turned)), key=lambda at: facts.estimate(turned[at], 1.0))
        steps.append(turned[cheapest])
        waiting.remove(reachable[cheapest])
        bound.update(_bound_by(turned[cheapest]))
        steps.extend(_ready(tests, bound))
    steps.extend(_ready(tests, bound))
    return tuple(steps)


def _turn(expand: Expand, nodes: dict[str, tuple[str, tuple[Predicate, ...]]]) -> Expand:
    """Return the same walk from its other end."""
    type_name, filters = nodes[expand.source]
    return replace(
        expand,
        source=expand.destination,
        destination=expand.source,
        destination_type=type_name,
        direction=_REVERSED[expand.direction],
        filters=filters,
    )


def _bound_by(expand: Expand) -> set[str]:
    return {expand.destination} if expand.edge_variable is None else {expand.destination, expand.edge_variable}


def _ready(tests: list[tuple[Expand, Filter]], bound: set[str]) -> list[Step]:
    """Take out the tests whose two variables are both bound."""
    ready = [(walk, test) for walk, test in tests if {walk.source, _right(test)} <= bound]
    for item in ready:
        tests.remove(item)
    return [step for pair in ready for step in pair]


def _right(test: Filter) -> str:
    assert isinstance(test.predicate, SameEntity)  # noqa: S101 - only such filters stand among the joins
    return test.predicate.right
