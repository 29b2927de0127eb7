"""Whole plans: a read, or a mutation."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Literal

from omnigraph.catalog.model import PropertyType
from omnigraph.ir.model.expressions import (
    AggregateCall,
    Column,
    Compare,
    Condition,
    Constant,
    EntityVersion,
    OutputExpression,
    OutputRef,
    ParameterRef,
    Ranking,
    Scalarlike,
)
from omnigraph.ir.model.operators import ROW_MARK, AntiJoin, BlockValue, Operator, OptionalJoin
from omnigraph.records import record
from omnigraph.values.decimals import decimal_text
from omnigraph.values.patterns import late_pattern

_INNER_CAPITAL = late_pattern(r"(?<=[a-z0-9])(?=[A-Z])")


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
    if isinstance(value, Decimal):
        return decimal_text(value)
    return sorted(value) if isinstance(value, frozenset) else value


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
class RankPlan:
    """How the rows of a stage get the values :data:`RANK` and :data:`SCORE`, before anything else is made of them.

    Args:
        ranking: gives every entity of one variable a place and a distance or score.
        ties: what rows of one entity are ordered by.
        keeps_unranked: whether rows whose entity has no place stay behind all others, as they do where there are
            aggregates; else they are left out.
    """

    ranking: Ranking
    ties: tuple[Scalarlike, ...]
    keeps_unranked: bool

    def __str__(self) -> str:
        return f"rank by {self.ranking}"


@record
class OutputPlan:
    """What is made of grouped, distinct or computed rows, beside what every read has.

    Group columns and aggregates become a table first; ``shown``, ``having``, the order keys and ``per`` are computed
    from that table where there are groups, and from rows of the match where there are none.

    Args:
        shown: the columns of the result; an aggregate stands as the :class:`ValueRef` of its place in ``aggregates``.
        keys: what groups are made by, named; None without groups.
        aggregates: what is computed for every group, by name.
        is_last: whether this is the result; a cut before that keeps the first rows in order, not any.
        row_order: what rows of the match are ordered by where nothing else says, for lists of their values.
        rank: the ranking of the rows, if they have one; of equal rows that are returned once the best place counts.
        kept: the entities that go on to the next stage, by their names there and here.
    """

    shown: tuple[Output, ...]
    keys: tuple[tuple[str, Scalarlike], ...] | None = None
    aggregates: tuple[tuple[str, AggregateCall], ...] = ()
    is_distinct: bool = False
    is_last: bool = True
    having: Scalarlike | None = None
    order: tuple[OrderKey, ...] = ()
    ties: tuple[Scalarlike, ...] = ()
    row_order: tuple[Scalarlike, ...] = ()
    offset: Constant | ParameterRef | None = None
    limit: Constant | ParameterRef | None = None
    per: tuple[Scalarlike, ...] = ()
    kept: tuple[tuple[str, str], ...] = ()
    rank: RankPlan | None = None

    @property
    def cuts_rows(self) -> bool:
        """Whether the limit counts rows of the match, and not groups or what passes some further test."""
        return self.keys is None and not self.is_distinct and self.having is None and not self.per


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
    value: Scalarlike
    type: PropertyType

    def __str__(self) -> str:
        return f"{self.property} = {self.value}"


# What an insert does about a key that exists, where that is not to replace the whole entity: leave the entity as it
# is, refuse, or change what is given.
InsertMode = Literal["keep", "refuse", "merge"]
_MODES: dict[InsertMode | None, str] = {
    None: "insert",
    "keep": "insert absent",
    "refuse": "insert new",
    "merge": "upsert",
}


@record
class InsertPlan:
    """Insert one entity, or one for each distinct row of variables of the match before it.

    For an edge ``from_id`` and ``to_id`` are set, and ends name their types; an upsert may leave ends out that its key
    does not need.
    """

    entity: EntityKind
    type_name: str
    assigns: tuple[Assign, ...]
    from_id: Scalarlike | None = None
    to_id: Scalarlike | None = None
    from_type: str | None = None
    to_type: str | None = None
    mode: InsertMode | None = None
    for_each: tuple[str, ...] | None = None
    blocks: tuple[Operator, ...] = ()

    def __str__(self) -> str:
        start = "" if self.from_id is None else f" from {self.from_type} {self.from_id}"
        end = "" if self.to_id is None else f" to {self.to_type} {self.to_id}"
        each = "" if self.for_each is None else f" for each {_named(self.for_each)}"
        return f"{_MODES[self.mode]} {self.entity} {self.type_name}{start}{end}{_set(self.assigns)}{each}"


# The version that a statement insists on.
Guard = Constant | ParameterRef


def _guarded(version: Guard | None) -> str:
    return "" if version is None else f" if version = {version}"


@record
class UpdatePlan:
    """Assign properties of every entity that matches."""

    type_name: str
    assigns: tuple[Assign, ...]
    where: Compare | Condition
    entity: EntityKind = "node"
    version: Guard | None = None
    blocks: tuple[Operator, ...] = ()

    def __str__(self) -> str:
        guard = _guarded(self.version)
        return f"update {self.entity} {self.type_name}{_set(self.assigns)} where {self.where}{guard}"


@record
class DeletePlan:
    """Remove every entity that matches; a node takes its edges of the listed types with it."""

    entity: EntityKind
    type_name: str
    where: Compare | Condition
    cascades: tuple[str, ...] = ()
    version: Guard | None = None
    blocks: tuple[Operator, ...] = ()

    def __str__(self) -> str:
        cascade = f" cascading to {', '.join(self.cascades)}" if self.cascades else ""
        return f"delete {self.entity} {self.type_name} where {self.where}{_guarded(self.version)}{cascade}"


@record
class BoundEntity:
    """A variable of a match and the type of its entities; nodes that are deleted take edges of some types with them.

    A variable of several types has ``parts``, one for each of them.
    """

    variable: str
    entity: EntityKind
    type_name: str
    cascades: tuple[str, ...] = ()
    parts: tuple[BoundEntity, ...] = ()

    @property
    def of_one_type(self) -> tuple[BoundEntity, ...]:
        """The same variable for each type that its entities may have."""
        return self.parts or (self,)

    def __str__(self) -> str:
        return f"${self.variable}: {self.type_name}"


@record
class MatchPlan:
    """Finds the rows that the statements behind it are about.

    ``read`` returns the id of each variable's entity, then the type of those that may have several, then the values
    that travel with the rows.
    """

    read: ReadPlan
    entities: tuple[BoundEntity, ...]
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join(["match", *_operator_lines(self.read.stages[0].operators, "    ")])


@record
class UpdateMatchedPlan:
    """Assign properties of every entity that a variable of the match holds."""

    target: BoundEntity
    assigns: tuple[Assign, ...]
    version: Guard | None = None
    blocks: tuple[Operator, ...] = ()

    def __str__(self) -> str:
        return f"update {self.target.entity} {self.target}{_set(self.assigns)}{_guarded(self.version)}"


@record
class DeleteMatchedPlan:
    """Remove every entity that these variables of the match hold."""

    targets: tuple[BoundEntity, ...]
    version: Guard | None = None

    def __str__(self) -> str:
        return f"delete {', '.join(map(str, self.targets))}{_guarded(self.version)}"


def asks_versions(plan: object) -> bool:
    """Whether some part of a plan asks which commit last changed an entity."""
    if isinstance(plan, EntityVersion):
        return True
    if isinstance(plan, tuple):
        return any(map(asks_versions, plan))
    if not dataclasses.is_dataclass(plan) or isinstance(plan, type):
        return False
    return any(asks_versions(getattr(plan, part.name)) for part in dataclasses.fields(plan))


StatementPlan = InsertPlan | UpdatePlan | DeletePlan | MatchPlan | UpdateMatchedPlan | DeleteMatchedPlan


@record
class MutationPlan:
    """The statements of a mutation, in text order, and what it returns.

    ``returned`` are computed of the rows of the last match, or of the entities that the last statement wrote, when the
    statements have been run. ``blocks`` of a plan are what its values ask: each answers for the rows that the values
    are computed of, as the graph is then.
    """

    name: str
    parameters: tuple[ParameterSlot, ...]
    statements: tuple[StatementPlan, ...]
    returned: tuple[Output, ...] | None = None
    blocks: tuple[Operator, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain JSON values."""
        return {"kind": "mutation", **to_json(self)}

    def describe(self) -> str:
        """Return the plan as text for people, one statement per line."""
        lines = [_head("mutation", self)]
        for statement in self.statements:
            lines.append(f"  {statement}")
            if not isinstance(statement, MatchPlan | DeleteMatchedPlan):
                lines += _operator_lines(statement.blocks, "    ")
        if self.returned is not None:
            lines += ["  return", *(f"    {output}" for output in self.returned), *_operator_lines(self.blocks, "    ")]
        return "\n".join(lines)


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
    if output.rank is not None:
        ties = ", ".join(map(str, output.rank.ties))
        yield f"  {output.rank}{f' ties by {ties}' if ties else ''}"
    if output.keys is not None:
        names = ", ".join(str(key) for _, key in output.keys)
        yield f"  group by {names}" if names else "  group into one row"
        yield from (f"    {name} = {call}" for name, call in output.aggregates)
    if output.having is not None:
        yield f"  having {output.having}"
    if output.is_distinct:
        yield "  distinct"
    if output.order and output.rank is None:
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


def stage_lines(output: OutputPlan) -> Iterator[str]:
    """Yield what a stage that others follow makes of the rows that it matches."""
    lines = list(_output_lines(output))
    yield from (line.strip() for line in lines[: lines.index("  return")])
    yield f"keep {', '.join(shown.name.replace(ROW_MARK, '$') for shown in output.shown)}"


def _operator_lines(operators: tuple[Operator, ...], margin: str) -> Iterator[str]:
    for operator in operators:
        yield f"{margin}{operator}"
        if isinstance(operator, AntiJoin | OptionalJoin | BlockValue):
            yield from _operator_lines(operator.inner, margin + "  ")


def _named(variables: tuple[str, ...]) -> str:
    return ", ".join(f"${name}" for name in variables)


def _set(assigns: tuple[Assign, ...]) -> str:
    return f" set {', '.join(str(assign) for assign in assigns)}" if assigns else ""
