"""Checked expressions to typed ones; here date text is read and what has no value is refused."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from decimal import Decimal
from itertools import count
from typing import Any, Literal

from omnigraph.catalog.model import PropertyType, Scalar
from omnigraph.errors import Diagnostic, InternalError, QueryMeaningError, ValueFormatError
from omnigraph.ir.check.tree import CheckedNegation, Operand
from omnigraph.ir.model import (
    NOW_PARAMETER,
    PRIVATE_MARK,
    Apply,
    Column,
    Compare,
    Constant,
    EntityRef,
    EntityType,
    EntityVersion,
    ListContains,
    ParameterRef,
    Predicate,
    Scalarlike,
    TargetColumn,
    TextContains,
    TextMatch,
    TextStartsWith,
    Truth,
    ValueRef,
)
from omnigraph.ir.types import BOOL, DATETIME, I64, NULL, TEXT, fit_assigned, fit_compared, item_type
from omnigraph.lang.gq import ast
from omnigraph.lang.source import SourceText, Span
from omnigraph.records import record
from omnigraph.values.temporal import parse_date, parse_datetime

NOW = ParameterRef(name=NOW_PARAMETER, type=DATETIME)
_DEFAULT_EDITS = Constant(value=2, type=I64)
_ENTITY_FUNCTIONS: Mapping[str, type[EntityRef | EntityType | EntityVersion]] = {
    "id": EntityRef,
    "type": EntityType,
    "version": EntityVersion,
}
_PLAIN = (Column, ParameterRef, Constant)
_OPERATIONS: Mapping[type, str] = {
    ast.Not: "not",
    ast.Negative: "negative",
    ast.ListItem: "item",
    ast.ListExpression: "list",
    ast.Case: "case",
}


@record(frozen=False, kw_only=False)
class PrivateNames:
    """Names that no text can hold, for what only serves the plan; one supply per query, so none repeats."""

    numbers: count[int] = field(default_factory=lambda: count(1))

    def fresh(self) -> str:
        """Return a name that was not given out before."""
        return f"{PRIVATE_MARK}{next(self.numbers)}"


@record
class PendingBlock:
    """A block that an expression asks: its answer travels with the row under a name."""

    name: str
    kind: Literal["exists", "count"]
    block: CheckedNegation


@record
class Lowering:
    """What lowering knows of a query beside its tree.

    ``pending`` are the blocks that lowered expressions ask: whoever uses an expression lowers them first.
    """

    source: SourceText
    names: PrivateNames = field(default_factory=PrivateNames)
    pending: list[PendingBlock] = field(default_factory=list)
    substitutes: Mapping[ast.Expression, Scalarlike] = field(default_factory=dict)

    def substituting(self, substitutes: Mapping[ast.Expression, Scalarlike]) -> Lowering:
        """Return the same lowering with expressions that already have a value."""
        return replace(self, substitutes={**self.substitutes, **substitutes})

    def refusal(self, message: str, span: Span, *, suggestion: str | None = None) -> QueryMeaningError:
        """Return the error for something that type-checks and yet means nothing."""
        return QueryMeaningError(message, details=Diagnostic(place=self.source.place(span), suggestion=suggestion))

    def scalar(self, operand: Operand) -> Scalarlike:
        """Lower an operand that has a value of its own in every row."""
        expression = operand.expression
        known = self.substitutes.get(expression) if self.substitutes else None
        if known is not None:
            return known
        match expression:
            case ast.PropertyAccess():
                return self.column(operand)
            case ast.Variable():
                return self._variable(expression, operand)
            case ast.Now():
                return NOW
            case ast.AliasRef() if operand.is_value:
                return ValueRef(name=expression.name, type=_typed(operand))
            case ast.AliasRef():
                message = f"alias '{expression.name}' cannot be used here"
                suggestion = operand.hint or "repeat the expression"
                raise self.refusal(message, expression.span, suggestion=suggestion)
            case ast.Nearest() | ast.Bm25() | ast.Rrf() | ast.Aggregate() | ast.AllProperties():
                raise self.refusal("this has no value here", expression.span)
            case _ if isinstance(expression, ast.Literal):
                return self.literal(expression, _typed(operand))
            case _:
                return self._composed(operand)

    def _composed(self, operand: Operand) -> Scalarlike:
        """Lower what is computed from other values."""
        expression, of = operand.expression, _typed(operand)
        match expression:
            case ast.Comparison():
                return self._comparison(expression, operand)
            case ast.TextSearch():
                return Truth(predicate=self.text_match(operand), type=of)
            case ast.NullTest(is_negated=is_negated):
                return self._apply("is_not_null" if is_negated else "is_null", operand)
            case ast.Logical(op="or"):
                parts = merge_equalities([self.scalar(part) for part in operand.parts])
                return parts[0] if len(parts) == 1 else Apply(function="or", arguments=tuple(parts), type=of)
            case ast.Logical(op=op) | ast.Arithmetic(op=op):
                return self._apply(op, operand)
            case _ if (name := _OPERATIONS.get(type(expression))) is not None:
                return self._apply(name, operand)
            case ast.Call(function=function):
                return self._call(function.text, operand)
            case ast.Block(kind=kind):
                return self._block(kind, operand)
            case _:
                raise self.refusal("this has no value here", expression.span)

    def _apply(self, function: str, operand: Operand) -> Apply:
        return Apply(function=function, arguments=tuple(map(self.scalar, operand.parts)), type=_typed(operand))

    def _call(self, name: str, operand: Operand) -> Scalarlike:
        kind = _ENTITY_FUNCTIONS.get(name)
        if kind is not None:
            variable = operand.parts[0].expression
            if isinstance(variable, ast.Variable):
                return kind(variable=variable.name, type=_typed(operand))
        if name == "today":
            return Apply(function="today", arguments=(NOW,), type=_typed(operand))
        return self._apply(name, operand)

    def _block(self, kind: ast.BlockKind, operand: Operand) -> Scalarlike:
        if operand.block is None:
            raise self.refusal("this block has no value here", operand.span)
        name = self.names.fresh()
        self.pending.append(PendingBlock(name=name, kind="count" if kind == "count" else "exists", block=operand.block))
        found = ValueRef(name=name, type=I64 if kind == "count" else BOOL)
        return Apply(function="not", arguments=(found,), type=BOOL) if kind == "not" else found

    def _comparison(self, expression: ast.Comparison, operand: Operand) -> Scalarlike:
        left, right = map(self.scalar, operand.parts)
        if expression.op == "not in":
            member = self._test("in", left, right, operand)
            return Apply(function="not", arguments=(member,), type=_typed(operand))
        return self._test(expression.op, left, right, operand)

    def _test(self, op: ast.ConditionOp, left: Scalarlike, right: Scalarlike, operand: Operand) -> Scalarlike:
        is_plain = isinstance(left, _PLAIN) and isinstance(right, _PLAIN) and NULL not in {left.type, right.type}
        if is_plain and op not in {"ends_with", "matches"} and not _holds_null(left) and not _holds_null(right):
            return Truth(predicate=self.compared(op, left, right), type=_typed(operand))
        if op == "contains" and left.type.is_list:
            return Apply(function="in", arguments=(right, left), type=_typed(operand))
        return Apply(function=op, arguments=(left, right), type=_typed(operand))

    def compared(self, op: ast.ConditionOp, left: Scalarlike, right: Scalarlike) -> Predicate:
        """Return a comparison of two plain values; ``contains`` is settled here by the type of its left side."""
        match op:
            case "in":
                return self.compared("contains", right, left)
            case "contains" if left.type.is_list:
                return ListContains(
                    items=self.fitted(left, right.type) if isinstance(right, Column) else left,
                    item=self.fitted(right, item_type(left.type)) if isinstance(left, Column) else right,
                )
            case "contains":
                return TextContains(text=left, needle=right)
            case "starts_with":
                return TextStartsWith(text=left, prefix=right)
            case "=" | "!=" | "<" | "<=" | ">" | ">=":
                return Compare(
                    left=self.fitted(left, right.type) if isinstance(right, Column) else left,
                    op=op,
                    right=self.fitted(right, left.type) if isinstance(left, Column) else right,
                )
            case _:
                message = f"not a comparison of plain values: {op}"
                raise InternalError(message)

    def text_match(self, operand: Operand) -> TextMatch:
        """Lower ``search``, ``match_text`` or ``fuzzy``."""
        call = operand.expression
        if not isinstance(call, ast.TextSearch):
            raise self.refusal("only a text predicate can be used by itself", operand.span)
        field, query, *rest = operand.parts
        edits = self.given(rest[0], "the edit distance of fuzzy") if rest else None
        if call.function == "fuzzy" and edits is None:
            edits = _DEFAULT_EDITS
        return TextMatch(
            function=call.function,
            field=self.column(field),
            query=self.given(query, f"the query of {call.function}"),
            max_edits=edits,
        )

    def column(self, operand: Operand) -> Column:
        """Lower a property access."""
        access = operand.expression
        if not isinstance(access, ast.PropertyAccess):
            raise self.refusal("only a property can be used here", access.span)
        return Column(variable=access.variable.name, property=access.property.text, type=_typed(operand))

    def literal(self, literal: ast.Literal, of: PropertyType) -> Constant:
        """Decode a literal; a list becomes a tuple."""
        return Constant(value=self._decode(literal, of), type=of)

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
            kinds = {kind.single for _, kind in fitted}
            if len(kinds) != 1:
                return value
            as_list = replace(fitted[0][1].single, is_list=True)
            return Constant(value=tuple(item for item, _ in fitted), type=as_list)
        converted, kind = fit_compared(value.value, value.type, other)
        return Constant(value=converted, type=_item(kind))

    def assigned(self, operand: Operand, target: PropertyType) -> Scalarlike:
        """Lower an assigned value; a literal must be storable as the property's type."""
        lowered = self.scalar(operand)
        if not isinstance(lowered, Constant):
            return lowered
        try:
            return Constant(value=fit_assigned(lowered.value, target), type=target)
        except ValueFormatError as problem:
            raise self.refusal(problem.message, operand.span) from problem

    def _variable(self, variable: ast.Variable, operand: Operand) -> Scalarlike:
        if operand.is_parameter:
            return ParameterRef(name=variable.name, type=_typed(operand))
        if operand.is_value:
            return ValueRef(name=f"${variable.name}", type=_typed(operand))
        return EntityRef(variable=variable.name, type=TEXT)

    def _decode(self, literal: ast.Literal, of: PropertyType) -> Any:
        try:
            match literal:
                case ast.DateLiteral():
                    return parse_date(literal.text)
                case ast.DateTimeLiteral():
                    return parse_datetime(literal.text)
                case ast.ListLiteral():
                    return tuple(self._decode(item, of) for item in literal.items)
                case ast.NullLiteral():
                    return None
                case ast.FloatLiteral() if of.is_decimal:
                    return Decimal(literal.text)
                case ast.IntegerLiteral() if of.is_decimal:
                    return Decimal(literal.value)
                case ast.FloatLiteral() if not math.isfinite(literal.value):
                    raise self.refusal("the number is too large for a float", literal.span)
                case _:
                    return literal.value
        except ValueFormatError as problem:
            raise self.refusal(problem.message, literal.span) from problem


# Literals of these types are equal exactly where their values are, in a list as by themselves.
_LISTED = (Scalar.STRING, Scalar.I64, Scalar.DATE, Scalar.DATETIME)


def merge_equalities(terms: Sequence[Scalarlike]) -> list[Scalarlike]:
    """Return the terms of an ``or``, equalities of one value with literals as one membership of a list.

    A term may move in front of others only if those cannot fail: what is computed decides which rows they are asked of.
    """
    merged: list[Scalarlike | list[_Equality]] = []
    groups: dict[tuple[Scalarlike, PropertyType, bool], list[_Equality]] = {}
    for term in terms:
        equality = _equality(term)
        key = None if equality is None else (equality.value, equality.literal.type, equality.is_plain)
        if not isinstance(term, Truth):
            groups = {key: groups[key]} if key in groups and merged[-1] is groups[key] else {}
        if equality is None or key is None:
            merged.append(term)
        elif key in groups:
            groups[key].append(equality)
        else:
            groups[key] = [equality]
            merged.append(groups[key])
    return [_listed(item) if isinstance(item, list) else item for item in merged]


@record
class _Equality:
    """A value and the literal that it is compared with; plain if no value has to be computed."""

    term: Scalarlike
    value: Scalarlike
    literal: Constant
    is_plain: bool


def _equality(term: Scalarlike) -> _Equality | None:
    match term:
        case Truth(predicate=Compare(left=left, op="=", right=right)):
            is_plain = True
        case Apply(function="=", arguments=(left, right)):
            is_plain = False
        case _:
            return None
    for value, literal in ((left, right), (right, left)):
        if isinstance(literal, Constant) and not isinstance(value, Constant | ParameterRef | TargetColumn):
            is_same = value.type.scalar is literal.type.scalar and not value.type.is_list
            if literal.value is None or (not is_plain and not (is_same and literal.type.scalar in _LISTED)):
                return None
            return _Equality(term=term, value=value, literal=literal, is_plain=is_plain)
    return None


def _listed(equalities: Sequence[_Equality]) -> Scalarlike:
    first = equalities[0]
    if len(equalities) == 1:
        return first.term
    of = replace(first.literal.type.single, is_list=True)
    items = Constant(value=tuple(dict.fromkeys(one.literal.value for one in equalities)), type=of)
    if first.is_plain:
        return Truth(predicate=ListContains(items=items, item=first.value), type=first.term.type)
    return Apply(function="in", arguments=(first.value, items), type=first.term.type)


def _holds_null(value: Scalarlike) -> bool:
    return isinstance(value, Constant) and isinstance(value.value, tuple) and None in value.value


def _typed(operand: Operand) -> PropertyType:
    return TEXT if operand.type is None else operand.type


def _item(of: PropertyType) -> PropertyType:
    return of.single
