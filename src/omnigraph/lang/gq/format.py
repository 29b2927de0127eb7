"""Writes a query tree as canonical ``.gq`` text, comments included."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar, assert_never

from omnigraph.lang.gq.ast import (
    Binding,
    Clause,
    Delete,
    Insert,
    MutationBody,
    Negation,
    QueryDecl,
    QueryFile,
    ReadBody,
    Statement,
    Update,
)
from omnigraph.lang.gq.phrases import (
    binding_head,
    format_clause,
    format_ordering,
    format_pair,
    format_parameter,
    format_predicate,
    format_projection,
    statement_head,
)
from omnigraph.lang.gq.regions import Regions
from omnigraph.lang.layout import (
    INDENT,
    Item,
    Row,
    Weaver,
    Woven,
    append_comments,
    join_lines,
    render_rows,
    separate_rows,
)
from omnigraph.lang.parsing import quote_string
from omnigraph.lang.source import Span
from omnigraph.records import record

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
            rows: list[Row[_Part]] = [Row(comment=comment) for comment in (*early, *woven.opening)]
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
