"""Lowering's entry: a checked query to its plan."""

from __future__ import annotations

from typing import assert_never

from omnigraph.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.ir.check.tree import (
    CheckedAssignment,
    CheckedDelete,
    CheckedInsert,
    CheckedMutation,
    CheckedPredicate,
    CheckedQuery,
    CheckedRead,
    CheckedStatement,
    CheckedUpdate,
)
from omnigraph.ir.lower.expressions import Lowering
from omnigraph.ir.lower.match import lower_match
from omnigraph.ir.lower.output import lower_output
from omnigraph.ir.lower.stages import is_classic, lower_stages
from omnigraph.ir.model import (
    Assign,
    Compare,
    DeletePlan,
    EntityKind,
    InsertPlan,
    MutationPlan,
    Operator,
    OptionalJoin,
    ParameterSlot,
    Plan,
    ReadPlan,
    StatementPlan,
    TargetColumn,
    UnionScan,
    Unwind,
    UpdatePlan,
    Walk,
    Widen,
)


def lower_statement(statement: CheckedStatement, catalog: Catalog, lowering: Lowering) -> StatementPlan:
    """Lower one statement."""
    match statement:
        case CheckedInsert():
            return _lower_insert(statement, lowering)
        case CheckedUpdate():
            _refuse_key(statement, lowering)
            return UpdatePlan(
                type_name=statement.target.name,
                assigns=_assigns(statement.assignments, lowering),
                where=_where(statement.predicate, lowering),
            )
        case CheckedDelete():
            target = statement.target
            return DeletePlan(
                entity=_entity(target),
                type_name=target.name,
                where=_where(statement.predicate, lowering),
                cascades=incident_edges(target, catalog) if isinstance(target, NodeType) else (),
            )
        case _:
            assert_never(statement)


def incident_edges(node: NodeType, catalog: Catalog) -> tuple[str, ...]:
    """Return the edge types that start or end at a node type, by name."""
    return tuple(name for name, edge in sorted(catalog.edges.items()) if node.name in {edge.from_type, edge.to_type})


def _lower_insert(statement: CheckedInsert, lowering: Lowering) -> InsertPlan:
    target = statement.target
    if isinstance(target, NodeType):
        assigns = _assigns(statement.assignments, lowering)
        return InsertPlan(entity="node", type_name=target.name, assigns=assigns)
    ends = {item.property.name: item for item in statement.assignments if item.property.name in {"from", "to"}}
    return InsertPlan(
        entity="edge",
        type_name=target.name,
        assigns=_assigns(tuple(item for item in statement.assignments if item not in ends.values()), lowering),
        from_id=lowering.assigned(ends["from"].value, ends["from"].property.type),
        to_id=lowering.assigned(ends["to"].value, ends["to"].property.type),
        from_type=target.from_type,
        to_type=target.to_type,
    )


def _assigns(assignments: tuple[CheckedAssignment, ...], lowering: Lowering) -> tuple[Assign, ...]:
    return tuple(
        Assign(
            property=item.property.name,
            value=lowering.assigned(item.value, item.property.type),
            type=item.property.type,
        )
        for item in assignments
    )


def _refuse_key(statement: CheckedUpdate, lowering: Lowering) -> None:
    for item in statement.assignments:
        if item.property.name in (statement.target.key or ()):
            message = f"cannot update @key property '{item.property.name}' of '{statement.target.name}'"
            raise lowering.refusal(message, item.span, suggestion="delete and insert instead")


def _where(predicate: CheckedPredicate, lowering: Lowering) -> Compare:
    prop = predicate.property
    value = lowering.fitted(lowering.scalar(predicate.value), prop.type)
    return Compare(left=TargetColumn(property=prop.name, type=prop.type), op=predicate.op, right=value)


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
    return MutationPlan(
        name=checked.decl.name.text,
        parameters=_slots(checked),
        statements=tuple(lower_statement(item, checked.catalog, lowering) for item in checked.statements),
    )


def _slots(checked: CheckedQuery) -> tuple[ParameterSlot, ...]:
    return tuple(ParameterSlot(name=name, type=of) for name, of in checked.parameters.items())
