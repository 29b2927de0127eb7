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
    Amount,
    Arithmetic,
    Assignment,
    Binding,
    Block,
    Bm25,
    BooleanLiteral,
    Call,
    Case,
    Clause,
    Comparison,
    Condition,
    DateLiteral,
    DateTimeLiteral,
    Delete,
    DeleteMatched,
    Each,
    Expression,
    Filter,
    FloatLiteral,
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
    QueryFile,
    ReadBody,
    Rrf,
    Stage,
    Statement,
    StringLiteral,
    TextSearch,
    Traversal,
    TypeRef,
    Update,
    UpdateMatched,
    Upsert,
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


# How tightly an expression holds together; what stands inside a tighter one needs parentheses.
_OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _UNARY, _ATOM = range(1, 9)


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
        case Nearest() | Bm25() | Rrf() | TextSearch():
            return _ranking(expression)
        case Logical() | Not() | Comparison() | NullTest() | Arithmetic() | Negative():
            return _operators(expression)
        case Aggregate() | Call() | ListExpression() | ListItem() | Case() | Block():
            return _composed(expression)
        case _:
            return format_literal(expression)


def _composed(expression: Aggregate | Call | ListExpression | ListItem | Case | Block) -> str:
    match expression:
        case Aggregate():
            return _aggregate(expression)
        case Call(function=function, arguments=arguments):
            return _call(function.text, *arguments)
        case ListExpression(items=items):
            return f"[{', '.join(map(format_expression, items))}]"
        case ListItem(items=items, index=index):
            return f"{_inside(items, _ATOM)}[{format_expression(index)}]"
        case Case(branches=branches, otherwise=otherwise):
            parts = [f"when {format_expression(one.condition)} then {format_expression(one.value)}" for one in branches]
            last = [] if otherwise is None else [f"else {format_expression(otherwise)}"]
            return " ".join(["case", *parts, *last, "end"])
        case Block(kind=kind, clauses=clauses):
            return f"{kind} {{ {' '.join(map(format_clause, clauses))} }}"
        case _:
            assert_never(expression)


def _operators(expression: Logical | Not | Comparison | NullTest | Arithmetic | Negative) -> str:
    level = _level(expression)
    match expression:
        case Logical(op=op, operands=operands):
            return f" {op} ".join(_inside(operand, level + 1) for operand in operands)
        case Not(operand=operand):
            return f"not {_inside(operand, level)}"
        case Comparison(left=left, op=op, right=right):
            return f"{_inside(left, level + 1)} {op} {_inside(right, level + 1)}"
        case NullTest(operand=operand, is_negated=is_negated):
            return f"{_inside(operand, level + 1)} is {'not ' if is_negated else ''}null"
        case Arithmetic(left=left, op=op, right=right):
            return f"{_inside(left, level)} {op} {_inside(right, level + 1)}"
        case Negative(operand=operand):
            return f"-{_inside(operand, _ATOM)}"
        case _:
            assert_never(expression)


def _inside(expression: Expression, level: int) -> str:
    text = format_expression(expression)
    return text if _level(expression) >= level else f"({text})"


def _level(expression: Expression) -> int:
    match expression:
        case Logical(op=op):
            return _OR if op == "or" else _AND
        case Not():
            return _NOT
        case Comparison() | NullTest():
            return _COMPARISON
        case Arithmetic(op=op):
            return _SUM if op in {"+", "-"} else _PRODUCT
        case Negative():
            return _UNARY
        case IntegerLiteral(value=value) if value < 0:
            return _UNARY
        case FloatLiteral(text=text) if text.startswith("-"):
            return _UNARY
        case _:
            return _ATOM


def _aggregate(call: Aggregate) -> str:
    argument = "*" if call.argument is None else format_expression(call.argument)
    distinct = "distinct " if call.is_distinct else ""
    fraction = "" if call.fraction is None else f", {format_expression(call.fraction)}"
    where = "" if call.where is None else f" where {format_expression(call.where)}"
    return f"{call.function}({distinct}{argument}{fraction}{where})"


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
        case NullLiteral():
            return "null"
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
        case Binding(predicates=predicates):
            pairs = f" {{ {', '.join(map(format_pair, predicates))} }}" if predicates else ""
            return f"{binding_head(clause)}{pairs}"
        case Traversal():
            return _traversal(clause)
        case Filter(left=left, op=op, right=right):
            return f"{format_expression(left)} {op} {format_expression(right)}"
        case TextSearch():
            return format_expression(clause)
        case Condition(expression=expression):
            return _separated(expression)
        case Negation(clauses=clauses) | OptionalBlock(clauses=clauses):
            word = "not" if isinstance(clause, Negation) else "optional"
            return f"{word} {{ {' '.join(map(format_clause, clauses))} }}"
        case Each(variable=variable, items=items):
            return f"each ${variable.name} in {format_expression(items)}"
        case PathClause(variable=variable, traversal=traversal, is_all=is_all):
            return f"path {'all ' if is_all else ''}${variable.name}: {_traversal(traversal)}"
        case _:
            assert_never(clause)


def _separated(condition: Expression) -> str:
    """Return a condition in a form that does not go on with the clause before it."""
    text = format_expression(condition)
    return f"({text})" if text.startswith("-") else text


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
    nulls = f" nulls {ordering.nulls}" if ordering.nulls is not None else ""
    return f"{format_expression(ordering.expression)}{direction}{nulls}"


def statement_head(statement: Insert | Upsert | Update | UpdateMatched | Delete) -> str:
    """Return a statement up to its braces or its ``where``."""
    match statement:
        case Insert():
            return f"insert {statement.type_name.text}"
        case Upsert():
            return f"upsert {statement.type_name.text}"
        case Update():
            return f"update {statement.type_name.text} set"
        case UpdateMatched():
            return f"update ${statement.variable.name} set"
        case Delete():
            return f"delete {statement.type_name.text}"
        case _:
            assert_never(statement)


def _statement_tail(statement: Insert | Upsert | Update | UpdateMatched | Delete) -> str:
    """Return what follows the braces of a statement, or its head where it has none."""
    match statement:
        case Update(predicate=predicate, version=version) | Delete(predicate=predicate, version=version):
            guard = "" if version is None else f" if version = {format_expression(version)}"
            return f" where {format_predicate(predicate)}{guard}"
        case Insert(if_present=if_present, for_each=variables):
            return {"replace": "", "keep": " if absent", "refuse": " strict"}[if_present] + _for_each(variables)
        case Upsert(for_each=variables):
            return _for_each(variables)
        case UpdateMatched():
            return ""
        case _:
            assert_never(statement)


def _for_each(variables: Sequence[Variable]) -> str:
    return f" for each {', '.join(f'${variable.name}' for variable in variables)}" if variables else ""


def format_predicate(predicate: Predicate | Expression) -> str:
    """Return the condition of a ``where``."""
    if isinstance(predicate, Predicate):
        return f"{predicate.property.text} {predicate.op} {format_expression(predicate.value)}"
    return format_expression(predicate)


def format_amount(amount: Amount) -> str:
    """Return the number of an ``offset`` or a ``limit``."""
    return f"${amount.name}" if isinstance(amount, Variable) else str(amount)


def _ranking(ranking: Nearest | Bm25 | Rrf | TextSearch) -> str:
    match ranking:
        case TextSearch(function=function, target=target, query=query, max_edits=max_edits):
            return _call(function, target, query, max_edits)
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
    names = "|".join(edge.text for edge in (traversal.edge, *traversal.alternatives))
    edge = f"<{names}>" if traversal.is_undirected else names
    if traversal.edge_variable is not None:
        edge = f"${traversal.edge_variable.name}:{edge}"
    if traversal.hops is not None:
        maximum = "" if traversal.hops.maximum is None else traversal.hops.maximum
        edge = f"{edge}{{{traversal.hops.minimum},{maximum}}}"
    where = "" if traversal.where is None else f" where {format_expression(traversal.where)}"
    return f"${traversal.source.name} {edge} ${traversal.destination.name}{where}"


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
        if isinstance(body, ReadBody):
            return self._read_parts(body)
        parts = [self._statement_item(statement) for statement in body.statements]
        if body.projections:
            self._add_list(parts, _Brackets("return { ", " }"), body.projections, format_projection)
        return parts

    def _read_parts(self, body: ReadBody) -> list[Item[_Part]]:
        parts: list[Item[_Part]] = []
        for stage in body.stages:
            self._add_match(parts, stage.match, stage.span.start)
            self._add_output(parts, "with", stage)
            self._add_tail(parts, stage)
        self._add_match(parts, body.match, body.span.start)
        self._add_output(parts, "return", body)
        for union in body.unions:
            self._add_line(parts, "union all" if union.keeps_duplicates else "union", union.span.start)
            parts += self._read_parts(union.read)
        self._add_tail(parts, body)
        if parts and not body.unions:
            last = parts[-1]
            parts[-1] = Item(
                value=last.value, span=Span(last.span.start, max(last.span.end, body.span.end)), inside=last.inside
            )
        return parts

    def _add_match(self, parts: list[Item[_Part]], clauses: Sequence[Clause], start: int) -> None:
        if clauses:
            write = partial(self._clauses, "match", clauses)
            inside = self._regions.around(clauses[0].span, clauses[-1].span)
            parts.append(
                Item(value=_Part(write=write), span=Span(_behind(parts, start), inside.end + 1), inside=inside)
            )

    def _add_output(self, parts: list[Item[_Part]], word: str, part: Stage | ReadBody) -> None:
        distinct = " distinct" if part.is_distinct else ""
        having = "" if part.having is None else f" having {format_expression(part.having)}"
        self._add_list(parts, _Brackets(f"{word}{distinct} {{ ", f" }}{having}"), part.projections, format_projection)
        if part.having is not None:
            last = parts[-1]
            parts[-1] = Item(value=last.value, span=Span(last.span.start, part.having.span.end), inside=last.inside)

    def _add_tail(self, parts: list[Item[_Part]], part: Stage | ReadBody) -> None:
        if part.orderings:
            self._add_list(parts, _Brackets("order { ", " }"), part.orderings, format_ordering)
        if part.offset is not None:
            self._add_line(parts, f"offset {format_amount(part.offset)}")
        if part.limit is not None:
            per = f" per {{ {', '.join(map(format_expression, part.per))} }}" if part.per else ""
            self._add_line(parts, f"limit {format_amount(part.limit)}{per}")

    def _add_list(
        self, parts: list[Item[_Part]], brackets: _Brackets, nodes: Sequence[L], phrase: Callable[[L], str]
    ) -> None:
        inside = self._regions.around(nodes[0].span, nodes[-1].span)
        write = partial(self._list, brackets, nodes, phrase)
        parts.append(Item(value=_Part(write=write), span=Span(_behind(parts, 0), inside.end + 1), inside=inside))

    def _add_line(self, parts: list[Item[_Part]], line: str, start: int | None = None) -> None:
        at = self._regions.skip(_behind(parts, 0)) if start is None else start
        parts.append(Item(value=_Part(write=lambda _region, _depth: [line]), span=Span(at, at + 1)))

    def _statement_item(self, statement: Statement) -> Item[_Part]:
        match statement:
            case MatchStatement(clauses=clauses):
                inside = self._regions.around(clauses[0].span, clauses[-1].span)
                write = partial(self._clauses, "match", clauses)
                return Item(value=_Part(write=write), span=statement.span, inside=inside)
            case DeleteMatched(variables=variables):
                line = f"delete {', '.join(f'${variable.name}' for variable in variables)}"
                return Item(value=_Part(write=lambda _region, _depth: [line]), span=statement.span)
            case Delete():
                line = f"{statement_head(statement)}{_statement_tail(statement)}"
                return Item(value=_Part(write=lambda _region, _depth: [line]), span=statement.span)
            case Insert(assignments=pairs) | Upsert(assignments=pairs) | Update(assignments=pairs):
                brackets = _Brackets(f"{statement_head(statement)} {{ ", f" }}{_statement_tail(statement)}")
            case UpdateMatched(assignments=pairs):
                brackets = _Brackets(f"{statement_head(statement)} {{ ", " }")
            case _:
                assert_never(statement)
        inside = self._regions.around(pairs[0].span, pairs[-1].span)
        write = partial(self._list, brackets, pairs, format_pair)
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
        line = format_clause(clause)
        inside = item.inside
        if inside is None:
            return [line]
        if isinstance(clause, Binding):
            brackets = _Brackets(f"{binding_head(clause)} {{ ", " }")
            return self._list(brackets, clause.predicates, format_pair, inside, depth)
        if isinstance(clause, Negation | OptionalBlock) and (
            self._weaver.comments_in(inside) or not _is_short(clause) or not _fits(line, depth)
        ):
            return self._clauses("not" if isinstance(clause, Negation) else "optional", clause.clauses, inside, depth)
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


def _is_short(block: Negation | OptionalBlock) -> bool:
    return len(block.clauses) == 1 and not isinstance(block.clauses[0], Negation | OptionalBlock)


def _behind(parts: Sequence[Item[_Part]], start: int) -> int:
    return max(start, parts[-1].span.end) if parts else start


def _fits(line: str, depth: int) -> bool:
    return len(INDENT) * depth + len(line) <= MAX_COLUMNS
