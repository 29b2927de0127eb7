"""Lowering's entry: a checked query to its plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from omnigraph.catalog.defaults import default_value, has_default
from omnigraph.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.ir.check.mutations import stored_name, target_columns
from omnigraph.ir.check.scope import several_types
from omnigraph.ir.check.tree import (
    CheckedAssignment,
    CheckedDelete,
    CheckedDeleteMatched,
    CheckedInsert,
    CheckedMatchStatement,
    CheckedMutation,
    CheckedPredicate,
    CheckedQuery,
    CheckedRead,
    CheckedStatement,
    CheckedUpdate,
    CheckedUpdateMatched,
    Operand,
)
from omnigraph.ir.lower.expressions import Lowering
from omnigraph.ir.lower.match import lower_match, lower_pending
from omnigraph.ir.lower.output import lower_output
from omnigraph.ir.lower.stages import is_classic, lower_stages
from omnigraph.ir.model import (
    TARGET,
    Assign,
    BoundEntity,
    Column,
    Compare,
    Condition,
    Constant,
    DeleteMatchedPlan,
    DeletePlan,
    EntityKind,
    EntityRef,
    EntityType,
    Guard,
    InsertPlan,
    MatchPlan,
    MutationPlan,
    Operator,
    OptionalJoin,
    Output,
    OutputPlan,
    ParameterSlot,
    Plan,
    ReadPlan,
    Scalarlike,
    StagePlan,
    StatementPlan,
    TargetColumn,
    UnionScan,
    Unwind,
    UpdateMatchedPlan,
    UpdatePlan,
    ValueRef,
    Walk,
    Widen,
)
from omnigraph.ir.types import NULL, TEXT
from omnigraph.lang.gq import ast


def lower_statement(statement: CheckedStatement, catalog: Catalog, lowering: Lowering) -> StatementPlan:
    """Lower one statement."""
    match statement:
        case CheckedInsert():
            plan = _lower_insert(statement, lowering)
            return replace(plan, blocks=lower_pending(lowering, frozenset(statement.for_each or ())))
        case CheckedMatchStatement():
            return _lower_match(statement, catalog, lowering)
        case CheckedUpdateMatched():
            for target in concrete_types(statement.target, catalog):
                _refuse_key(target, statement.assignments, lowering)
            return UpdateMatchedPlan(
                target=_bound(statement.variable, statement.target, catalog),
                assigns=_assigns(statement.assignments, lowering),
                version=_guard(statement.version, lowering),
                blocks=lower_pending(lowering, statement.visible),
            )
        case CheckedDeleteMatched():
            targets = tuple(_bound(name, target, catalog) for name, target in statement.targets.items())
            return DeleteMatchedPlan(targets=targets, version=_guard(statement.version, lowering))
        case CheckedUpdate():
            _refuse_key(statement.target, statement.assignments, lowering)
            inner = _with_target(statement.target, lowering)
            return UpdatePlan(
                entity=_entity(statement.target),
                type_name=statement.target.name,
                assigns=_assigns(statement.assignments, inner),
                where=_where(statement.predicate, inner),
                version=_guard(statement.version, lowering),
                # Inside a block a bare name is a value of the row, not a column of the target.
                blocks=lower_pending(lowering, frozenset()),
            )
        case CheckedDelete():
            target = statement.target
            return DeletePlan(
                entity=_entity(target),
                type_name=target.name,
                where=_where(statement.predicate, _with_target(target, lowering)),
                cascades=incident_edges(target, catalog) if isinstance(target, NodeType) else (),
                version=_guard(statement.version, lowering),
                blocks=lower_pending(lowering, frozenset()),
            )
        case _:
            assert_never(statement)


def _bound(variable: str, target: NodeType | EdgeType, catalog: Catalog) -> BoundEntity:
    concrete = concrete_types(target, catalog)
    parts = () if concrete == (target,) else tuple(_bound(variable, one, catalog) for one in concrete)
    cascades = incident_edges(target, catalog) if isinstance(target, NodeType) and not parts else ()
    name = "|".join(part.type_name for part in parts) if parts else target.name
    return BoundEntity(variable=variable, entity=_entity(target), type_name=name, cascades=cascades, parts=parts)


def concrete_types(target: NodeType | EdgeType, catalog: Catalog) -> tuple[NodeType | EdgeType, ...]:
    """Return the types of the schema that entities of a type may have."""
    names = several_types(target, catalog)
    if not names:
        return (target,)
    owners: Mapping[str, NodeType | EdgeType] = catalog.nodes if isinstance(target, NodeType) else catalog.edges
    return tuple(owners[name] for name in names)


def _lower_match(statement: CheckedMatchStatement, catalog: Catalog, lowering: Lowering) -> MatchPlan:
    operators = lower_match(statement.clauses, lowering)
    entities = tuple(_bound(name, target, catalog) for name, target in statement.entities.items())
    found: list[Scalarlike] = [EntityRef(variable=name, type=TEXT) for name in statement.entities]
    found += [EntityType(variable=bound.variable, type=TEXT) for bound in entities if bound.parts]
    found += [ValueRef(name=name, type=of) for name, of in statement.values.items()]
    shown = tuple(Output(name=str(item), expression=item, type=item.type) for item in found)
    stage = StagePlan(operators=operators, output=OutputPlan(shown=shown), nullable=statement.nullable)
    read = ReadPlan(name="match", parameters=(), operators=(), outputs=shown, stages=(stage,))
    return MatchPlan(read=read, entities=entities, values=tuple(statement.values))


def incident_edges(node: NodeType, catalog: Catalog) -> tuple[str, ...]:
    """Return the edge types that start or end at a node type, by name."""
    return tuple(name for name, edge in sorted(catalog.edges.items()) if node.name in {edge.from_type, edge.to_type})


def _lower_insert(statement: CheckedInsert, lowering: Lowering) -> InsertPlan:
    target = statement.target
    mode, for_each = statement.mode, statement.for_each
    if isinstance(target, NodeType):
        assigns = _with_defaults(statement, _assigns(statement.assignments, lowering))
        return InsertPlan(entity="node", type_name=target.name, assigns=assigns, mode=mode, for_each=for_each)
    ends = {item.property.name: item for item in statement.assignments if item.property.name in {"from", "to"}}
    assigns = _assigns(tuple(item for item in statement.assignments if item not in ends.values()), lowering)
    return InsertPlan(
        entity="edge",
        type_name=target.name,
        assigns=_with_defaults(statement, assigns),
        from_id=_end(ends.get("from"), lowering),
        to_id=_end(ends.get("to"), lowering),
        from_type=target.from_type,
        to_type=target.to_type,
        mode=mode,
        for_each=for_each,
    )


def _with_defaults(statement: CheckedInsert, assigns: tuple[Assign, ...]) -> tuple[Assign, ...]:
    """Add the defaults of what is not assigned; whether an upsert needs them shows when it is run."""
    if statement.mode == "merge":
        return assigns
    named = {assign.property for assign in assigns}
    left_out = [prop for prop in statement.target.properties if prop.name not in named and has_default(prop)]
    return assigns + tuple(
        Assign(property=prop.name, value=Constant(value=default_value(prop), type=prop.type), type=prop.type)
        for prop in left_out
    )


def _end(assignment: CheckedAssignment | None, lowering: Lowering) -> Scalarlike | None:
    return None if assignment is None else lowering.assigned(assignment.value, assignment.property.type)


def _assigns(assignments: tuple[CheckedAssignment, ...], lowering: Lowering) -> tuple[Assign, ...]:
    return tuple(
        Assign(
            property=item.property.name,
            value=lowering.assigned(item.value, item.property.type),
            type=item.property.type,
        )
        for item in assignments
    )


def _refuse_key(target: NodeType | EdgeType, assignments: tuple[CheckedAssignment, ...], lowering: Lowering) -> None:
    for item in assignments:
        if item.property.name in (target.key or ()):
            message = f"cannot update @key property '{item.property.name}' of '{target.name}'"
            raise lowering.refusal(message, item.span, suggestion="delete and insert instead")


def _with_target(target: NodeType | EdgeType, lowering: Lowering) -> Lowering:
    """Return a lowering in which bare names are columns of the target."""
    named: dict[ast.Expression, Scalarlike] = {
        ast.AliasRef(name=prop.name): Column(variable=TARGET, property=stored_name(target, prop.name), type=prop.type)
        for prop in target_columns(target)
    }
    return lowering.substituting(named)


def _where(predicate: CheckedPredicate | Operand, lowering: Lowering) -> Compare | Condition:
    if isinstance(predicate, Operand):
        return Condition(value=lowering.scalar(predicate))
    prop = predicate.property
    value = lowering.fitted(lowering.scalar(predicate.value), prop.type)
    return Compare(left=TargetColumn(property=prop.name, type=prop.type), op=predicate.op, right=value)


def _guard(version: Operand | None, lowering: Lowering) -> Guard | None:
    return None if version is None else lowering.given(version, "a version")


def _entity(target: NodeType | EdgeType) -> EntityKind:
    return "node" if isinstance(target, NodeType) else "edge"


def lower_query(checked: CheckedQuery) -> Plan:
    """Turn a checked query into the plan that execution is given; no data is looked at.

    Raises:
        QueryMeaningError: the query fits the schema and yet asks for something that means nothing.
    """
    lowering = Lowering(source=checked.source)
    if isinstance(checked, CheckedRead):
        return _lower_read(checked, lowering)
    return _lower_mutation(checked, lowering)


def _lower_read(checked: CheckedRead, lowering: Lowering) -> ReadPlan:
    if is_classic(checked) and (operators := _classic_operators(checked, lowering)) is not None:
        return _classic_read(checked, operators, lowering)
    lowered = lower_stages(checked, lowering)
    return ReadPlan(
        name=checked.decl.name.text,
        parameters=_slots(checked),
        operators=(),
        outputs=lowered.outputs,
        stages=lowered.stages,
        unions=lowered.unions,
        united=lowered.united,
    )


def _classic_operators(checked: CheckedRead, lowering: Lowering) -> tuple[Operator, ...] | None:
    """Return the operators of a match, unless one of them gives rows values that only stages carry on."""
    operators = lower_match(checked.last.clauses, lowering)
    return None if any(map(_needs_stages, operators)) else operators


def _needs_stages(operator: Operator) -> bool:
    if isinstance(operator, Walk):
        return operator.binds_edge or operator.path is not None
    return isinstance(operator, UnionScan | Widen | OptionalJoin | Unwind)


def _classic_read(checked: CheckedRead, operators: tuple[Operator, ...], lowering: Lowering) -> ReadPlan:
    stage = checked.last
    shape = lower_output(stage, lowering)
    return ReadPlan(
        name=checked.decl.name.text,
        parameters=_slots(checked),
        operators=operators,
        outputs=shape.outputs,
        groups=shape.groups,
        ranking=shape.ranking,
        order=shape.order,
        ties=shape.ties,
        limit=stage.limit if isinstance(stage.limit, int) else None,
    )


def _lower_mutation(checked: CheckedMutation, lowering: Lowering) -> MutationPlan:
    statements = tuple(lower_statement(item, checked.catalog, lowering) for item in checked.statements)
    returned = _lower_returned(checked, lowering) if checked.projections else None
    matches = [item for item in checked.statements if isinstance(item, CheckedMatchStatement)]
    return MutationPlan(
        name=checked.decl.name.text,
        parameters=_slots(checked),
        statements=statements,
        returned=returned,
        blocks=lower_pending(lowering, frozenset(matches[-1].entities if matches else ())),
    )


def _lower_returned(checked: CheckedMutation, lowering: Lowering) -> tuple[Output, ...]:
    last = checked.statements[-1]
    if not checked.returns_match and isinstance(last, CheckedInsert | CheckedUpdate):
        lowering = _with_target(last.target, lowering)
    outputs = []
    for item in checked.projections:
        value = lowering.scalar(item.operand)
        # What a statement removed, or an optional block left out, is NULL.
        of = value.type if value.type is NULL else replace(value.type, nullable=True)
        outputs.append(Output(name=item.column, expression=value, type=of))
    return tuple(outputs)


def _slots(checked: CheckedQuery) -> tuple[ParameterSlot, ...]:
    return tuple(ParameterSlot(name=name, type=of) for name, of in checked.parameters.items())
