"""What can be told of a text of Spark SQL without Spark: its names, its tables, and brackets that do not close."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from omnigraph.errors import BadValue, UsageError
from omnigraph.records import record

_TOKEN = re.compile(
    r"""
      (?P<space>\s+|--[^\n]*|/\*.*?\*/)
    | (?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[A-Za-z]*)
    | (?P<word>[^\W\d]\w*)
    | (?P<sign>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_OPENED = {")": "(", "]": "[", "}": "{"}
_QUOTES = {"'": "a quote", '"': "a double quote", "`": "a backquote"}
# What ends the list of tables after FROM.
_AFTER_TABLES = (
    *("where", "group", "having", "order", "sort", "cluster", "distribute", "limit", "offset", "window", "qualify"),
    *("union", "except", "minus", "intersect", "lateral", "select"),
)
# Functions that have a FROM of their own.
_WITH_FROM = ("extract", "trim", "substring", "substr", "overlay", "position")


@record
class Token:
    """A piece of SQL: ``value`` is the name of a quoted name without its quotes, and a word as it is written."""

    kind: Literal["text", "quoted", "number", "word", "sign"]
    value: str

    @property
    def is_name(self) -> bool:
        """Whether it can name something."""
        return self.kind in {"word", "quoted"}

    def is_word(self, *words: str) -> bool:
        """Whether it is one of these words, in any letter case."""
        return self.kind == "word" and self.value.lower() in words


def tokens_of(sql: str) -> tuple[Token, ...]:
    """Return the pieces of a text, without spaces and comments."""
    return tuple(_tokens(sql))


def _tokens(sql: str) -> Iterator[Token]:
    for match in _TOKEN.finditer(sql):
        kind, value = match.lastgroup, match.group()
        if kind == "quoted":
            yield Token(kind="quoted", value=value[1:-1].replace("``", "`"))
        elif kind != "space":
            yield Token(kind=kind, value=value)  # type: ignore[arg-type]  # one of the groups above


def flaw_of(sql: str) -> str | None:
    """Return why a text can be neither an expression nor a statement; None if only Spark can tell.

    >>> flaw_of("lower(email"), flaw_of("op = 'D'")
    ("'(' is never closed", None)
    """
    tokens = tokens_of(sql)
    if not tokens:
        return "it is empty"
    open_signs: list[str] = []
    for token in tokens:
        if token.kind != "sign":
            continue
        if token.value in _QUOTES:
            return f"{_QUOTES[token.value]} is never closed"
        if token.value in _OPENED.values():
            open_signs.append(token.value)
        elif token.value in _OPENED and (not open_signs or open_signs.pop() != _OPENED[token.value]):
            return f"'{token.value}' closes nothing"
        elif token.value == ";":
            return "unexpected ';'"
    return f"'{open_signs[-1]}' is never closed" if open_signs else None


def names_in(sql: str) -> frozenset[str]:
    """Return every name in a text, those of columns among them, in lower case as Spark compares them."""
    return frozenset(token.value.lower() for token in tokens_of(sql) if token.is_name)


def tables_in(sql: str) -> tuple[str, ...]:
    """Return the tables that a statement reads, each once; not those with a dot in their name, and not its own CTEs.

    >>> tables_in("WITH a AS (SELECT * FROM people) SELECT * FROM a JOIN teams t ON a.team = t.code, main.other")
    ('people', 'teams')
    """
    tokens = tokens_of(sql)
    own = {name.lower() for name in _cte_names(tokens)}
    found = dict.fromkeys(name for name in _tables(tokens) if name.lower() not in own)
    return tuple(found)


def _cte_names(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield names that stand before ``AS (``, or before a list of columns and that; only statements with WITH do so."""
    if not any(token.is_word("with") for token in tokens):
        return
    for at, token in enumerate(tokens[:-2]):
        rest = tokens[at + 1 :]
        if not token.is_name or token.is_word("with", "recursive"):
            continue
        if rest[0].value == "(":
            end = _closing(rest, 0)
            rest = rest[end + 1 :] if end is not None else ()
        if len(rest) > 1 and rest[0].is_word("as") and rest[1].value == "(":
            yield token.value


def _closing(tokens: Sequence[Token], start: int) -> int | None:
    """Return where the bracket that opens at ``start`` is closed."""
    depth = 0
    for at in range(start, len(tokens)):
        if tokens[at].kind == "sign" and tokens[at].value in "([{":
            depth += 1
        elif tokens[at].kind == "sign" and tokens[at].value in ")]}":
            depth -= 1
            if depth == 0:
                return at
    return None


def _tables(tokens: Sequence[Token]) -> Iterator[str]:
    clauses = _FromClauses()
    for at, token in enumerate(tokens):
        before = tokens[at - 1] if at else None
        following = tokens[at + 1] if at + 1 < len(tokens) else None
        if clauses.take(token, before):
            # A dot makes it a table of somebody else, a bracket a function.
            is_other = following is not None and following.kind == "sign" and following.value in {".", "("}
            if not is_other:
                yield token.value


class _FromClauses:
    """Where in a statement a table may stand: after FROM and JOIN, and after the commas that go on with them."""

    def __init__(self) -> None:
        self._expects = False
        self._lists = False
        # What was the case before each open bracket, and whether it belongs to a function with a FROM of its own.
        self._outer: list[tuple[bool, bool]] = []

    def take(self, token: Token, before: Token | None) -> bool:
        """Take the next piece, and return whether it is in the place of a table."""
        if token.kind == "sign":
            self._take_sign(token.value, before)
        elif token.is_word("from", "join"):
            is_other = self._is_in_function or (before is not None and before.is_word("distinct"))
            if token.is_word("join") or not is_other:
                self._expects = self._lists = True
        elif self._expects and token.is_name:
            self._expects = token.is_word("only", "table")
            if token.is_word("select"):
                self._lists = False
            return not token.is_word("only", "table", "lateral", "values", "select")
        elif token.is_word(*_AFTER_TABLES):
            self._lists = False
        return False

    @property
    def _is_in_function(self) -> bool:
        return bool(self._outer) and self._outer[-1][1]

    def _take_sign(self, sign: str, before: Token | None) -> None:
        if sign == "(":
            self._outer.append((self._lists, before is not None and before.is_word(*_WITH_FROM)))
            # What stands in brackets after FROM may be a list of tables, too.
            self._lists = self._expects
        elif sign == ")":
            self._lists, self._expects = self._outer.pop()[0] if self._outer else False, False
        elif sign == ",":
            self._expects = self._lists


@record
class EndExpression:
    """The end of an edge: an expression for its id, or expressions for the key of the node type that is named."""

    type_name: str | None
    expressions: tuple[str, ...]


_CALL = re.compile(r"\s*(?P<name>[^\W\d]\w*)\s*\((?P<inner>.*)\)\s*", re.DOTALL)


def end_of(text: str, node_types: Iterable[str]) -> EndExpression:
    """Return what an end of an edge says; ``Type(expression)`` names a type only if there is such a node type.

    Raises:
        UsageError: its brackets or quotes do not close.

    >>> end_of("Person(lower(email))", ["Person"])
    EndExpression(type_name='Person', expressions=('lower(email)',))
    """
    flaw = flaw_of(text)
    if flaw is not None:
        raise UsageError(flaw, details=BadValue(what="expression", value=text, expected="an expression of SQL"))
    named = called_name(text)
    match = _CALL.fullmatch(text)
    if match is None or named is None or named not in set(node_types):
        return EndExpression(type_name=None, expressions=(text.strip(),))
    return EndExpression(type_name=named, expressions=_split(match["inner"]))


def called_name(text: str) -> str | None:
    """Return the name before the bracket that encloses all the rest; None if there is none.

    >>> called_name("Person(lower(email))"), called_name("lower(a) || lower(b)")
    ('Person', None)
    """
    tokens = tokens_of(text)
    if len(tokens) < 3 or tokens[0].kind != "word" or tokens[1].value != "(":
        return None
    return tokens[0].value if _closing(tokens, 1) == len(tokens) - 1 else None


def _split(inner: str) -> tuple[str, ...]:
    """Return the expressions between the commas that stand in no bracket and in no quotes."""
    parts, depth, start = [], 0, 0
    for match in _TOKEN.finditer(inner):
        if match.lastgroup != "sign":
            continue
        sign = match.group()
        depth += (sign in _OPENED.values()) - (sign in _OPENED)
        if sign == "," and depth == 0:
            parts.append(inner[start : match.start()])
            start = match.end()
    return tuple(part.strip() for part in (*parts, inner[start:]))
