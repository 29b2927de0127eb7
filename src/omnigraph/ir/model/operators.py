"""What makes the rows of a match, one operator after the other."""

from __future__ import annotations

from typing import Literal

from omnigraph.ir.model.expressions import Predicate, Scalarlike
from omnigraph.records import record

Direction = Literal["out", "in", "both"]

# No variable of the language can hold this mark, so a private name meets no written one.
PRIVATE_MARK = "#"
# Columns between stages: which row an entity is, and the place that an ordered stage gave each row.
ROW_MARK, PLACE = "#row ", "#place"
# Values of the rows of a ranked stage: their places, counted from 0, and the distance or score of what was ranked.
RANK, SCORE = "#rank", "#score"

# Stands between the tables of a variable that ranges over several.
TABLE_MARK = "|"
# What a variable has instead of tables when it ranges over an interface that no type implements.
INTERFACE_MARK = "interface:"


@record
class NodeScan:
    """The nodes of a type that pass the filters, joined with earlier rows as a cross product."""

    variable: str
    type_name: str
    filters: tuple[Predicate, ...] = ()

    def __str__(self) -> str:
        return f"scan ${self.variable}: {self.type_name}{_where(self.filters)}"


@record
class UnionScan:
    """The nodes of an interface that pass the filters, joined with earlier rows as a cross product.

    ``type_names`` are the types that implement it, of which there may be none.
    """

    variable: str
    interface: str
    type_names: tuple[str, ...]
    filters: tuple[Predicate, ...] = ()

    @property
    def tables(self) -> str:
        """The tables of the variable; the interface itself if there is none."""
        return TABLE_MARK.join(f"node:{name}" for name in self.type_names) or f"{INTERFACE_MARK}{self.interface}"

    def __str__(self) -> str:
        types = " | ".join(self.type_names) or f"{self.interface} (no type)"
        return f"scan ${self.variable}: {types}{_where(self.filters)}"


@record
class Narrow:
    """Keeps the rows whose ``variable``, which ranges over several types, is of one type, and names it as one of it."""

    variable: str
    type_name: str
    name: str

    def __str__(self) -> str:
        return f"narrow ${self.variable} to ${self.name}: {self.type_name}"


@record
class Widen:
    """Gives an entity of one type the name of a variable that ranges over several."""

    variable: str
    type_names: tuple[str, ...]
    name: str
    type_name: str

    @property
    def tables(self) -> str:
        """The tables of the variable."""
        return TABLE_MARK.join(f"node:{name}" for name in self.type_names)

    def __str__(self) -> str:
        return f"widen ${self.name}: {self.type_name} to ${self.variable}: {' | '.join(self.type_names)}"


@record
class Expand:
    """From each row's ``source`` to the entities it reaches over ``edge``.

    ``direction`` is seen from ``source``, which may be the written destination: walks have the same ends either way.
    """

    source: str
    destination: str
    edge: str
    direction: Direction
    destination_type: str
    min_hops: int = 1
    max_hops: int = 1
    filters: tuple[Predicate, ...] = ()
    edge_variable: str | None = None

    def __str__(self) -> str:
        return f"expand{_route(self)}"


@record
class Walk:
    """From each row's ``source`` to the nodes it reaches over edges that all satisfy a condition.

    Each edge has any of the types ``edges``. ``condition`` knows it as ``edge_variable`` and may look at anything else
    that the row holds; ``binds_edge`` makes a row of every edge, and the variable known behind the walk. Direction
    means what it means for :class:`Expand`. Without ``max_hops`` a walk goes on until it meets no new node, and fails
    beyond the number of hops that the options of the read allow.

    ``path`` names the least of the shortest ways to each node, or all of them. It is found from the written source;
    ``goal`` is then where it ends, if that is bound before.
    """

    source: str
    destination: str
    edges: tuple[str, ...]
    direction: Direction
    destination_type: str
    min_hops: int = 1
    max_hops: int | None = 1
    filters: tuple[Predicate, ...] = ()
    edge_variable: str | None = None
    condition: Predicate | None = None
    binds_edge: bool = False
    path: str | None = None
    keeps_all_paths: bool = False
    goal: str | None = None

    @property
    def edge(self) -> str:
        """The name of all edge types together."""
        return "|".join(self.edges)

    @property
    def edge_tables(self) -> str:
        """The tables of the edges, as variables over several tables name them."""
        return TABLE_MARK.join(f"edge:{name}" for name in self.edges)

    def __str__(self) -> str:
        over = "" if self.condition is None else f" over edges with {self.condition}"
        path = "" if self.path is None else f" {'all paths' if self.keeps_all_paths else 'path'} {self.path}:"
        goal = "" if self.goal is None else f" that is ${self.goal}"
        return f"walk{path}{_route(self)}{goal}{over}"


def _route(step: Expand | Walk) -> str:
    most = "" if step.max_hops is None else step.max_hops
    hops = "" if (step.min_hops, step.max_hops) == (1, 1) else f"{{{step.min_hops},{most}}}"
    name = f"{'' if step.edge_variable is None else f'${step.edge_variable}:'}{step.edge}{hops}"
    arrow = {"out": f"-{name}->", "in": f"<-{name}-", "both": f"-{name}-"}[step.direction]
    end = f"${step.destination}: {step.destination_type}"
    return f" ${step.source} {arrow} {end}{_where(step.filters)}"


@record
class Filter:
    """Keeps the rows that pass."""

    predicate: Predicate

    def __str__(self) -> str:
        return f"filter {self.predicate}"


@record
class AntiJoin:
    """Keeps the rows for which the inner pipeline, started with the outer variables fixed, has no solution."""

    outer: tuple[str, ...]
    inner: tuple[Operator, ...]

    @property
    def is_existence_test(self) -> bool:
        """Whether one look at the neighbours of an outer variable decides, without running the pipeline."""
        if len(self.inner) != 1:
            return False
        only = self.inner[0]
        return (
            isinstance(only, Expand)
            and only.source in self.outer
            and (only.min_hops, only.max_hops) == (1, 1)
            and not only.filters
        )

    def __str__(self) -> str:
        names = ", ".join(f"${name}" for name in self.outer)
        return f"anti-join on {names}{' by existence' if self.is_existence_test else ''}"


@record
class OptionalJoin:
    """Joins every row with the solutions of the inner pipeline; a row without any stays, its new variables missing."""

    outer: tuple[str, ...]
    inner: tuple[Operator, ...]
    introduced: tuple[str, ...]

    def __str__(self) -> str:
        names = ", ".join(f"${name.removeprefix('$')}" for name in self.introduced)
        return f"optional join {names}"


@record
class BlockValue:
    """Asks the inner pipeline of every row how many solutions it has, or whether it has any."""

    name: str
    kind: Literal["exists", "count"]
    outer: tuple[str, ...]
    inner: tuple[Operator, ...]

    def __str__(self) -> str:
        return f"{self.kind} as {self.name}"


@record
class Unwind:
    """Makes one row per item of a list."""

    name: str
    items: Scalarlike

    def __str__(self) -> str:
        return f"each {self.name} in {self.items}"


Operator = (
    NodeScan | UnionScan | Narrow | Widen | Expand | Walk | Filter | AntiJoin | OptionalJoin | BlockValue | Unwind
)


def _where(filters: tuple[Predicate, ...]) -> str:
    return f" where {' and '.join(str(item) for item in filters)}" if filters else ""
