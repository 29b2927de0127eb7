"""Writes types, expressions and clauses: on one line, or broken up where one is too long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

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
    Clause,
    Comparison,
    Condition,
    DateLiteral,
    DateTimeLiteral,
    Delete,
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
    Nearest,
    Negation,
    Negative,
    Not,
    Now,
    NullLiteral,
    NullTest,
    OptionalBlock,
    Parameter,
    PathClause,
    Predicate,
    PropertyAccess,
    PropertyMatch,
    Rrf,
    StringLiteral,
    TextSearch,
    Traversal,
    TypeRef,
    Update,
    UpdateMatched,
    Upsert,
    Variable,
)
from omnigraph.lang.layout import INDENT
from omnigraph.lang.parsing import quote_string


def format_type(type_ref: TypeRef) -> str:
    """Return a parameter type as people write it.

    >>> format_type(TypeRef(scalar="String", is_list=True, nullable=True))
    '[String]?'
    """
    sizes = [str(size) for size in (type_ref.dimension, type_ref.precision, type_ref.scale) if size is not None]
    scalar = f"{type_ref.scalar}({', '.join(sizes)})" if sizes else type_ref.scalar
    return f"{f'[{scalar}]' if type_ref.is_list else scalar}{'?' if type_ref.nullable else ''}"


def format_parameter(parameter: Parameter) -> str:
    """Return ``$name: Type``."""
    return f"${parameter.name}: {format_type(parameter.type)}"


# How tightly an expression holds together; what stands inside a tighter one needs parentheses.
_OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _UNARY, _ATOM = range(1, 9)


# Names that would be taken for keywords beside others; in parentheses they are names.
_KEYWORDS = frozenset(
    {
        *(
            "and",
            "or",
            "not",
            "in",
            "is",
            "contains",
            "starts_with",
            "ends_with",
            "matches",
            "where",
            "exists",
            "count",
        ),
        *("case", "when", "then", "else", "end", "optional", "each", "path", "distinct", "asc", "desc", "nulls", "as"),
        *("having", "order", "offset", "limit", "with", "return", "match", "union", "if", "for", "strict"),
        *("insert", "upsert", "update", "delete", "count"),
    }
)


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
        case AliasRef(name=name) if name in _KEYWORDS:
            return 0
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
            return f"{_inside(left, _SUM)} {op} {_inside(right, _SUM)}"
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


def statement_tail(statement: Insert | Upsert | UpdateMatched) -> str:
    """Return what follows the braces of a statement without a ``where``."""
    match statement:
        case Insert(if_present=if_present, for_each=variables):
            return {"replace": "", "keep": " if absent", "refuse": " strict"}[if_present] + _for_each(variables)
        case Upsert(for_each=variables):
            return _for_each(variables)
        case UpdateMatched(version=version):
            return format_guard(version)
        case _:
            assert_never(statement)


def format_guard(version: Expression | None) -> str:
    """Return the version that a statement insists on, as it stands behind the statement."""
    return "" if version is None else f" if version = {format_expression(version)}"


def as_condition(predicate: Predicate | Expression) -> Expression:
    """Return the condition of a ``where`` as an expression."""
    if not isinstance(predicate, Predicate):
        return predicate
    name = AliasRef(name=predicate.property.text)
    return Comparison(left=name, op=predicate.op, right=predicate.value)


def _for_each(variables: Sequence[Variable]) -> str:
    return f" for each {', '.join(f'${variable.name}' for variable in variables)}" if variables else ""


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


# An expression that does not fit a line is broken up at its loosest operator, or inside its outermost brackets.


def expression_lines(expression: Expression, width: int) -> list[str]:
    """Return an expression in lines of at most ``width`` columns, as far as its parts allow.

    >>> both = Logical(op="or", operands=(AliasRef(name="left"), AliasRef(name="right")))
    >>> expression_lines(both, 8)
    ['left', '    or right']
    """
    return _lines(expression, width, 0)


def clause_lines(clause: Clause, width: int) -> list[str]:
    """Return a match clause in lines of at most ``width`` columns, as far as its parts allow."""
    flat = format_clause(clause)
    if len(flat) <= width:
        return [flat]
    match clause:
        case Condition(expression=expression):
            return _in_parentheses(expression, width) if flat.startswith("(-") else expression_lines(expression, width)
        case Filter(left=left, op=op, right=right):
            return _joined(left, op, right, width)
        case TextSearch():
            return expression_lines(clause, width)
        case Each(variable=variable, items=items):
            return _behind(f"each ${variable.name} in ", expression_lines(items, width - len(INDENT)))
        case Negation(clauses=clauses) | OptionalBlock(clauses=clauses):
            return _block_lines("not" if isinstance(clause, Negation) else "optional", clauses, width)
        case Binding(predicates=pairs) if pairs:
            inner = [line for pair in pairs for line in _pair_lines(pair, width, ends=pair is pairs[-1])]
            return [f"{binding_head(clause)} {{", *inner, "}"]
        case Traversal(where=where) if where is not None:
            head = _traversal(replace(clause, where=None))
            return [head, *_hanging("where ", where, width, 0)]
        case PathClause(traversal=Traversal(where=where)) if where is not None:
            head = format_clause(replace(clause, traversal=replace(clause.traversal, where=None)))
            return [head, *_hanging("where ", where, width, 0)]
        case _:
            return [flat]


def tail_lines(head: Sequence[str], word: str, condition: Expression, width: int) -> list[str]:
    """Return ``head`` with ``word condition`` behind it, on a line of its own where that line is long already."""
    *above, last = head
    start = f"{last} {word} "
    if len(start) + len(format_expression(condition)) <= width or len(start) <= width // 2:
        return [*above, *_behind(start, expression_lines(condition, width - len(start)))]
    return [*head, *_hanging(f"{word} ", condition, width, 0)]


def _lines(expression: Expression, width: int, level: int) -> list[str]:
    flat = _inside(expression, level)
    if len(flat) <= width:
        return [flat]
    if _level(expression) < level:
        return _in_parentheses(expression, width)
    own = _level(expression)
    match expression:
        case Logical(op=op, operands=(first, *others)):
            rest = [line for other in others for line in _hanging(f"{op} ", other, width, own + 1)]
            return [*_lines(first, width, own + 1), *rest]
        case Not(operand=operand):
            return _behind("not ", _lines(operand, width - len("not "), own))
        case Comparison(left=left, op=op, right=right):
            return _joined(left, op, right, width)
        case Arithmetic(left=left, op=op, right=right):
            return [*_lines(left, width, own), *_hanging(f"{op} ", right, width, own + 1)]
        case Negative(operand=operand):
            return _behind("-", _lines(operand, width - 1, _ATOM))
        case NullTest(operand=operand, is_negated=is_negated):
            test = f" is {'not ' if is_negated else ''}null"
            *above, last = _lines(operand, width - len(test), own + 1)
            return [*above, f"{last}{test}"]
        case _:
            return _bracketed(expression, width)


def _bracketed(expression: Expression, width: int) -> list[str]:
    match expression:
        case ListLiteral(items=items) | ListExpression(items=items):
            return _listed("[", items, "]", width)
        case ListItem(items=items, index=index):
            *before, list_end = _lines(items, width - 1, _ATOM)
            return [*before, *_listed(f"{list_end}[", [index], "]", width)]
        case Call(function=function, arguments=arguments) if arguments:
            return _listed(f"{function.text}(", arguments, ")", width)
        case TextSearch() | Nearest() | Bm25() | Rrf():
            return _ranking_lines(expression, width)
        case Aggregate(argument=argument) if argument is not None:
            return _aggregate_lines(expression, argument, width)
        case Case(branches=branches, otherwise=otherwise):
            inner = [line for branch in branches for line in _branch_lines(branch, width)]
            last = [] if otherwise is None else _hanging("else ", otherwise, width, 0)
            return ["case", *inner, *last, "end"]
        case Block(kind=kind, clauses=clauses):
            return _block_lines(kind, clauses, width)
        case _:
            return [format_expression(expression)]


def _pair_lines(pair: PropertyMatch, width: int, *, ends: bool) -> list[str]:
    lines = _hanging(f"{pair.property.text}: ", pair.value, width - 1, 0)
    lines[-1] += "" if ends else ","
    return lines


def _block_lines(word: str, clauses: Sequence[Clause], width: int) -> list[str]:
    inner = [f"{INDENT}{line}" for clause in clauses for line in clause_lines(clause, width - len(INDENT))]
    return [f"{word} {{", *inner, "}"]


def _ranking_lines(ranking: Nearest | Bm25 | Rrf | TextSearch, width: int) -> list[str]:
    opening = f"{_ranking(ranking).partition('(')[0]}("
    match ranking:
        case Rrf(first=first, second=second, k=k):
            return _listed(opening, [part for part in (first, second, k) if part is not None], ")", width)
        case TextSearch(target=target, query=query, max_edits=max_edits):
            return _listed(opening, [part for part in (target, query, max_edits) if part is not None], ")", width)
        case Nearest(target=target, query=query) | Bm25(target=target, query=query):
            return _listed(opening, [target, query], ")", width)
        case _:
            assert_never(ranking)


def _aggregate_lines(call: Aggregate, argument: Expression, width: int) -> list[str]:
    inner = _hanging("distinct " if call.is_distinct else "", argument, width, 0)
    if call.fraction is not None:
        inner[-1] += ","
        inner += _hanging("", call.fraction, width, 0)
    where = [] if call.where is None else _hanging("where ", call.where, width, 0)
    return [f"{call.function}(", *inner, *where, ")"]


def _branch_lines(branch: CaseBranch, width: int) -> list[str]:
    flat = f"{INDENT}when {format_expression(branch.condition)} then {format_expression(branch.value)}"
    if len(flat) <= width:
        return [flat]
    then = [f"{INDENT}{line}" for line in _hanging("then ", branch.value, width - len(INDENT), 0)]
    return [*_hanging("when ", branch.condition, width, 0), *then]


def _listed(opening: str, items: Sequence[Expression], closing: str, width: int) -> list[str]:
    """Return items between brackets; short ones share a line."""
    inner: list[str] = []
    for place, item in enumerate(items):
        lines = _lines(item, width - len(INDENT) - 1, 0)
        lines[-1] += "," if place < len(items) - 1 else ""
        is_short = len(lines) == 1 and isinstance(item, _SHORT)
        if inner and is_short and len(INDENT) + len(inner[-1]) + 1 + len(lines[0]) <= width:
            inner[-1] += f" {lines[0]}"
        else:
            inner += lines
    return [opening, *(f"{INDENT}{line}" for line in inner), closing]


def _joined(left: Expression, op: str, right: Expression, width: int) -> list[str]:
    above = _lines(left, width, _COMPARISON + 1)
    if isinstance(right, _BRACKETED) and len(above[-1]) <= width // 2:
        start = f"{above[-1]} {op} "
        return [*above[:-1], *_behind(start, _lines(right, width, _COMPARISON + 1))]
    return [*above, *_hanging(f"{op} ", right, width, _COMPARISON + 1)]


def _in_parentheses(expression: Expression, width: int) -> list[str]:
    return ["(", *(f"{INDENT}{line}" for line in _lines(expression, width - len(INDENT), 0)), ")"]


def _hanging(word: str, expression: Expression, width: int, level: int) -> list[str]:
    lines = _lines(expression, width - len(INDENT) - len(word), level)
    return [f"{INDENT}{line}" for line in _behind(word, lines)]


def _behind(start: str, lines: Sequence[str]) -> list[str]:
    return [f"{start}{lines[0]}", *lines[1:]]


_BRACKETED = (ListLiteral, ListExpression, Call, Aggregate, Case, Block)
_SHORT = (StringLiteral, IntegerLiteral, FloatLiteral, BooleanLiteral, NullLiteral, DateLiteral, DateTimeLiteral)
