"""Operators of the match pipeline; each takes the rows of the one before it."""

from __future__ import annotations

from typing import Literal

from omnigraph.ir.model.predicates import Predicate
from omnigraph.records import record

Direction = Literal["out", "in", "both"]

# No variable of the language can hold this mark, so a private name meets no written one.
PRIVATE_MARK = "#"


@record
class NodeScan:
    """The nodes of a type that pass the filters, joined with earlier rows as a cross product."""

    variable: str
    type_name: str
    filters: tuple[Predicate, ...] = ()

    def __str__(self) -> str:
        return f"scan ${self.variable}: {self.type_name}{_where(self.filters)}"


@record
class Expand:
    """From each row's ``source`` to the entities it reaches over ``edge``.

    ``direction`` is seen from ``source``. ``is_backward`` says that the walk starts at the written destination: the
    answer is still what the written source reaches, which differs from plain reversal only where a bound above one
    hop meets a self-loop.
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
    is_backward: bool = False

    def __str__(self) -> str:
        hops = "" if (self.min_hops, self.max_hops) == (1, 1) else f"{{{self.min_hops},{self.max_hops}}}"
        name = f"{'' if self.edge_variable is None else f'${self.edge_variable}:'}{self.edge}{hops}"
        arrow = {"out": f"-{name}->", "in": f"<-{name}-", "both": f"-{name}-"}[self.direction]
        backward = " backward" if self.is_backward else ""
        end = f"${self.destination}: {self.destination_type}"
        return f"expand{backward} ${self.source} {arrow} {end}{_where(self.filters)}"


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


Operator = NodeScan | Expand | Filter | AntiJoin


def _where(filters: tuple[Predicate, ...]) -> str:
    return f" where {' and '.join(str(item) for item in filters)}" if filters else ""
