"""Any expression, in any place where one may stand."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from omnigraph.catalog.model import PropertyType
from omnigraph.ir.check.operands import check_simple, refuse_blob
from omnigraph.ir.check.scope import Scope
from omnigraph.ir.check.search import check_bm25, check_nearest, check_rrf, check_text
from omnigraph.ir.check.tree import Operand
from omnigraph.ir.types import F64, I64
from omnigraph.lang.gq import ast


def check_expression(expression: ast.Expression, scope: Scope) -> Operand:
    """Type an expression with all its parts."""
    match expression:
        case ast.TextSearch():
            return check_text(expression, scope)
        case ast.Nearest():
            return check_nearest(expression, scope)
        case ast.Bm25():
            return check_bm25(expression, scope)
        case ast.Rrf():
            return check_rrf(expression, scope)
        case ast.Aggregate():
            return _check_aggregate(expression, scope)
        case ast.AllProperties():
            message = "all properties can only be returned, without an alias"
            raise scope.violation(None, message, expression.span)
        case _:
            return check_simple(expression, scope)


def _check_aggregate(call: ast.Aggregate, scope: Scope) -> Operand:
    argument = check_expression(call.argument, scope)
    refuse_blob(argument, scope, "aggregated")
    given = argument.type
    match call.function:
        case "count":
            result = I64
        case "sum" | "avg":
            # An alias that names nothing has no type; it is refused when the query is lowered.
            if given is not None and (argument.is_node or not given.is_numeric):
                raise scope.violation("T8", f"{call.function} takes numbers: type={_word(argument)}", call.span)
            result = F64
        case "min" | "max":
            if given is not None and not (given.is_numeric or given.is_text):
                message = f"{call.function} takes numbers or text: type={_word(argument)}"
                raise scope.violation("T8", message, call.span)
            result = F64 if given is None else given
        case _:
            assert_never(call.function)
    return Operand(expression=call, type=_nullable(result), parts=(argument,))


def _nullable(of: PropertyType) -> PropertyType:
    return replace(of, nullable=True)


def _word(operand: Operand) -> str:
    return "node" if operand.is_node else str(operand.type)
