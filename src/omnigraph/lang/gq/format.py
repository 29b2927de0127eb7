"""Writes a query tree as canonical ``.gq`` text, comments included."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar, assert_never

from omnigraph.lang.gq.ast import (
    Aggregate,
    AliasRef,
    AllProperties,
    Assignment,
    Binding,
    Bm25,
    BooleanLiteral,
    Clause,
    DateLiteral,
    DateTimeLiteral,
    Delete,
    Expression,
    Filter,
    FloatLiteral,
    Insert,
    IntegerLiteral,
    ListLiteral,
    Literal,
    MutationBody,
    Nearest,
    Negation,
    Now,
    Ordering,
    Parameter,
    Predicate,
    Projection,
    PropertyAccess,
    PropertyMatch,
    QueryDecl,
    QueryFile,
    ReadBody,
    Rrf,
    Statement,
    StringLiteral,
    TextSearch,
    Traversal,
    TypeRef,
    Update,
    Variable,
)
from omnigraph.lang.layout import (
    INDENT,
    Item,
    LayoutRow,
    Weaver,
    Woven,
    append_comments,
    join_lines,
    render_rows,
    separate_rows,
)
from omnigraph.lang.parsing import quote_string
from omnigraph.lang.source import Comment, Span
from omnigraph.records import record


def format_type(type_ref: TypeRef) -> str:
    """Return a parameter type as people write it.

    >>> format_type(TypeRef(scalar="String", is_list=True, nullable=True))
    '[String]?'
    """
    scalar = type_ref.scalar if type_ref.dimension is None else f"{type_ref.scalar}({type_ref.dimension})"
    return f"{f'[{scalar}]' if type_ref.is_list else scalar}{'?' if type_ref.nullable else ''}"


def format_parameter(parameter: Parameter) -> str:
    """Return ``$name: Type``."""
    return f"${parameter.name}: {format_type(parameter.type)}"


def format_expression(expression: Expression) -> str:
    """Return an expression.

    >>> format_expression(Aggregate(function="count", argument=Variable(name="p")))
    'count($p)'
    """
    match expression:
        case Variable(name=name):
            return f"${name}"
        case PropertyAccess(variable=variable, property=name):
            return f"${variable.name}.{name.text}"
        case AllProperties(variable=variable):
            return f"${variable.name}.*"
        case Now():
            return "now()"
        case AliasRef(name=name):
            return name
        case Nearest() | Bm25() | Rrf():
            return _ranking(expression)
        case TextSearch(function=function, target=target, query=query, max_edits=max_edits):
            return _call(function, target, query, max_edits)
        case Aggregate(function=function, argument=argument):
            return _call(function, argument)
        case _:
            return format_literal(expression)


def format_literal(literal: Literal) -> str:
    """Return a literal.

    >>> format_literal(ListLiteral(items=(IntegerLiteral(value=1), BooleanLiteral(value=True))))
    '[1, true]'
    """
    match literal:
        case StringLiteral(value=text):
            return quote_string(text)
        case IntegerLiteral(value=number):
            return str(number)
        case FloatLiteral(text=digits):
            return digits
        case BooleanLiteral(value=truth):
            return "true" if truth else "false"
        case DateLiteral(text=text):
            return f"date({quote_string(text)})"
        case DateTimeLiteral(text=text):
            return f"datetime({quote_string(text)})"
        case ListLiteral(items=items):
            return f"[{', '.join(map(format_literal, items))}]"
        case _:
            assert_never(literal)


def format_clause(clause: Clause) -> str:
    """Return a match clause, however long.

    >>> format_clause(Filter(left=Variable(name="a"), op="<", right=Now()))
    '$a < now()'
    """
    match clause:
        case Binding(predicates=()):
            return binding_head(clause)
        case Binding(predicates=predicates):
            return f"{binding_head(clause)} {{ {', '.join(map(format_pair, predicates))} }}"
        case Traversal():
            return _traversal(clause)
        case Filter(left=left, op=op, right=right):
            return f"{format_expression(left)} {op} {format_expression(right)}"
        case TextSearch():
            return format_expression(clause)
        case Negation(clauses=clauses):
            return f"not {{ {' '.join(map(format_clause, clauses))} }}"
        case _:
            assert_never(clause)


def binding_head(binding: Binding) -> str:
    """Return ``$x: Type``, the part of a binding before its braces."""
    return f"${binding.variable.name}: {binding.type_name.text}"


def format_pair(pair: PropertyMatch | Assignment) -> str:
    """Return ``prop: value``."""
    return f"{pair.property.text}: {format_expression(pair.value)}"


def format_projection(projection: Projection) -> str:
    """Return an expression with its alias."""
    alias = f" as {projection.alias.text}" if projection.alias is not None else ""
    return f"{format_expression(projection.expression)}{alias}"


def format_ordering(ordering: Ordering) -> str:
    """Return an expression with its direction."""
    direction = f" {ordering.direction}" if ordering.direction is not None else ""
    return f"{format_expression(ordering.expression)}{direction}"


def statement_head(statement: Statement) -> str:
    """Return a statement up to its braces or its ``where``."""
    match statement:
        case Insert():
            return f"insert {statement.type_name.text}"
        case Update():
            return f"update {statement.type_name.text} set"
        case Delete():
            return f"delete {statement.type_name.text}"
        case _:
            assert_never(statement)


def format_predicate(predicate: Predicate) -> str:
    """Return the comparison of a ``where``."""
    return f"{predicate.property.text} {predicate.op} {format_expression(predicate.value)}"


def _ranking(ranking: Nearest | Bm25 | Rrf) -> str:
    match ranking:
        case Nearest(target=target, query=query):
            return _call("nearest", target, query)
        case Bm25(target=target, query=query):
            return _call("bm25", target, query)
        case Rrf(first=first, second=second, k=k):
            return _call("rrf", first, second, k)
        case _:
            assert_never(ranking)


def _call(function: str, *arguments: Expression | None) -> str:
    written = (format_expression(argument) for argument in arguments if argument is not None)
    return f"{function}({', '.join(written)})"


def _traversal(traversal: Traversal) -> str:
    edge = f"<{traversal.edge.text}>" if traversal.is_undirected else traversal.edge.text
    if traversal.edge_variable is not None:
        edge = f"${traversal.edge_variable.name}:{edge}"
    if traversal.hops is not None:
        maximum = "" if traversal.hops.maximum is None else traversal.hops.maximum
        edge = f"{edge}{{{traversal.hops.minimum},{maximum}}}"
    return f"${traversal.source.name} {edge} ${traversal.destination.name}"


_BLANKS = " \t\r\n"


class Regions:
    """The text around nodes: between a node and the next bracket stand only blanks, commas and comments.

    A tree built by hand has an empty text; all its regions are empty.
    """

    def __init__(self, text: str, comments: Sequence[Comment]) -> None:
        self._text = text
        self._next = {comment.span.start: comment.span.end for comment in comments}
        self._previous = {comment.span.end: comment.span.start for comment in comments}

    def around(self, first: Span, last: Span) -> Span:
        """Return what lies between the brackets that hold the nodes from ``first`` to ``last``."""
        return Span(self._before(first.start), self.skip(last.end))

    def skip(self, at: int) -> int:
        """Return the offset of the next token at or behind ``at``, commas not counted."""
        while at < len(self._text):
            if at in self._next:
                at = self._next[at]
            elif self._text[at] in _BLANKS or self._text[at] == ",":
                at += 1
            else:
                break
        return at

    def _before(self, at: int) -> int:
        while at > 0:
            if at in self._previous:
                at = self._previous[at]
            elif self._text[at - 1] in _BLANKS:
                at -= 1
            else:
                break
        return at


MAX_COLUMNS = 100


def format_queries(tree: QueryFile) -> str:
    """Return the canonical text of ``tree``; parsing it gives an equal tree, formatting that the same text.

    >>> from omnigraph.lang.gq.parser import parse_queries
    >>> print(format_queries(parse_queries("query q(){match{$p:Person}return{$p.name $p.age}}")), end="")
    query q() {
        match {
            $p: Person
        }
        return { $p.name, $p.age }
    }
    """
    return _QueryWriter(tree).write()


class _Leaf(Protocol):
    """A node that is always one line."""

    @property
    def span(self) -> Span: ...


L = TypeVar("L", bound=_Leaf)


@record
class _Part:
    """A part of a body: how it is written, given the region between its braces and the depth it stands at."""

    write: Callable[[Span, int], list[str]]


class _QueryWriter:
    def __init__(self, tree: QueryFile) -> None:
        self._queries = tree.queries
        self._weaver = Weaver(tree.source.text, tree.comments)
        self._regions = Regions(tree.source.text, tree.comments)

    def write(self) -> str:
        items = [Item(value=query, span=query.span, inside=self._behind_name(query)) for query in self._queries]
        rows = separate_rows(self._weaver.weave_file(items), lambda _above, _below: False)
        return join_lines(render_rows(rows, self._query))

    def _behind_name(self, query: QueryDecl) -> Span:
        start = self._regions.skip(query.name.span.end) + 1
        return Span(start, max(query.span.end - 1, start))

    def _query(self, item: Item[QueryDecl]) -> list[str]:
        query = item.value
        inside = item.inside or query.span
        last = query.parameters[-1].span.end if query.parameters else inside.start
        parameters = Span(inside.start, self._regions.skip(last))
        start = self._regions.around(query.body.span, query.body.span).start
        body = Span(max(start, inside.start), inside.end)
        woven = self._weaver.weave(self._parts(query.body), body)
        # Comments beside the annotations have no line of their own there: they open the body.
        early = tuple(self._weaver.comments_in(Span(parameters.end, body.start)))
        if early:
            rows: list[LayoutRow[_Part]] = [LayoutRow(comment=comment) for comment in (*early, *woven.opening)]
            woven = Woven(rows=(*rows, *woven.rows))
        *head, opening = self._head(query, parameters)
        lines = render_rows(woven.rows, lambda part: part.value.write(part.inside or part.span, 1), depth=1)
        return [*head, append_comments(opening, woven.opening), *lines, "}"]

    def _head(self, query: QueryDecl, region: Span) -> list[str]:
        annotations = [
            f"@{name}({quote_string(text)})"
            for name, text in (("description", query.description), ("instruction", query.instruction))
            if text is not None
        ]
        name = f"query {query.name.text}"
        *above, last = self._list(_Brackets(f"{name}(", ")"), query.parameters, format_parameter, region, 0)
        line = " ".join([last, *annotations, "{"])
        if not annotations or len(line) <= MAX_COLUMNS:
            return [*above, line]
        return [*above, last, *(f"{INDENT}{annotation}" for annotation in annotations), "{"]

    def _parts(self, body: ReadBody | MutationBody) -> list[Item[_Part]]:
        if isinstance(body, MutationBody):
            return [self._statement_item(statement) for statement in body.statements]
        return self._read_parts(body)

    def _read_parts(self, body: ReadBody) -> list[Item[_Part]]:
        at = body.span.start
        parts: list[Item[_Part]] = []
        writers: list[tuple[Sequence[_Leaf], Callable[[Span, int], list[str]]]] = [
            (body.match, lambda region, depth: self._clauses("match", body.match, region, depth)),
            (body.projections, partial(self._list, _Brackets("return { ", " }"), body.projections, format_projection)),
            (body.orderings, partial(self._list, _Brackets("order { ", " }"), body.orderings, format_ordering)),
        ]
        for nodes, write in writers:
            if not nodes:
                continue
            inside = self._regions.around(nodes[0].span, nodes[-1].span)
            parts.append(Item(value=_Part(write=write), span=Span(at, inside.end + 1), inside=inside))
            at = self._regions.skip(inside.end + 1)
        if body.limit is not None:
            limit = _Part(write=lambda _region, _depth: [f"limit {body.limit}"])
            parts.append(Item(value=limit, span=Span(at, body.span.end)))
        return parts

    def _statement_item(self, statement: Statement) -> Item[_Part]:
        head = statement_head(statement)
        match statement:
            case Delete(predicate=predicate):
                line = f"{head} where {format_predicate(predicate)}"
                return Item(value=_Part(write=lambda _region, _depth: [line]), span=statement.span)
            case Insert(assignments=assignments):
                brackets = _Brackets(f"{head} {{ ", " }")
            case Update(assignments=assignments, predicate=predicate):
                brackets = _Brackets(f"{head} {{ ", f" }} where {format_predicate(predicate)}")
            case _:
                assert_never(statement)
        inside = self._regions.around(assignments[0].span, assignments[-1].span)
        write = partial(self._list, brackets, assignments, format_pair)
        return Item(value=_Part(write=write), span=statement.span, inside=inside)

    def _clauses(self, head: str, clauses: Sequence[Clause], region: Span, depth: int) -> list[str]:
        woven = self._weaver.weave([self._clause_item(clause) for clause in clauses], region)
        lines = render_rows(woven.rows, lambda item: self._clause(item, depth + 1), depth=1)
        return [append_comments(f"{head} {{", woven.opening), *lines, "}"]

    def _clause_item(self, clause: Clause) -> Item[Clause]:
        match clause:
            case Binding(predicates=nodes) | Negation(clauses=nodes) if nodes:
                inside = self._regions.around(nodes[0].span, nodes[-1].span)
                return Item(value=clause, span=clause.span, inside=inside)
            case _:
                return Item(value=clause, span=clause.span)

    def _clause(self, item: Item[Clause], depth: int) -> list[str]:
        clause = item.value
        line = format_clause(clause)
        inside = item.inside
        if inside is None:
            return [line]
        if isinstance(clause, Binding):
            brackets = _Brackets(f"{binding_head(clause)} {{ ", " }")
            return self._list(brackets, clause.predicates, format_pair, inside, depth)
        if isinstance(clause, Negation) and (
            self._weaver.comments_in(inside) or not _is_short(clause) or not _fits(line, depth)
        ):
            return self._clauses("not", clause.clauses, inside, depth)
        return [line]

    def _list(
        self, brackets: _Brackets, nodes: Sequence[L], phrase: Callable[[L], str], region: Span, depth: int
    ) -> list[str]:
        """Write nodes between brackets: on one line if they fit and no comment stands among them."""
        phrases = [phrase(node) for node in nodes]
        line = f"{brackets.opening}{', '.join(phrases)}{brackets.closing}"
        if not self._weaver.comments_in(region) and (_fits(line, depth) or not nodes):
            return [line]
        commas = [","] * (len(nodes) - 1) + [""]
        items = [
            Item(value=f"{text}{comma}", span=node.span)
            for text, comma, node in zip(phrases, commas, nodes, strict=False)
        ]
        woven = self._weaver.weave(items, region)
        lines = render_rows(woven.rows, lambda item: [item.value], depth=1)
        return [append_comments(brackets.opening.rstrip(), woven.opening), *lines, brackets.closing.lstrip()]


@dataclass(frozen=True, slots=True)
class _Brackets:
    """What stands before and behind a list; a space on their inner side vanishes when the list is broken up."""

    opening: str
    closing: str


def _is_short(negation: Negation) -> bool:
    return len(negation.clauses) == 1 and not isinstance(negation.clauses[0], Negation)


def _fits(line: str, depth: int) -> bool:
    return len(INDENT) * depth + len(line) <= MAX_COLUMNS
