"""Builds declarations, bodies and clauses from what the grammar recognises, bottom up, one rule at a time."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from omnigraph.lang.gq.ast import (
    Aggregate,
    AliasRef,
    AllProperties,
    Amount,
    Arithmetic,
    Assignment,
    Binding,
    Block,
    Bm25,
    BooleanLiteral,
    Call,
    Case,
    CaseBranch,
    Comparison,
    Condition,
    DateLiteral,
    DateTimeLiteral,
    Delete,
    DeleteMatched,
    Each,
    Filter,
    FloatLiteral,
    Hops,
    Insert,
    IntegerLiteral,
    ListExpression,
    ListItem,
    ListLiteral,
    Literal,
    Logical,
    MatchStatement,
    MutationBody,
    Nearest,
    Negation,
    Negative,
    Not,
    Now,
    NullLiteral,
    NullTest,
    OptionalBlock,
    Ordering,
    Parameter,
    PathClause,
    Predicate,
    Projection,
    PropertyAccess,
    PropertyMatch,
    QueryDecl,
    ReadBody,
    Rrf,
    Stage,
    StringLiteral,
    TextSearch,
    Traversal,
    TypeRef,
    Union,
    Update,
    UpdateMatched,
    Upsert,
    Variable,
)
from omnigraph.lang.lalr import Token
from omnigraph.lang.parsing import SyntaxFinding, nearest_name, token_span, unquote
from omnigraph.lang.source import Ident, Span
from omnigraph.records import record

# ruff: noqa: D102 - each method is the grammar rule or alias of its name; its docstring would be that rule


_MAX_INTEGER = 2**63 - 1
_MAX_DEPTH = 100


def ident(token: Token) -> Ident:
    """Return the name that a token spells."""
    return Ident(text=str(token), span=token_span(token))


def bounded_integer(token: Token, maximum: int, what: str) -> int:
    """Return the value of an integer token, refusing more than ``maximum``."""
    digits = token.lstrip("0") or "0"
    # Judged by length first: Python refuses to convert a decimal text of thousands of digits.
    if len(digits) > len(str(maximum)) or int(digits) > maximum:
        raise SyntaxFinding(f"{what} is too large, the limit is {maximum}", token_span(token))
    return int(digits)


def span_of(first: Any, last: Any) -> Span:
    """Return the span from one child to another; a child is a token or a node of ours."""
    start = first.start_pos if isinstance(first, Token) else first.span.start
    end = last.end_pos if isinstance(last, Token) else last.span.end
    return Span(start, end)


def _variable(token: Token) -> Variable:
    name = str(token)[1:]
    if name[0].isupper():
        lowered = name[0].lower() + name[1:]
        raise SyntaxFinding(
            f"variable '${name}' must start with a lower-case letter or '_'",
            token_span(token),
            expected=("a $variable",),
            suggestion=f"did you mean '${lowered}'?",
        )
    return Variable(name=name, span=token_span(token))


def _string(token: Token) -> StringLiteral:
    return StringLiteral(value=unquote(token), span=token_span(token))


def _float(token: Token) -> FloatLiteral:
    value = float(token)
    if math.isinf(value):
        raise SyntaxFinding("float literal does not fit a 64-bit float", token_span(token))
    return FloatLiteral(value=value, text=str(token), span=token_span(token))


def _depth(at: Span, *inner: Any) -> int:
    """Return how deep the expression at ``at`` is, refusing one that is too deep to be walked."""
    found = 1 + max(map(_depth_of, inner), default=0)
    if found > _MAX_DEPTH:
        raise SyntaxFinding(
            f"an expression is nested more than {_MAX_DEPTH} levels deep",
            at,
            suggestion="name a part of it in a 'with'",
        )
    return found


def _depth_of(node: Any) -> int:
    match node:
        case Condition(expression=expression):
            return _depth_of(expression)
        case Filter(left=left, right=right):
            return max(_depth_of(left), _depth_of(right))
        case Negation(clauses=clauses) | OptionalBlock(clauses=clauses):
            return 1 + max(map(_depth_of, clauses))
        case Binding(predicates=predicates):
            return max((_depth_of(pair.value) for pair in predicates), default=0)
        case Traversal(where=where) if where is not None:
            return _depth_of(where)
        case _:
            return getattr(node, "depth", 0)


def _logical(op: Any, operands: list[Any]) -> Logical:
    """Return operands joined by one word; those that are joined by the same word themselves stand beside them."""
    flat: list[Any] = []
    for operand in operands:
        flat.extend(operand.operands if isinstance(operand, Logical) and operand.op == op else [operand])
    span = span_of(operands[0], operands[-1])
    return Logical(op=op, operands=tuple(flat), depth=_depth(span, *flat), span=span)


class ExpressionBuilder:
    """One method per rule or alias of the grammar's lower half, each given its children in order."""

    NAME = staticmethod(ident)
    TYPE_NAME = staticmethod(ident)
    VARIABLE = staticmethod(_variable)
    STRING = staticmethod(_string)
    FLOAT = staticmethod(_float)

    def integer(self, children: list[Any]) -> IntegerLiteral:
        (token,) = children
        return IntegerLiteral(value=bounded_integer(token, _MAX_INTEGER, "integer literal"), span=token_span(token))

    def boolean(self, children: list[Any]) -> BooleanLiteral:
        (word,) = children
        return BooleanLiteral(value=word == "true", span=token_span(word))

    def date(self, children: list[Any]) -> DateLiteral:
        keyword, text, closing = children
        return DateLiteral(text=text.value, span=span_of(keyword, closing))

    def datetime(self, children: list[Any]) -> DateTimeLiteral:
        keyword, text, closing = children
        return DateTimeLiteral(text=text.value, span=span_of(keyword, closing))

    def null(self, children: list[Any]) -> NullLiteral:
        return NullLiteral(span=token_span(children[0]))

    def list_literal(self, children: list[Any]) -> ListLiteral | ListExpression:
        opening, *items, closing = children
        span = span_of(opening, closing)
        if all(isinstance(item, Literal) for item in items):
            return ListLiteral(items=tuple(items), span=span)
        return ListExpression(items=tuple(items), depth=_depth(span, *items), span=span)

    def property_access(self, children: list[Any]) -> PropertyAccess:
        variable, name = children
        return PropertyAccess(variable=variable, property=name, span=span_of(variable, name))

    def all_properties(self, children: list[Any]) -> AllProperties:
        variable, star = children
        return AllProperties(variable=variable, span=span_of(variable, star))

    def word(self, children: list[Any]) -> Ident:
        return ident(children[0])

    soft_word = word

    def alias_ref(self, children: list[Any]) -> AliasRef:
        (name,) = children
        return AliasRef(name=name.text, span=name.span)

    def now(self, children: list[Any]) -> Now:
        keyword, closing = children
        return Now(span=span_of(keyword, closing))

    def nearest(self, children: list[Any]) -> Nearest:
        keyword, target, query, closing = children
        return Nearest(target=target, query=query, span=span_of(keyword, closing))

    def bm25(self, children: list[Any]) -> Bm25:
        keyword, target, query, closing = children
        return Bm25(target=target, query=query, span=span_of(keyword, closing))

    def rrf(self, children: list[Any]) -> Rrf:
        keyword, first, second, k, closing = children
        return Rrf(first=first, second=second, k=k, span=span_of(keyword, closing))

    def search(self, children: list[Any]) -> TextSearch:
        function, target, query, closing = children
        name: Any = str(function)
        return TextSearch(function=name, target=target, query=query, span=span_of(function, closing))

    def fuzzy(self, children: list[Any]) -> TextSearch:
        function, target, query, max_edits, closing = children
        span = span_of(function, closing)
        return TextSearch(function="fuzzy", target=target, query=query, max_edits=max_edits, span=span)

    def aggregate(self, children: list[Any]) -> Aggregate:
        function, distinct, argument, fraction, where, closing = children
        name: Any = str(function)
        if fraction is not None and name != "percentile":
            raise SyntaxFinding(f"{name} takes one argument", fraction.span, suggestion="remove the second one")
        if isinstance(argument, Token) and name != "count":
            raise SyntaxFinding(f"{name} needs a value, not '*'", token_span(argument), suggestion="name a property")
        return Aggregate(
            function=name,
            argument=None if isinstance(argument, Token) else argument,
            is_distinct=distinct is not None,
            fraction=fraction,
            where=where,
            depth=_depth(token_span(function), argument, fraction, where),
            span=span_of(function, closing),
        )

    def walk_where(self, children: list[Any]) -> Any:
        return children[1]

    def call(self, children: list[Any]) -> Call:
        function, _opening, *arguments, closing = children
        given = tuple(argument for argument in arguments if argument is not None)
        depth = _depth(function.span, *given)
        return Call(function=function, arguments=given, depth=depth, span=span_of(function, closing))

    def case(self, children: list[Any]) -> Case:
        keyword, *branches, _else, otherwise, end = children
        inner = [part for branch in branches for part in (branch.condition, branch.value)]
        depth = _depth(token_span(keyword), *inner, otherwise)
        return Case(branches=tuple(branches), otherwise=otherwise, depth=depth, span=span_of(keyword, end))

    def branch(self, children: list[Any]) -> CaseBranch:
        keyword, condition, _then, value = children
        return CaseBranch(condition=condition, value=value, span=span_of(keyword, value))

    def block(self, children: list[Any]) -> Block:
        keyword, *clauses, closing = children
        depth = _depth(token_span(keyword), *clauses)
        return Block(kind=_word(keyword), clauses=tuple(clauses), depth=depth, span=span_of(keyword, closing))

    def grouped(self, children: list[Any]) -> Any:
        return children[0]

    def disjunction(self, children: list[Any]) -> Logical:
        return _logical("or", children[::2])

    def all_of(self, children: list[Any]) -> Logical:
        return _logical("and", children[::2])

    def negation(self, children: list[Any]) -> Not:
        keyword, operand = children
        return Not(operand=operand, depth=_depth(token_span(keyword), operand), span=span_of(keyword, operand))

    def compare(self, children: list[Any]) -> Comparison:
        left, op, right = children
        name: Any = "not in" if op.type == "NOT_IN" else str(op)
        at = token_span(op)
        depth = _depth(at, left, right)
        return Comparison(left=left, op=name, right=right, op_span=at, depth=depth, span=span_of(left, right))

    def null_test(self, children: list[Any]) -> NullTest:
        operand, test = children
        depth, span = _depth(token_span(test), operand), span_of(operand, test)
        return NullTest(operand=operand, is_negated=test.type == "IS_NOT_NULL", depth=depth, span=span)

    def arithmetic(self, children: list[Any]) -> Arithmetic:
        left, op, right = children
        depth = _depth(token_span(op), left, right)
        return Arithmetic(left=left, op=_word(op), right=right, depth=depth, span=span_of(left, right))

    def negative(self, children: list[Any]) -> Any:
        sign, operand = children
        span = span_of(sign, operand)
        if isinstance(operand, IntegerLiteral) and operand.value >= 0:
            return IntegerLiteral(value=-operand.value, span=span)
        if isinstance(operand, FloatLiteral) and not operand.text.startswith("-"):
            return FloatLiteral(value=-operand.value, text=f"-{operand.text}", span=span)
        return Negative(operand=operand, depth=_depth(token_span(sign), operand), span=span)

    def list_item(self, children: list[Any]) -> ListItem:
        items, _opening, index, closing = children
        depth = _depth(token_span(closing), items, index)
        return ListItem(items=items, index=index, depth=depth, span=span_of(items, closing))


# ruff: noqa: D102 - each method is the grammar rule or alias of its name; its docstring would be that rule


BASE_TYPES = ("Blob", "Bool", "Date", "DateTime", "F32", "F64", "I32", "I64", "String", "U32", "U64")
VECTOR = "Vector"
ANNOTATIONS = ("@description", "@instruction")

_MAX_DIMENSION_TEXT = 2**63 - 1
_MAX_HOPS = 2**32 - 1
_MAX_LIMIT = 2**64 - 1


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


_COMPARE_OPS = ("=", "!=", ">", "<", ">=", "<=")
_FILTER_OPS = (*_COMPARE_OPS, "contains", "starts_with")
# What a comparison of the two was made of before there were expressions: plans for it are as they were.
_VALUES = (
    Variable,
    Now,
    StringLiteral,
    IntegerLiteral,
    FloatLiteral,
    BooleanLiteral,
    DateLiteral,
    DateTimeLiteral,
    ListLiteral,
)
_PLAIN = (*_VALUES, PropertyAccess, AliasRef, Nearest, Bm25, Rrf, Aggregate, TextSearch)


class TreeBuilder(ExpressionBuilder):
    """The builder of a whole file; its result is the tuple of declarations."""

    ANNOTATION = staticmethod(_annotation_name)

    def start(self, children: list[Any]) -> tuple[QueryDecl, ...]:
        return tuple(children)

    def query_decl(self, children: list[Any]) -> QueryDecl:
        keyword, name, parameters, annotations, body, closing = children
        return QueryDecl(
            name=name,
            body=body,
            parameters=parameters or (),
            description=annotations.get("@description"),
            instruction=annotations.get("@instruction"),
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

    def vector_type(self, children: list[Any]) -> TypeRef:
        name, dimension, closing, mark = children
        if name.text != VECTOR:
            msg = f"only {VECTOR} takes a dimension, not '{name.text}'"
            raise SyntaxFinding(msg, name.span, suggestion=f"write '{name.text}' or '{VECTOR}({dimension})'")
        return TypeRef(
            scalar=VECTOR,
            nullable=mark is not None,
            dimension=bounded_integer(dimension, _MAX_DIMENSION_TEXT, "dimension"),
            span=span_of(name, mark or closing),
        )

    def annotations(self, children: list[Any]) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, text, span in children:
            if name in found:
                raise SyntaxFinding(f"annotation '{name}' is given twice", span, suggestion="keep one of them")
            found[name] = text
        return found

    def annotation(self, children: list[Any]) -> tuple[str, str, Span]:
        name, text, closing = children
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
            msg = f"'${expression.variable.name}.*' stands for several columns and takes no alias"
            raise SyntaxFinding(msg, span_of(keyword, alias), suggestion=f"remove 'as {alias.text}'")
        return Projection(expression=expression, alias=alias, span=span_of(expression, alias or expression))

    def ordering(self, children: list[Any]) -> Ordering:
        expression, direction, nulls, place = children
        if direction is not None and isinstance(expression, Nearest):
            msg = f"nearest orders by distance and takes no '{direction}'"
            raise SyntaxFinding(msg, token_span(direction), suggestion=f"remove '{direction}'")
        return Ordering(
            expression=expression,
            direction=_word(direction),
            nulls=_word(place),
            span=span_of(expression, place or nulls or direction or expression),
        )

    def condition(self, children: list[Any]) -> Any:
        (expression,) = children
        match expression:
            case Traversal() | TextSearch():
                return expression
            case Block(kind="not", clauses=clauses, span=span):
                return Negation(clauses=clauses, span=span)
            case Comparison(left=Variable() as left, op="contains" | "starts_with" as op, right=Variable() as right):
                word = Ident(text=op, span=expression.op_span)
                return Traversal(source=left, edge=word, destination=right, span=expression.span)
            case Comparison(left=left, op=op, right=right, span=span) if op in _FILTER_OPS:
                if isinstance(left, _PLAIN) and isinstance(right, _PLAIN):
                    plain_op: Any = op
                    return Filter(left=left, op=plain_op, right=right, span=span)
            case Variable(name=name, span=span):
                msg = f"'${name}' alone is no condition"
                raise SyntaxFinding(msg, span, suggestion=f"write '${name} = true'")
        return Condition(expression=expression, span=expression.span)

    def optional(self, children: list[Any]) -> OptionalBlock:
        return OptionalBlock(clauses=tuple(children[1:-1]), span=span_of(children[0], children[-1]))

    def each(self, children: list[Any]) -> Each:
        keyword, variable, _in, items = children
        return Each(variable=variable, items=items, span=span_of(keyword, items))

    def path(self, children: list[Any]) -> PathClause:
        keyword, every, variable, traversal = children
        span = span_of(keyword, traversal)
        return PathClause(variable=variable, traversal=traversal, is_all=every is not None, span=span)

    def binding(self, children: list[Any]) -> Binding:
        variable, type_name, *rest = children
        return Binding(
            variable=variable,
            type_name=type_name,
            predicates=rest[0] if rest else (),
            span=span_of(variable, children[-1]),
        )

    def prop_matches(self, children: list[Any]) -> tuple[PropertyMatch, ...]:
        return tuple(children)

    def prop_match(self, children: list[Any]) -> PropertyMatch:
        name, value = children
        return PropertyMatch(property=name, value=value, span=span_of(name, value))

    def edge_names(self, children: list[Any]) -> tuple[Ident, ...]:
        return tuple(children)

    def directed(self, children: list[Any]) -> Traversal:
        source, (edge, *others), hops, destination, where = children
        return Traversal(
            source=source,
            edge=edge,
            destination=destination,
            alternatives=tuple(others),
            hops=hops,
            where=where,
            span=source.span.to(destination.span if where is None else where.span),
        )

    def undirected(self, children: list[Any]) -> Traversal:
        source, _less, edges, _more, *rest = children
        return replace(self.directed([_source(source), edges, *rest]), is_undirected=True)

    def walk_by_word(self, children: list[Any]) -> Traversal:
        source, op, hops, destination = children
        return self.directed([_source(source), (ident(op),), hops, destination, None])

    def directed_bound(self, children: list[Any]) -> Traversal:
        source, edge_variable, *rest = children
        return replace(self.directed([source, *rest]), edge_variable=edge_variable)

    def undirected_bound(self, children: list[Any]) -> Traversal:
        return replace(self.directed_bound(children), is_undirected=True)

    def hops(self, children: list[Any]) -> Hops:
        opening, least, most, closing = children
        return Hops(
            minimum=bounded_integer(least, _MAX_HOPS, "hop bound"),
            maximum=bounded_integer(most, _MAX_HOPS, "hop bound") if most is not None else None,
            span=span_of(opening, closing),
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
        keyword, variable, _set, *assignments, closing = children
        return UpdateMatched(variable=variable, assignments=tuple(assignments), span=span_of(keyword, closing))

    def delete(self, children: list[Any]) -> Delete:
        keyword, type_name, _where, where, version = children
        span = span_of(keyword, version or where)
        return Delete(type_name=type_name, predicate=_predicate(where), version=version, span=span)

    def delete_matched(self, children: list[Any]) -> DeleteMatched:
        keyword, *variables = children
        return DeleteMatched(variables=tuple(variables), span=span_of(keyword, variables[-1]))

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
    if name.text == VECTOR:
        raise SyntaxFinding("a vector needs its dimension", name.span, suggestion=f"write '{VECTOR}(N)'")
    near = nearest_name(name.text, BASE_TYPES)
    raise SyntaxFinding(
        f"'{name.text}' is not a parameter type",
        name.span,
        expected=(*BASE_TYPES, f"{VECTOR}(N)"),
        suggestion=f"did you mean '{near}'?" if near else None,
    )


def _source(left: Any) -> Variable:
    if isinstance(left, Variable):
        return left
    raise SyntaxFinding("a traversal starts at a variable", left.span, expected=("a $variable",))


def _predicate(where: Any) -> Any:
    """Return a comparison of a property with a plain value as such, and any other condition as it is."""
    match where:
        case Comparison(left=AliasRef(name=name, span=at), op=op, right=right, span=span) if op in _COMPARE_OPS:
            if isinstance(right, _VALUES):
                plain_op: Any = op
                return Predicate(property=Ident(text=name, span=at), op=plain_op, value=right, span=span)
    return where


def _amount(found: Any, what: str) -> Amount:
    return found if isinstance(found, Variable) else bounded_integer(found, _MAX_LIMIT, what)


def _word(token: Token | None) -> Any:
    """Return the plain text of a keyword or operator; the grammar has already chosen among the legal ones."""
    return None if token is None else str(token)
