"""Filters, inline predicates and text predicates to the predicate that tests them."""

from __future__ import annotations

from omnigraph.ir.check.tree import CheckedFilter, CheckedMatch, CheckedText, Operand
from omnigraph.ir.lower.expressions import Lowering
from omnigraph.ir.model import (
    Column,
    Compare,
    Constant,
    EntityRef,
    ListContains,
    Predicate,
    Scalarlike,
    TextContains,
    TextMatch,
    TextStartsWith,
)
from omnigraph.ir.types import I64, item_type
from omnigraph.lang.gq import ast

_DEFAULT_EDITS = Constant(value=2, type=I64)


def lower_inline(variable: str, matched: CheckedMatch, lowering: Lowering) -> Predicate:
    """Lower ``prop: value`` of a binding."""
    prop = matched.property
    column = Column(variable=variable, property=prop.name, type=prop.type)
    value = lowering.fitted(lowering.scalar(matched.value), item_type(prop.type))
    if prop.type.is_list:
        return ListContains(items=column, item=value)
    return Compare(left=column, op="=", right=value)


def lower_filter(clause: CheckedFilter, lowering: Lowering) -> Predicate:
    """Lower a filter; ``contains`` is settled here by the type of its left side."""
    left, right = _side(clause.left, lowering), _side(clause.right, lowering)
    match clause.op:
        case "contains" if left.type.is_list:
            return ListContains(
                items=lowering.fitted(left, right.type) if _is_column(right) else left,
                item=lowering.fitted(right, item_type(left.type)) if _is_column(left) else right,
            )
        case "contains":
            return TextContains(text=left, needle=right)
        case "starts_with":
            return TextStartsWith(text=left, prefix=right)
        case _:
            return Compare(left=_fit(left, right, lowering), op=clause.op, right=_fit(right, left, lowering))


def lower_text(clause: CheckedText, lowering: Lowering) -> TextMatch:
    """Lower ``search``, ``match_text`` or ``fuzzy``."""
    call = clause.call.expression
    if not isinstance(call, ast.TextSearch):
        raise lowering.refusal("only a text predicate can stand alone", clause.call.span)
    field, query, *rest = clause.call.parts
    edits = lowering.given(rest[0], "the edit distance of fuzzy") if rest else None
    if call.function == "fuzzy" and edits is None:
        edits = _DEFAULT_EDITS
    return TextMatch(
        function=call.function,
        field=lowering.column(field),
        query=lowering.given(query, f"the query of {call.function}"),
        max_edits=edits,
    )


def read_variables(predicate: Predicate) -> frozenset[str]:
    """Return the variables a predicate reads."""
    match predicate:
        case Compare():
            sides: tuple[object, ...] = (predicate.left, predicate.right)
        case ListContains():
            sides = (predicate.items, predicate.item)
        case TextContains():
            sides = (predicate.text, predicate.needle)
        case TextStartsWith():
            sides = (predicate.text, predicate.prefix)
        case TextMatch():
            sides = (predicate.field,)
        case _:
            return frozenset({predicate.left, predicate.right})
    return frozenset(side.variable for side in sides if isinstance(side, Column | EntityRef))


def _side(operand: Operand, lowering: Lowering) -> Scalarlike:
    expression = operand.expression
    if isinstance(expression, ast.Nearest | ast.Bm25 | ast.Rrf):
        message = "a ranking orders rows, it cannot be compared"
        raise lowering.refusal(message, operand.span, suggestion="put it first in order { }")
    if isinstance(expression, ast.Aggregate):
        raise lowering.refusal("an aggregate has no value in match", operand.span)
    return lowering.scalar(operand)


def _fit(side: Scalarlike, other: Scalarlike, lowering: Lowering) -> Scalarlike:
    return lowering.fitted(side, other.type) if _is_column(other) else side


def _is_column(side: Scalarlike) -> bool:
    return isinstance(side, Column)
