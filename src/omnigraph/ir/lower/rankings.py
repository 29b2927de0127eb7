"""Ranking calls to the ranking that orders the rows."""

from __future__ import annotations

from omnigraph.catalog.model import PropertyType, Scalar
from omnigraph.errors import ValueFormatError
from omnigraph.ir.check.tree import Operand
from omnigraph.ir.convert import fit_assigned
from omnigraph.ir.lower.expressions import Lowering
from omnigraph.ir.model import (
    Bm25Ranking,
    Constant,
    NearestRanking,
    ParameterRef,
    Ranking,
    RankingValue,
    RrfRanking,
)
from omnigraph.ir.types import F64, I64
from omnigraph.lang.gq import ast

RankingCall = ast.Nearest | ast.Bm25 | ast.Rrf

_DEFAULT_K = Constant(value=60, type=I64)


def lower_ranking(operand: Operand, lowering: Lowering) -> Ranking:
    """Lower ``nearest``, ``bm25`` or ``rrf``."""
    if not isinstance(operand.expression, ast.Rrf):
        return _lower_arm(operand, lowering)
    first, second, *rest = operand.parts
    return RrfRanking(
        first=_lower_arm(first, lowering),
        second=_lower_arm(second, lowering),
        k=lowering.given(rest[0], "the k of rrf") if rest else _DEFAULT_K,
    )


def ranking_value(call: RankingCall) -> RankingValue:
    """Return the value that the plan's own ranking has in a row."""
    match call:
        case ast.Nearest():
            function = "nearest"
        case ast.Bm25():
            function = "bm25"
        case ast.Rrf():
            function = "rrf"
    return RankingValue(function=function, type=F64)


def _lower_arm(operand: Operand, lowering: Lowering) -> NearestRanking | Bm25Ranking:
    field, query = operand.parts
    column = lowering.column(field)
    if isinstance(operand.expression, ast.Bm25):
        return Bm25Ranking(field=column, query=lowering.given(query, "the query of bm25"))
    embed = None if field.definition is None else field.definition.embed
    return NearestRanking(
        field=column,
        query=_vector(query, column.type, lowering),
        model=None if embed is None else embed.model,
    )


def _vector(query: Operand, column: PropertyType, lowering: Lowering) -> Constant | ParameterRef:
    given = lowering.given(query, "the query of nearest")
    if not isinstance(given, Constant) or not given.type.is_list:
        return given
    target = PropertyType(scalar=Scalar.VECTOR, dimension=column.dimension)
    try:
        return Constant(value=fit_assigned(given.value, target), type=target)
    except ValueFormatError as problem:
        raise lowering.refusal(problem.message, query.span) from problem
