"""Lowering's entry: a checked query to its plan."""

from __future__ import annotations

from omnigraph.ir.check.tree import CheckedMutation, CheckedQuery, CheckedRead
from omnigraph.ir.lower.expressions import Lowering
from omnigraph.ir.lower.match import lower_match
from omnigraph.ir.lower.mutations import lower_statement
from omnigraph.ir.lower.output import lower_output
from omnigraph.ir.model import MutationPlan, ParameterSlot, Plan, ReadPlan


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
    operators = lower_match(checked.clauses, lowering)
    shape = lower_output(checked, lowering)
    return ReadPlan(
        name=checked.decl.name.text,
        parameters=_slots(checked),
        operators=operators,
        outputs=shape.outputs,
        groups=shape.groups,
        ranking=shape.ranking,
        order=shape.order,
        ties=shape.ties,
        limit=checked.limit,
    )


def _lower_mutation(checked: CheckedMutation, lowering: Lowering) -> MutationPlan:
    return MutationPlan(
        name=checked.decl.name.text,
        parameters=_slots(checked),
        statements=tuple(lower_statement(item, checked.catalog, lowering) for item in checked.statements),
    )


def _slots(checked: CheckedQuery) -> tuple[ParameterSlot, ...]:
    return tuple(ParameterSlot(name=name, type=of) for name, of in checked.parameters.items())
