"""Rule: where an expansion ends at a node that further edges have to lead to, intersect the lists of neighbours."""

from __future__ import annotations

from dataclasses import field, replace

from omnigraph.engine.query.planner.facts import Facts, map_sequences
from omnigraph.engine.query.steps import Intersect, Link, QueryPlan, Scan, Step
from omnigraph.ir.model import Direction, Expand, Filter, SameEntity
from omnigraph.records import record

_REVERSED: dict[Direction, Direction] = {"out": "in", "in": "out", "both": "both"}
# Lists so many times longer than those that are looked through cost more to have at hand than a test per row.
_ALIKE = 4.0


def intersect_neighbours(plan: QueryPlan, facts: Facts) -> QueryPlan:
    """Make one step of an expansion and the edges that close circles at its end."""
    return map_sequences(plan, lambda steps: _intersected(steps, facts))


def _intersected(steps: tuple[Step, ...], facts: Facts) -> tuple[Step, ...]:
    rewriting = _Rewriting(facts=facts)
    at = 0
    while at < len(steps):
        if at + 1 < len(steps) and rewriting.close(steps[at], steps[at + 1]):
            at += 2
        else:
            rewriting.add(steps[at])
            at += 1
    return tuple(rewriting.steps)


@record(frozen=False)
class _Rewriting:
    """The steps so far, and which of them bound each variable; only joins may be reached back over."""

    facts: Facts
    steps: list[Step] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)

    def add(self, step: Step) -> None:
        match step:
            case Scan():
                self.places[step.variable] = len(self.steps)
            case Expand():
                self.places[step.destination] = len(self.steps)
            case Filter(predicate=SameEntity()):
                pass
            case _:
                self.places.clear()
        self.steps.append(step)

    def close(self, walk: Step, test: Step) -> bool:
        """Take an expansion and the test behind it into the step that bound the later of the two; say if it could."""
        ends = _closed(walk, test)
        if ends is None:
            return False
        expand, source, target = ends
        places = self.places.get(source, -1), self.places.get(target, -1)
        if places[0] == places[1]:
            return False
        if places[0] < places[1]:
            link = Link(source=source, edge=expand.edge, direction=expand.direction, edge_variable=expand.edge_variable)
        else:
            direction = _REVERSED[expand.direction]
            link = Link(source=target, edge=expand.edge, direction=direction, edge_variable=expand.edge_variable)
        started = _started(self.steps[max(places)])
        if started is None or not self._is_worth(started, link):
            return False
        # What the closing edge leads to is the same node: its own name is used nowhere else.
        parts = (*started.parts, walk, test)
        self.steps[max(places)] = replace(started, links=(*started.links, link), parts=parts)
        return True

    def _is_worth(self, started: Intersect, link: Link) -> bool:
        if link.edge_variable is None and any(link.source == known.source for known in started.links):
            # Both lists are those of one node: a test per neighbour needs only one of them.
            return False
        shortest = min(self.facts.degree(known) for known in started.links)
        return self.facts.degree(link) <= _ALIKE * max(1.0, shortest)


def _closed(walk: Step, test: Step) -> tuple[Expand, str, str] | None:
    """Return an edge between two bound variables, and the two; None when the steps are something else."""
    if not (isinstance(walk, Expand) and isinstance(test, Filter) and isinstance(test.predicate, SameEntity)):
        return None
    source, target = walk.source, test.predicate.right
    if test.predicate.left != walk.destination or not _is_plain(walk) or walk.filters or source == target:
        return None
    return walk, source, target


def _started(step: Step) -> Intersect | None:
    """Return a step as an intersection to which further links can be added."""
    if isinstance(step, Intersect):
        return step
    if not isinstance(step, Expand) or not _is_plain(step):
        return None
    link = Link(source=step.source, edge=step.edge, direction=step.direction, edge_variable=step.edge_variable)
    return Intersect(
        destination=step.destination,
        destination_type=step.destination_type,
        links=(link,),
        filters=step.filters,
        parts=(step,),
    )


def _is_plain(expand: Expand) -> bool:
    return (expand.min_hops, expand.max_hops) == (1, 1)
