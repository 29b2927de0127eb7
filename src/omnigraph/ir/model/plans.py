"""Whole plans: a read, or a mutation."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any, Literal

from omnigraph.catalog.model import PropertyType
from omnigraph.ir.model.expressions import (
    AggregateCall,
    Column,
    Compare,
    Constant,
    OutputExpression,
    OutputRef,
    ParameterRef,
    Predicate,
    Ranking,
    Scalarlike,
)
from omnigraph.records import record

Direction = Literal["out", "in", "both"]

# No variable of the language can hold this mark, so a private name meets no written one.
PRIVATE_MARK = "#"

# Stands between the tables of a variable that ranges over several.
TABLE_MARK = "|"


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
    """The nodes of several types that pass the filters, joined with earlier rows as a cross product."""

    variable: str
    type_names: tuple[str, ...]
    filters: tuple[Predicate, ...] = ()

    @property
    def tables(self) -> str:
        """The tables of the variable."""
        return TABLE_MARK.join(f"node:{name}" for name in self.type_names)

    def __str__(self) -> str:
        return f"scan ${self.variable}: {' | '.join(self.type_names)}{_where(self.filters)}"


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
        return f"expand{_route(self)}"


@record
class Walk:
    """From each row's ``source`` to the nodes it reaches over edges that all satisfy a condition.

    Each edge has any of the types ``edges``. ``condition`` knows it as ``edge_variable`` and may look at anything else
    that the row holds; ``binds_edge`` makes a row of every edge, and the variable known behind the walk. Direction and
    ``is_backward`` mean what they mean for :class:`Expand`. Without ``max_hops`` a walk goes on until it meets no new
    node, and fails beyond the number of hops that the options of the read allow.

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
    is_backward: bool = False
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
    backward = " backward" if step.is_backward else ""
    end = f"${step.destination}: {step.destination_type}"
    return f"{backward} ${step.source} {arrow} {end}{_where(step.filters)}"


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


_INNER_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def to_json(node: Any) -> dict[str, Any]:
    """Return a plan's fields as plain JSON values, absent optional ones left out."""
    fields = dataclasses.fields(node)
    values = {item.name: getattr(node, item.name) for item in fields}
    return {name: _encode(value) for name, value in values.items() if value is not None}


def _encode(value: Any) -> Any:
    if isinstance(value, PropertyType):
        return str(value)
    if dataclasses.is_dataclass(value):
        return {"kind": _INNER_CAPITAL.sub("_", type(value).__name__).lower(), **to_json(value)}
    if isinstance(value, tuple):
        return [_encode(item) for item in value]
    return value


EntityKind = Literal["node", "edge"]


@record
class ParameterSlot:
    """A declared parameter of a plan."""

    name: str
    type: PropertyType

    def __str__(self) -> str:
        return f"${self.name}: {self.type}"


@record
class Output:
    """One column of the result."""

    name: str
    expression: OutputExpression
    type: PropertyType

    def __str__(self) -> str:
        return f"{self.name}: {self.type} = {self.expression}"


@record
class OrderKey:
    """An order key; NULL sorts as smaller than every value."""

    key: Scalarlike | OutputRef
    descending: bool = False
    nulls_first: bool | None = None

    @property
    def has_nulls_first(self) -> bool:
        """Where NULL goes; it is smaller than every value unless the text says otherwise."""
        return not self.descending if self.nulls_first is None else self.nulls_first

    @property
    def is_plain(self) -> bool:
        """Whether it needs no computing, and NULL goes where it goes by itself."""
        return isinstance(self.key, Column | OutputRef) and self.has_nulls_first is not self.descending

    def __str__(self) -> str:
        return f"{self.key} {'desc' if self.descending else 'asc'} nulls {'first' if self.has_nulls_first else 'last'}"


@record
class EntityTies:
    """Equal rows are ordered by the ids of these variables, ascending; a fusion asks its arms before that."""

    variables: tuple[str, ...]
    asks_arms: bool = False

    def __str__(self) -> str:
        ids = [f"id(${name})" for name in self.variables]
        return ", ".join(["first arm", "second arm", *ids] if self.asks_arms else ids)


@record
class GroupTies:
    """Equal groups are ordered by their key columns, ascending."""

    outputs: tuple[OutputRef, ...]

    def __str__(self) -> str:
        return ", ".join(str(output) for output in self.outputs)


@record
class OutputPlan:
    """What is made of grouped, distinct or computed rows, beside what every read has.

    Group columns and aggregates become a table first; ``shown``, ``having``, the order keys and ``per`` are computed
    from that table where there are groups, and from rows of the match where there are none.

    Args:
        shown: the columns of the result; an aggregate stands as the :class:`ValueRef` of its place in ``aggregates``.
        keys: what groups are made by, named; None without groups.
        aggregates: what is computed for every group, by name.
        kept: the entities that go on to the next stage.
    """

    shown: tuple[Output, ...]
    keys: tuple[tuple[str, Scalarlike], ...] | None = None
    aggregates: tuple[tuple[str, AggregateCall], ...] = ()
    is_distinct: bool = False
    having: Scalarlike | None = None
    order: tuple[OrderKey, ...] = ()
    ties: tuple[Scalarlike, ...] = ()
    offset: Constant | ParameterRef | None = None
    limit: Constant | ParameterRef | None = None
    per: tuple[Scalarlike, ...] = ()
    kept: tuple[str, ...] = ()


@record
class StagePlan:
    """A match that starts from the rows of the stage before, and what is made of it."""

    operators: tuple[Operator, ...]
    output: OutputPlan
    outer: tuple[str, ...] = ()
    nullable: frozenset[str] = frozenset()


@record
class UnionPlan:
    """Stages whose rows are added to those of the read."""

    stages: tuple[StagePlan, ...]
    keeps_duplicates: bool


@record
class ReadPlan:
    """Everything a read does, in order: match, group, rank or order, cut.

    ``groups`` is None without aggregates; else it holds the positions of the key columns, none for a single group.
    With a ranking there are no order keys. A read that needs more than that has ``stages``, the last of which returns,
    and ``outputs`` that only name and type its columns.
    """

    name: str
    parameters: tuple[ParameterSlot, ...]
    operators: tuple[Operator, ...]
    outputs: tuple[Output, ...]
    groups: tuple[int, ...] | None = None
    ranking: Ranking | None = None
    order: tuple[OrderKey, ...] = ()
    ties: EntityTies | GroupTies | None = None
    limit: int | None = None
    stages: tuple[StagePlan, ...] = ()
    unions: tuple[UnionPlan, ...] = ()
    united: OutputPlan | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain JSON values."""
        return {"kind": "read", **to_json(self)}

    def describe(self) -> str:
        """Return the plan as text for people, one step per line."""
        return "\n".join(_read_lines(self))


@record
class Assign:
    """A property and the value it gets."""

    property: str
    value: Constant | ParameterRef
    type: PropertyType

    def __str__(self) -> str:
        return f"{self.property} = {self.value}"


@record
class InsertPlan:
    """Insert one entity; for an edge ``from_id`` and ``to_id`` are set, and ends name their types."""

    entity: EntityKind
    type_name: str
    assigns: tuple[Assign, ...]
    from_id: Constant | ParameterRef | None = None
    to_id: Constant | ParameterRef | None = None
    from_type: str | None = None
    to_type: str | None = None

    def __str__(self) -> str:
        ends = "" if self.from_id is None else f" from {self.from_type} {self.from_id} to {self.to_type} {self.to_id}"
        return f"insert {self.entity} {self.type_name}{ends}{_set(self.assigns)}"


@record
class UpdatePlan:
    """Assign properties of every node that matches."""

    type_name: str
    assigns: tuple[Assign, ...]
    where: Compare

    def __str__(self) -> str:
        return f"update node {self.type_name}{_set(self.assigns)} where {self.where}"


@record
class DeletePlan:
    """Remove every entity that matches; a node takes its edges of the listed types with it."""

    entity: EntityKind
    type_name: str
    where: Compare
    cascades: tuple[str, ...] = ()

    def __str__(self) -> str:
        cascade = f" cascading to {', '.join(self.cascades)}" if self.cascades else ""
        return f"delete {self.entity} {self.type_name} where {self.where}{cascade}"


StatementPlan = InsertPlan | UpdatePlan | DeletePlan


@record
class MutationPlan:
    """The statements of a mutation, in text order."""

    name: str
    parameters: tuple[ParameterSlot, ...]
    statements: tuple[StatementPlan, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain JSON values."""
        return {"kind": "mutation", **to_json(self)}

    def describe(self) -> str:
        """Return the plan as text for people, one statement per line."""
        return "\n".join([_head("mutation", self), *(f"  {statement}" for statement in self.statements)])


Plan = ReadPlan | MutationPlan


def _head(kind: str, plan: Plan) -> str:
    return f"{kind} {plan.name}({', '.join(str(slot) for slot in plan.parameters)})"


def _read_lines(plan: ReadPlan) -> Iterator[str]:
    yield _head("read", plan)
    if plan.stages:
        yield from _stage_lines(plan)
        return
    yield from _operator_lines(plan.operators, "  ")
    if plan.groups is not None:
        keys = ", ".join(plan.outputs[index].name for index in plan.groups)
        yield f"  group by {keys}" if keys else "  group into one row"
    ties = "" if plan.ties is None else f" ties by {plan.ties}"
    if plan.ranking is not None:
        yield f"  rank by {plan.ranking}{ties}"
    if plan.order:
        yield f"  order by {', '.join(str(key) for key in plan.order)}{ties}"
    if plan.limit is not None:
        yield f"  limit {plan.limit}"
    yield "  return"
    yield from (f"    {output}" for output in plan.outputs)


def _stage_lines(plan: ReadPlan) -> Iterator[str]:
    for number, stages in enumerate((plan.stages, *(union.stages for union in plan.unions))):
        if number:
            yield "  union all" if plan.unions[number - 1].keeps_duplicates else "  union"
        for stage in stages:
            yield from _operator_lines(stage.operators, "  ")
            yield from _output_lines(stage.output)
    if plan.united is not None:
        yield from _output_lines(plan.united)


def _output_lines(output: OutputPlan) -> Iterator[str]:
    if output.keys is not None:
        names = ", ".join(str(key) for _, key in output.keys)
        yield f"  group by {names}" if names else "  group into one row"
        yield from (f"    {name} = {call}" for name, call in output.aggregates)
    if output.having is not None:
        yield f"  having {output.having}"
    if output.is_distinct:
        yield "  distinct"
    if output.order:
        yield f"  order by {', '.join(str(key) for key in output.order)}"
    if output.per:
        yield f"  per {', '.join(map(str, output.per))}"
    if output.offset is not None:
        yield f"  offset {output.offset}"
    if output.limit is not None:
        yield f"  limit {output.limit}"
    yield "  return"
    yield from (f"    {shown}" for shown in output.shown)


def output_lines(plan: ReadPlan) -> Iterator[str]:
    """Yield what a read of stages makes of the rows that its last one matches."""
    lines = list(_output_lines(plan.stages[-1].output if plan.united is None else plan.united))
    named = lines.index("  return")
    yield from lines[:named]
    yield f"return {', '.join(output.name for output in plan.outputs)}"


def _operator_lines(operators: tuple[Operator, ...], margin: str) -> Iterator[str]:
    for operator in operators:
        yield f"{margin}{operator}"
        if isinstance(operator, AntiJoin | OptionalJoin | BlockValue):
            yield from _operator_lines(operator.inner, margin + "  ")


def _set(assigns: tuple[Assign, ...]) -> str:
    return f" set {', '.join(str(assign) for assign in assigns)}" if assigns else ""
