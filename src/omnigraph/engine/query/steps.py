"""The plan as it runs: the steps that make rows, and what the rules decided about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from omnigraph.catalog.model import PropertyType
from omnigraph.ir.model import (
    Constant,
    Direction,
    Expand,
    Filter,
    Narrow,
    NodeScan,
    OutputPlan,
    ParameterRef,
    Predicate,
    ReadPlan,
    UnionScan,
    Unwind,
    Walk,
    Widen,
)
from omnigraph.records import record


@record
class Scan:
    """The nodes of a type that pass.

    ``key`` holds a value for each property of the type's key, when the filters fix all of them: then the id is known.
    ``is_pushed`` lets storage filter; ``limit`` stops it early.
    """

    variable: str
    type_name: str
    filters: tuple[Predicate, ...] = ()
    key: tuple[Constant | ParameterRef, ...] | None = None
    is_pushed: bool = False
    limit: int | None = None

    def __str__(self) -> str:
        how = "look up" if self.key is not None else "scan"
        pushed = " in storage" if self.is_pushed and self.filters and self.key is None else ""
        limit = "" if self.limit is None else f" limit {self.limit}"
        shown = NodeScan(variable=self.variable, type_name=self.type_name, filters=self.filters)
        return f"{how}{str(shown).removeprefix('scan')}{pushed}{limit}"


@record
class LinkTest:
    """Keeps rows whose ``source`` has an edge to their ``destination``; both are bound before."""

    source: str
    destination: str
    edge: str
    direction: Direction

    def __str__(self) -> str:
        arrow = {"out": f"-{self.edge}->", "in": f"<-{self.edge}-", "both": f"-{self.edge}-"}[self.direction]
        return f"test ${self.source} {arrow} ${self.destination}"


@record
class Link:
    """An edge from a bound variable to the one that is looked for; ``direction`` is seen from ``source``."""

    source: str
    edge: str
    direction: Direction
    edge_variable: str | None = None

    def __str__(self) -> str:
        name = self.edge if self.edge_variable is None else f"${self.edge_variable}:{self.edge}"
        return f"${self.source} " + {"out": f"-{name}->", "in": f"<-{name}-", "both": f"-{name}-"}[self.direction]


@record
class Intersect:
    """Binds ``destination`` to the nodes that every link leads to, a row for every choice of edges that have names.

    ``parts`` are the steps it stands for: an expansion, and a test for each further link. ``is_counted`` makes no
    rows of what is found, only a weight.
    """

    destination: str
    destination_type: str
    links: tuple[Link, ...]
    filters: tuple[Predicate, ...]
    parts: tuple[Step, ...]
    is_counted: bool = False

    def __str__(self) -> str:
        links = " and ".join(str(link) for link in self.links)
        what = "count intersection" if self.is_counted else "intersect"
        shown = NodeScan(variable=self.destination, type_name=self.destination_type, filters=self.filters)
        return f"{what}{str(shown).removeprefix('scan')} of {links}"


@record
class CountExpand:
    """Counts what an expansion would reach, and what would be reached from there, without making the rows."""

    expand: Expand
    inner: tuple[CountExpand, ...] = ()

    def __str__(self) -> str:
        return f"count {str(self.expand).removeprefix('expand')}".replace("  ", " ")


@record
class AntiJoinStep:
    """Keeps rows for which the inner steps find nothing. ``is_existence`` asks only whether there is a neighbour.

    ``variables`` holds the table of each variable the steps may use: two anti-joins may give one name to two types.
    """

    outer: tuple[str, ...]
    steps: tuple[Step, ...]
    variables: Mapping[str, str]
    is_existence: bool = False

    def __str__(self) -> str:
        names = ", ".join(f"${name}" for name in self.outer)
        return f"anti-join on {names}{' by existence' if self.is_existence else ''}"


@record
class OptionalStep:
    """Joins rows with what the inner steps find; a row for which they find nothing stays, ``introduced`` missing."""

    outer: tuple[str, ...]
    steps: tuple[Step, ...]
    variables: Mapping[str, str]
    introduced: tuple[str, ...]
    values: Mapping[str, PropertyType]

    def __str__(self) -> str:
        names = ", ".join(f"${name.removeprefix('$')}" for name in self.introduced)
        return f"optional join {names}"


@record
class BlockStep:
    """Gives every row a value: how many rows the inner steps find for it, or whether they find any."""

    name: str
    kind: Literal["exists", "count"]
    outer: tuple[str, ...]
    steps: tuple[Step, ...]
    variables: Mapping[str, str]

    def __str__(self) -> str:
        return f"{self.kind} on {', '.join(f'${name}' for name in self.outer)}"


Block = AntiJoinStep | OptionalStep | BlockStep
Step = Scan | UnionScan | Narrow | Widen | Expand | Walk | Filter | LinkTest | Intersect | CountExpand | Block | Unwind


def is_one_hop(step: Block) -> bool:
    """Whether the neighbours of an outer variable are all that a block asks for."""
    if len(step.steps) != 1:
        return False
    only = step.steps[0]
    return (
        isinstance(only, Expand)
        and only.source in step.outer
        and (only.min_hops, only.max_hops) == (1, 1)
        and not only.filters
    )


@record
class StageSteps:
    """A stage with everything that was decided before it runs; ``nullable`` are entities that may be missing."""

    steps: tuple[Step, ...]
    variables: Mapping[str, str]
    output: OutputPlan
    nullable: frozenset[str] = frozenset()


@record
class QueryPlan:
    """A read with everything that was decided before it runs.

    Args:
        read: the plan as compiled; what follows the match is taken from it.
        steps: what makes the rows.
        stages: what makes them where a read has stages: its own first, then those of each union.
        variables: the table of each variable.
        columns: the properties to read of each table.
        fits_literals: bring literals to the column's type before comparing.
        is_late: read properties only for the rows that need them.
        cuts_early: with an order and a limit, keep no more rows than the limit on the way.
        ranked_scan: the only step, where all that it finds is ranked before rows are made of it.
        rules: the rules that were applied.
    """

    read: ReadPlan
    steps: tuple[Step, ...]
    variables: Mapping[str, str]
    columns: Mapping[str, tuple[str, ...]]
    fits_literals: bool = False
    is_late: bool = False
    cuts_early: bool = False
    ranked_scan: Scan | None = None
    rules: tuple[str, ...] = ()
    stages: tuple[tuple[StageSteps, ...], ...] = ()


def walk(steps: tuple[Step, ...], variables: Mapping[str, str]) -> Iterator[tuple[Step, Mapping[str, str]]]:
    """Yield every step with the tables of the variables it may use, those inside anti-joins and counts too."""
    for step in steps:
        yield step, variables
        if isinstance(step, Block):
            yield from walk(step.steps, step.variables)
        elif isinstance(step, CountExpand):
            yield from walk(step.inner, variables)
