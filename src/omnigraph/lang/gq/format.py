"""Writes a query tree as canonical ``.gq`` text, comments included."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar, assert_never

from omnigraph.lang.gq.ast import (
    Assignment,
    Binding,
    Clause,
    Delete,
    DeleteMatched,
    Expression,
    Insert,
    MatchStatement,
    MutationBody,
    Negation,
    OptionalBlock,
    Ordering,
    Parameter,
    Projection,
    PropertyMatch,
    QueryDecl,
    QueryFile,
    ReadBody,
    Stage,
    Statement,
    Update,
    UpdateMatched,
    Upsert,
)
from omnigraph.lang.gq.format_expressions import (
    as_condition,
    binding_head,
    clause_lines,
    expression_lines,
    format_amount,
    format_clause,
    format_guard,
    format_parameter,
    statement_head,
    statement_tail,
    tail_lines,
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

_BLANKS = " \t\r\n"
_WORD = re.compile(r"[$\w]+")


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

    def behind_words(self, at: int, count: int) -> int:
        """Return the end of the ``count`` words at or behind ``at``."""
        for _ in range(count):
            found = _WORD.match(self._text, self.skip(at))
            at = at if found is None else found.end()
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
            for name, text in (
                ("description", query.description),
                ("instruction", query.instruction),
                ("mcp", query.mcp),
            )
            if text is not None
        ]
        name = f"query {query.name.text}"
        *above, last = self._list(
            _Brackets(opening=f"{name}(", closing=")"), query.parameters, _parameter_lines, region, 0
        )
        line = " ".join([last, *annotations, "{"])
        if not annotations or len(line) <= MAX_COLUMNS:
            return [*above, line]
        return [*above, last, *(f"{INDENT}{annotation}" for annotation in annotations), "{"]

    def _parts(self, body: ReadBody | MutationBody) -> list[Item[_Part]]:
        if isinstance(body, ReadBody):
            return self._read_parts(body)
        parts = [self._statement_item(statement) for statement in body.statements]
        if body.projections:
            self._add_list(parts, _Brackets(opening="return { ", closing=" }"), body.projections, _projection_lines)
        return parts

    def _read_parts(self, body: ReadBody) -> list[Item[_Part]]:
        parts: list[Item[_Part]] = []
        start = body.span.start
        for stage in body.stages:
            self._add_match(parts, stage.match, start)
            self._add_output(parts, "with", stage)
            self._add_tail(parts, stage)
        self._add_match(parts, body.match, start)
        self._add_output(parts, "return", body)
        for union in body.unions:
            line = "union all" if union.keeps_duplicates else "union"
            self._add_line(parts, line, union.span.start)
            parts += self._read_parts(union.read)
        self._add_tail(parts, body)
        return parts

    def _add_match(self, parts: list[Item[_Part]], clauses: Sequence[Clause], start: int) -> None:
        if clauses:
            inside = self._regions.around(clauses[0].span, clauses[-1].span)
            span = Span(self._next(parts, start), inside.end + 1)
            parts.append(Item(value=_Part(write=partial(self._clauses, "match", clauses)), span=span, inside=inside))

    def _add_output(self, parts: list[Item[_Part]], word: str, part: Stage | ReadBody) -> None:
        distinct = " distinct" if part.is_distinct else ""
        tail = None if part.having is None else _Tail(word="having", condition=part.having)
        brackets = _Brackets(opening=f"{word}{distinct} {{ ", closing=" }", tail=tail)
        self._add_list(parts, brackets, part.projections, _projection_lines)
        if part.having is not None:
            last = parts[-1]
            parts[-1] = Item(value=last.value, span=Span(last.span.start, part.having.span.end), inside=last.inside)

    def _add_tail(self, parts: list[Item[_Part]], part: Stage | ReadBody) -> None:
        if part.orderings:
            self._add_list(parts, _Brackets(opening="order { ", closing=" }"), part.orderings, _ordering_lines)
        if part.offset is not None:
            self._add_line(parts, f"offset {format_amount(part.offset)}")
        if part.limit is None:
            return
        limit = f"limit {format_amount(part.limit)}"
        if part.per:
            self._add_list(parts, _Brackets(opening=f"{limit} per {{ ", closing=" }"), part.per, expression_lines)
        else:
            self._add_line(parts, limit)

    def _add_list(
        self, parts: list[Item[_Part]], brackets: _Brackets, nodes: Sequence[L], write: Callable[[L, int], list[str]]
    ) -> None:
        inside = self._regions.around(nodes[0].span, nodes[-1].span)
        span = Span(self._next(parts, 0), inside.end + 1)
        parts.append(Item(value=_Part(write=partial(self._list, brackets, nodes, write)), span=span, inside=inside))

    def _add_line(self, parts: list[Item[_Part]], line: str, start: int = 0) -> None:
        at = self._next(parts, start)
        end = self._regions.behind_words(at, len(line.split()))
        parts.append(Item(value=_Part(write=lambda _region, _depth: [line]), span=Span(at, max(end, at + 1))))

    def _next(self, parts: Sequence[Item[_Part]], start: int) -> int:
        """Return where the next part begins: nothing but blanks and comments stands between two."""
        return self._regions.skip(max(start, parts[-1].span.end)) if parts else start

    def _statement_item(self, statement: Statement) -> Item[_Part]:
        match statement:
            case MatchStatement(clauses=clauses):
                inside = self._regions.around(clauses[0].span, clauses[-1].span)
                write = partial(self._clauses, "match", clauses)
                return Item(value=_Part(write=write), span=statement.span, inside=inside)
            case DeleteMatched(variables=variables):
                line = f"delete {', '.join(f'${variable.name}' for variable in variables)}"
                line += format_guard(statement.version)
                return Item(value=_Part(write=lambda _region, _depth: [line]), span=statement.span)
            case Delete():
                tail = _tail(statement)
                head = [statement_head(statement)]
                return Item(
                    value=_Part(write=lambda _region, depth: tail.lines(head, _width(depth))), span=statement.span
                )
            case Insert(assignments=pairs) | Upsert(assignments=pairs) | UpdateMatched(assignments=pairs):
                closing = f" }}{statement_tail(statement)}"
                brackets = _Brackets(opening=f"{statement_head(statement)} {{ ", closing=closing)
            case Update(assignments=pairs):
                opening = f"{statement_head(statement)} {{ "
                brackets = _Brackets(opening=opening, closing=" }", tail=_tail(statement))
            case _:
                assert_never(statement)
        inside = self._regions.around(pairs[0].span, pairs[-1].span)
        write = partial(self._list, brackets, pairs, _pair_lines)
        return Item(value=_Part(write=write), span=statement.span, inside=inside)

    def _clauses(self, head: str, clauses: Sequence[Clause], region: Span, depth: int) -> list[str]:
        woven = self._weaver.weave([self._clause_item(clause) for clause in clauses], region)
        lines = render_rows(woven.rows, lambda item: self._clause(item, depth + 1), depth=1)
        return [append_comments(f"{head} {{", woven.opening), *lines, "}"]

    def _clause_item(self, clause: Clause) -> Item[Clause]:
        match clause:
            case Binding(predicates=nodes) | Negation(clauses=nodes) | OptionalBlock(clauses=nodes) if nodes:
                inside = self._regions.around(nodes[0].span, nodes[-1].span)
                return Item(value=clause, span=clause.span, inside=inside)
            case _:
                return Item(value=clause, span=clause.span)

    def _clause(self, item: Item[Clause], depth: int) -> list[str]:
        clause = item.value
        inside = item.inside
        if inside is None:
            return clause_lines(clause, _width(depth))
        if isinstance(clause, Binding):
            brackets = _Brackets(opening=f"{binding_head(clause)} {{ ", closing=" }")
            return self._list(brackets, clause.predicates, _pair_lines, inside, depth)
        line = format_clause(clause)
        if isinstance(clause, Negation | OptionalBlock) and (
            self._weaver.comments_in(inside) or not _is_short(clause) or len(line) > _width(depth)
        ):
            return self._clauses("not" if isinstance(clause, Negation) else "optional", clause.clauses, inside, depth)
        return [line]

    def _list(
        self, brackets: _Brackets, nodes: Sequence[L], write: Callable[[L, int], list[str]], region: Span, depth: int
    ) -> list[str]:
        """Write nodes between brackets: on one line if they fit and no comment stands among them."""
        width = _width(depth)
        written = [write(node, width - len(INDENT) - 1) for node in nodes]
        phrases = [lines[0] for lines in written]
        line = f"{brackets.opening}{', '.join(phrases)}{brackets.closing}"
        is_flat = len(line) <= width and all(len(lines) == 1 for lines in written)
        if not self._weaver.comments_in(region) and (is_flat or not nodes):
            return brackets.with_tail([line], width)
        for lines in written[:-1]:
            lines[-1] += ","
        items = [Item(value=lines, span=node.span) for lines, node in zip(written, nodes, strict=True)]
        woven = self._weaver.weave(items, region)
        rows = render_rows(woven.rows, lambda item: item.value, depth=1)
        opening = append_comments(brackets.opening.rstrip(), woven.opening)
        return [opening, *rows, *brackets.with_tail([brackets.closing.lstrip()], width)]


@record
class _Tail:
    """A condition behind braces, and the little that may follow it."""

    word: str
    condition: Expression
    ending: str = ""

    def lines(self, head: Sequence[str], width: int) -> list[str]:
        lines = tail_lines(head, self.word, self.condition, width - len(self.ending))
        lines[-1] += self.ending
        return lines


@record
class _Brackets:
    """What stands before and behind a list; a space on their inner side vanishes when the list is broken up."""

    opening: str
    closing: str
    tail: _Tail | None = None

    def with_tail(self, lines: list[str], width: int) -> list[str]:
        return lines if self.tail is None else self.tail.lines(lines, width)


def _tail(statement: Update | Delete) -> _Tail:
    return _Tail(word="where", condition=as_condition(statement.predicate), ending=format_guard(statement.version))


def _parameter_lines(parameter: Parameter, _width: int) -> list[str]:
    return [format_parameter(parameter)]


def _projection_lines(projection: Projection, width: int) -> list[str]:
    alias = "" if projection.alias is None else f" as {projection.alias.text}"
    lines = expression_lines(projection.expression, width - len(alias))
    lines[-1] += alias
    return lines


def _ordering_lines(ordering: Ordering, width: int) -> list[str]:
    direction = f" {ordering.direction}" if ordering.direction is not None else ""
    nulls = f" nulls {ordering.nulls}" if ordering.nulls is not None else ""
    lines = expression_lines(ordering.expression, width - len(direction) - len(nulls))
    lines[-1] += f"{direction}{nulls}"
    return lines


def _pair_lines(pair: PropertyMatch | Assignment, width: int) -> list[str]:
    first, *others = expression_lines(pair.value, width - len(pair.property.text) - 2)
    return [f"{pair.property.text}: {first}", *others]


def _is_short(block: Negation | OptionalBlock) -> bool:
    return len(block.clauses) == 1 and not isinstance(block.clauses[0], Negation | OptionalBlock)


def _width(depth: int) -> int:
    return MAX_COLUMNS - len(INDENT) * depth
