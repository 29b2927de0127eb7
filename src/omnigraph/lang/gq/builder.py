"""Builds declarations, bodies and statements from what the grammar recognises, bottom up, one rule at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from omnigraph.lang.gq.ast import (
    AliasRef,
    AllProperties,
    Amount,
    Assignment,
    BooleanLiteral,
    Comparison,
    Delete,
    DeleteMatched,
    Insert,
    MatchStatement,
    MutationBody,
    Nearest,
    NullLiteral,
    Ordering,
    Parameter,
    Predicate,
    Projection,
    QueryDecl,
    ReadBody,
    Stage,
    TypeRef,
    Union,
    Update,
    UpdateMatched,
    Upsert,
    Variable,
)
from omnigraph.lang.gq.build_clauses import COMPARE_OPS, VALUES, ClauseBuilder
from omnigraph.lang.gq.build_expressions import bounded_integer, plain_word, span_of
from omnigraph.lang.lalr import Token
from omnigraph.lang.parsing import SyntaxFinding, nearest_name, token_span
from omnigraph.lang.source import Ident, Span
from omnigraph.records import record

# ruff: noqa: D102 - each method is the grammar rule or alias of its name; its docstring would be that rule

BASE_TYPES = ("Blob", "Bool", "Date", "DateTime", "F32", "F64", "I32", "I64", "String", "U32", "U64")
VECTOR = "Vector"
DECIMAL = "Decimal"
ANNOTATIONS = ("@description", "@instruction", "@mcp")
# What an annotation may say that is a word and no text for people.
_WORDS = {"@mcp": ("expose",)}

_MAX_DIMENSION_TEXT = 2**63 - 1
_MAX_LIMIT = 2**64 - 1
_DECIMAL_HINT = f"write '{DECIMAL}(12, 2)'"


def _annotation_name(token: Token) -> Token:
    if token not in ANNOTATIONS:
        near = nearest_name(str(token), ANNOTATIONS)
        raise SyntaxFinding(
            f"unknown annotation '{token}'",
            token_span(token),
            expected=ANNOTATIONS,
            suggestion=f"did you mean '{near}'?" if near else f"remove '{token}'",
        )
    return token


@record
class _Part:
    """A part of a body on its way to the body."""

    span: Span
    items: tuple[Any, ...] = ()
    is_distinct: bool = False
    having: Any = None
    amount: Any = None
    per: tuple[Any, ...] = ()


class TreeBuilder(ClauseBuilder):
    """The builder of a whole file; its result is the tuple of declarations."""

    ANNOTATION = staticmethod(_annotation_name)

    def start(self, children: list[Any]) -> tuple[QueryDecl, ...]:
        return tuple(children)

    def query_decl(self, children: list[Any]) -> QueryDecl:
        keyword, name, parameters, annotations, body, closing = children
        if isinstance(body, MutationBody) and isinstance(body.statements[-1], MatchStatement) and not body.projections:
            expected = ("'return'", "'with'", "a statement")
            msg = "syntax error: unexpected '}'; expected 'return', 'with' or a statement"
            raise SyntaxFinding(msg, token_span(closing), expected=expected)
        return QueryDecl(
            name=name,
            body=body,
            parameters=parameters or (),
            description=annotations.get("@description"),
            instruction=annotations.get("@instruction"),
            mcp=annotations.get("@mcp"),
            span=span_of(keyword, closing),
        )

    def params(self, children: list[Any]) -> tuple[Parameter, ...]:
        return tuple(children)

    def param(self, children: list[Any]) -> Parameter:
        variable, type_ref = children
        return Parameter(name=variable.name, type=type_ref, span=variable.span.to(type_ref.span))

    def scalar_type(self, children: list[Any]) -> TypeRef:
        name, mark = children
        _require_base_type(name)
        return TypeRef(scalar=name.text, nullable=mark is not None, span=span_of(name, mark or name))

    def list_type(self, children: list[Any]) -> TypeRef:
        opening, name, closing, mark = children
        _require_base_type(name)
        return TypeRef(
            scalar=name.text, nullable=mark is not None, is_list=True, span=span_of(opening, mark or closing)
        )

    def sized_type(self, children: list[Any]) -> TypeRef:
        name, first, second, closing = children
        span = span_of(name, closing)
        if name.text == DECIMAL:
            if second is None:
                raise SyntaxFinding("a decimal needs its precision and its scale", span, suggestion=_DECIMAL_HINT)
            precision, scale = (bounded_integer(token, _MAX_DIMENSION_TEXT, "precision") for token in (first, second))
            return TypeRef(scalar=DECIMAL, precision=precision, scale=scale, span=span)
        if name.text != VECTOR or second is not None:
            msg = f"only {VECTOR} takes a dimension, not '{name.text}'"
            if name.text == VECTOR:
                msg = f"{VECTOR} takes one dimension"
            raise SyntaxFinding(msg, name.span, suggestion=f"write '{name.text}' or '{VECTOR}({first})'")
        return TypeRef(scalar=VECTOR, dimension=bounded_integer(first, _MAX_DIMENSION_TEXT, "dimension"), span=span)

    def single_type(self, children: list[Any]) -> TypeRef:
        inner, mark = children
        single: TypeRef = replace(inner, nullable=mark is not None, span=span_of(inner, mark or inner))
        return single

    def sized_list_type(self, children: list[Any]) -> TypeRef:
        opening, inner, closing, mark = children
        if inner.scalar == VECTOR:
            raise SyntaxFinding("a list of vectors is not a parameter type", inner.span)
        span = span_of(opening, mark or closing)
        listed: TypeRef = replace(inner, nullable=mark is not None, is_list=True, span=span)
        return listed

    def annotations(self, children: list[Any]) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, text, span in children:
            if name in found:
                raise SyntaxFinding(f"annotation '{name}' occurs twice", span, suggestion="keep one of them")
            found[name] = text
        return found

    def annotation(self, children: list[Any]) -> tuple[str, str, Span]:
        name, text, closing = children
        words = _WORDS.get(str(name))
        if words is not None and text.value not in words:
            expected = tuple(f'{name}("{word}")' for word in words)
            msg = f"'{name}' does not take '{text.value}'"
            raise SyntaxFinding(msg, text.span, expected=expected, suggestion=f"write '{expected[0]}'")
        return str(name), text.value, span_of(name, closing)

    def read_body(self, children: list[Any]) -> ReadBody:
        read, *unions, order, offset, limit = children
        amount, per = (None, ()) if limit is None else (limit.amount, limit.per)
        last = next((part for part in (limit, offset, order, *reversed(unions)) if part is not None), read)
        body: ReadBody = replace(
            read,
            orderings=order.items if order is not None else (),
            offset=offset.amount if offset is not None else None,
            limit=amount,
            per=per,
            unions=tuple(unions),
            span=read.span.to(last.span),
        )
        return body

    def read_query(self, children: list[Any]) -> ReadBody:
        opening, *stages, returned = children
        first = returned.items[0]
        if not stages and first.expression == AliasRef(name="distinct") and first.alias is None:
            suggestion = "write 'return distinct { … }'"
            raise SyntaxFinding("'distinct' belongs before the braces", first.span, suggestion=suggestion)
        match, found = opening.items, []
        for stage, following in stages:
            found.append(replace(stage, match=match))
            match = () if following is None else following.items
        return ReadBody(
            match=match,
            projections=returned.items,
            stages=tuple(found),
            is_distinct=returned.is_distinct,
            having=returned.having,
            span=opening.span.to(returned.span),
        )

    def stage(self, children: list[Any]) -> tuple[Stage, Any]:
        stage, following = children
        return stage, following

    def with_part(self, children: list[Any]) -> Stage:
        keyword, distinct, *projections, closing, having, order, offset, limit = children
        amount, per = (None, ()) if limit is None else (limit.amount, limit.per)
        last = next((part for part in (limit, offset, order, having) if part is not None), closing)
        return Stage(
            match=(),
            projections=tuple(projections),
            is_distinct=distinct is not None,
            having=having,
            orderings=order.items if order is not None else (),
            offset=offset.amount if offset is not None else None,
            limit=amount,
            per=per,
            span=span_of(keyword, last),
        )

    def union_part(self, children: list[Any]) -> Union:
        keyword, every, read = children
        return Union(read=read, keeps_duplicates=every is not None, span=span_of(keyword, read))

    def match_part(self, children: list[Any]) -> _Part:
        keyword, *clauses, closing = children
        return _Part(items=tuple(clauses), span=span_of(keyword, closing))

    def return_part(self, children: list[Any]) -> _Part:
        keyword, distinct, *projections, closing, having = children
        return _Part(
            items=tuple(projections),
            is_distinct=distinct is not None,
            having=having,
            span=span_of(keyword, having or closing),
        )

    def having_part(self, children: list[Any]) -> Any:
        return children[1]

    def order_part(self, children: list[Any]) -> _Part:
        keyword, *orderings, closing = children
        return _Part(items=tuple(orderings), span=span_of(keyword, closing))

    def offset_part(self, children: list[Any]) -> _Part:
        keyword, amount = children
        return _Part(amount=_amount(amount, "offset"), span=span_of(keyword, amount))

    def limit_part(self, children: list[Any]) -> _Part:
        keyword, amount, per = children
        items = () if per is None else per.items
        return _Part(amount=_amount(amount, "limit"), per=items, span=span_of(keyword, per or amount))

    def per_part(self, children: list[Any]) -> _Part:
        keyword, *expressions, closing = children
        return _Part(items=tuple(expressions), span=span_of(keyword, closing))

    def projection(self, children: list[Any]) -> Projection:
        expression, keyword, alias = children
        if keyword is not None and isinstance(expression, AllProperties):
            msg = f"'${expression.variable.name}.*' returns several columns and takes no alias"
            raise SyntaxFinding(msg, span_of(keyword, alias), suggestion=f"remove 'as {alias.text}'")
        return Projection(expression=expression, alias=alias, span=span_of(expression, alias or expression))

    def ordering(self, children: list[Any]) -> Ordering:
        expression, direction, nulls, place = children
        if direction is not None and isinstance(expression, Nearest):
            msg = f"nearest orders by distance and takes no '{direction}'"
            raise SyntaxFinding(msg, token_span(direction), suggestion=f"remove '{direction}'")
        if isinstance(expression, NullLiteral):
            # Nothing is ordered by null: it is the alias of that name.
            expression = AliasRef(name="null", span=expression.span)
        return Ordering(
            expression=expression,
            direction=plain_word(direction),
            nulls=plain_word(place),
            span=span_of(expression, place or nulls or direction or expression),
        )

    def mutation_body(self, children: list[Any]) -> MutationBody:
        *found, returned = children
        statements = tuple(
            MatchStatement(clauses=item.items, span=item.span) if isinstance(item, _Part) else item for item in found
        )
        return MutationBody(
            statements=statements,
            projections=() if returned is None else returned.items,
            span=statements[0].span.to(statements[-1].span if returned is None else returned.span),
        )

    def insert(self, children: list[Any]) -> Insert:
        keyword, type_name, *assignments, closing, mode, for_each = children
        return Insert(
            type_name=type_name,
            assignments=tuple(assignments),
            if_present="replace" if mode is None else mode.items[0],
            for_each=() if for_each is None else for_each.items,
            span=span_of(keyword, for_each or mode or closing),
        )

    def insert_mode(self, children: list[Any]) -> _Part:
        if_present = "refuse" if children[0].type == "STRICT" else "keep"
        return _Part(items=(if_present,), span=span_of(children[0], children[-1]))

    def upsert(self, children: list[Any]) -> Upsert:
        keyword, type_name, *assignments, closing, for_each = children
        return Upsert(
            type_name=type_name,
            assignments=tuple(assignments),
            for_each=() if for_each is None else for_each.items,
            span=span_of(keyword, for_each or closing),
        )

    def update(self, children: list[Any]) -> Update:
        keyword, type_name, _set, *assignments, _closing, _where, where, version = children
        return Update(
            type_name=type_name,
            assignments=tuple(assignments),
            predicate=_predicate(where),
            version=version,
            span=span_of(keyword, version or where),
        )

    def update_matched(self, children: list[Any]) -> UpdateMatched:
        keyword, variable, _set, *assignments, closing, version = children
        span = span_of(keyword, version or closing)
        return UpdateMatched(variable=variable, assignments=tuple(assignments), version=version, span=span)

    def delete(self, children: list[Any]) -> Delete:
        keyword, type_name, _where, where, version = children
        span = span_of(keyword, version or where)
        return Delete(type_name=type_name, predicate=_predicate(where), version=version, span=span)

    def delete_matched(self, children: list[Any]) -> DeleteMatched:
        keyword, *variables, version = children
        span = span_of(keyword, version or variables[-1])
        return DeleteMatched(variables=tuple(variables), version=version, span=span)

    def for_each(self, children: list[Any]) -> _Part:
        keyword, _each, *variables = children
        return _Part(items=tuple(variables), span=span_of(keyword, variables[-1]))

    def guard(self, children: list[Any]) -> Any:
        return children[-1]

    def assignment(self, children: list[Any]) -> Assignment:
        name, value = children
        return Assignment(property=name, value=value, span=span_of(name, value))


def _require_base_type(name: Ident) -> None:
    if name.text in BASE_TYPES:
        return
    if name.text == DECIMAL:
        raise SyntaxFinding("a decimal needs its precision and its scale", name.span, suggestion=_DECIMAL_HINT)
    if name.text == VECTOR:
        raise SyntaxFinding("a vector needs its dimension", name.span, suggestion=f"write '{VECTOR}(N)'")
    from omnigraph.lang.foreign_types import foreign_type  # noqa: PLC0415 - for mistakes

    near = foreign_type(name.text) or nearest_name(name.text, BASE_TYPES)
    raise SyntaxFinding(
        f"'{name.text}' is not a parameter type",
        name.span,
        expected=(*BASE_TYPES, f"{DECIMAL}(P, S)", f"{VECTOR}(N)"),
        suggestion=f"did you mean '{near}'?" if near else None,
    )


def _predicate(where: Any) -> Any:
    """Return a comparison of a property with a plain value as such, and any other condition as it is."""
    match where:
        case Comparison(left=left, op=op, right=right, span=span) if op in COMPARE_OPS and isinstance(right, VALUES):
            name = _property_name(left)
            if name is not None:
                plain_op: Any = op
                return Predicate(property=Ident(text=name, span=left.span), op=plain_op, value=right, span=span)
    return where


def _property_name(operand: Any) -> str | None:
    """Return the name that the left side of a ``where`` is: no constant is compared with another there."""
    match operand:
        case AliasRef(name=name):
            return str(name)
        case BooleanLiteral(value=value):
            return "true" if value else "false"
        case NullLiteral():
            return "null"
        case _:
            return None


def _amount(found: Any, what: str) -> Amount:
    return found if isinstance(found, Variable) else bounded_integer(found, _MAX_LIMIT, what)
