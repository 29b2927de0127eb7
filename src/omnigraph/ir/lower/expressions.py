"""Checked expressions to typed ones; here date text is read and what has no value is refused."""

from __future__ import annotations

import math
from typing import Any

from omnigraph.catalog.model import PropertyType
from omnigraph.errors import Diagnostic, QueryMeaningError, ValueFormatError
from omnigraph.ir.check.tree import Operand
from omnigraph.ir.model import NOW_PARAMETER, Column, Constant, EntityRef, ParameterRef, Scalarlike
from omnigraph.ir.types import DATETIME, TEXT, fit_assigned, fit_compared
from omnigraph.lang.gq import ast
from omnigraph.lang.source import SourceText, Span
from omnigraph.records import record
from omnigraph.values.temporal import parse_date, parse_datetime

NOW = ParameterRef(name=NOW_PARAMETER, type=DATETIME)


@record
class Lowering:
    """What lowering knows of a query beside its tree."""

    source: SourceText

    def refusal(self, message: str, span: Span, *, suggestion: str | None = None) -> QueryMeaningError:
        """Return the error for something that type-checks and yet means nothing."""
        return QueryMeaningError(message, details=Diagnostic(place=self.source.place(span), suggestion=suggestion))

    def scalar(self, operand: Operand) -> Scalarlike:
        """Lower an operand that has a value of its own in every row."""
        expression = operand.expression
        match expression:
            case ast.PropertyAccess():
                return self.column(operand)
            case ast.Variable() if operand.is_parameter:
                return self._parameter(expression, operand)
            case ast.Variable():
                return EntityRef(variable=expression.name, type=TEXT)
            case ast.Now():
                return NOW
            case ast.AliasRef():
                message = f"alias '{expression.name}' cannot be used here"
                raise self.refusal(message, expression.span, suggestion="repeat the expression it stands for")
            case ast.TextSearch() | ast.Nearest() | ast.Bm25() | ast.Rrf() | ast.Aggregate() | ast.AllProperties():
                raise self.refusal("this has no value here", expression.span)
            case _:
                return self.literal(expression, _typed(operand))

    def column(self, operand: Operand) -> Column:
        """Lower a property access."""
        access = operand.expression
        if not isinstance(access, ast.PropertyAccess):
            raise self.refusal("only a property can be used here", access.span)
        return Column(variable=access.variable.name, property=access.property.text, type=_typed(operand))

    def literal(self, literal: ast.Literal, of: PropertyType) -> Constant:
        """Decode a literal; a list becomes a tuple."""
        return Constant(value=self._decode(literal), type=of)

    def given(self, operand: Operand, what: str) -> Constant | ParameterRef:
        """Lower an operand that must be known before any row is read."""
        lowered = self.scalar(operand)
        if not isinstance(lowered, Constant | ParameterRef):
            raise self.refusal(f"{what} must be a literal or a parameter", operand.span)
        return lowered

    def fitted(self, value: Scalarlike, other: PropertyType) -> Scalarlike:
        """Give a constant the type of the column it is compared with, if that loses nothing."""
        if not isinstance(value, Constant):
            return value
        if value.type.is_list:
            fitted = [fit_compared(item, _item(value.type), other) for item in value.value]
            kinds = {kind.scalar for _, kind in fitted}
            if len(kinds) != 1:
                return value
            kind = fitted[0][1]
            as_list = PropertyType(scalar=kind.scalar, is_list=True)
            return Constant(value=tuple(item for item, _ in fitted), type=as_list)
        converted, kind = fit_compared(value.value, value.type, other)
        return Constant(value=converted, type=_item(kind))

    def assigned(self, operand: Operand, target: PropertyType) -> Constant | ParameterRef:
        """Lower an assigned value; a literal must be storable as the property's type."""
        lowered = self.given(operand, "an assigned value")
        if isinstance(lowered, ParameterRef):
            return lowered
        try:
            return Constant(value=fit_assigned(lowered.value, target), type=target)
        except ValueFormatError as problem:
            raise self.refusal(problem.message, operand.span) from problem

    def _parameter(self, variable: ast.Variable, operand: Operand) -> ParameterRef:
        return ParameterRef(name=variable.name, type=_typed(operand))

    def _decode(self, literal: ast.Literal) -> Any:
        try:
            match literal:
                case ast.DateLiteral():
                    return parse_date(literal.text)
                case ast.DateTimeLiteral():
                    return parse_datetime(literal.text)
                case ast.ListLiteral():
                    return tuple(self._decode(item) for item in literal.items)
                case ast.FloatLiteral() if not math.isfinite(literal.value):
                    raise self.refusal("the number is too large for a float", literal.span)
                case _:
                    return literal.value
        except ValueFormatError as problem:
            raise self.refusal(problem.message, literal.span) from problem


def _typed(operand: Operand) -> PropertyType:
    return TEXT if operand.type is None else operand.type


def _item(of: PropertyType) -> PropertyType:
    return PropertyType(scalar=of.scalar, dimension=of.dimension)
