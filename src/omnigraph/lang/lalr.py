"""Runs an LALR(1) parser over tables that were made ahead, building the tree bottom up as it goes.

Lark works the tables out of a grammar (``tables.py``); nothing of it is loaded to use them. No tree of its own is made:
a builder's method is called for every rule, and nothing recurses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, Self

from omnigraph.records import record

END = "$END"
# Far above what brackets may nest; only rows of signs or of ``not`` get there.
_MAX_STACK = 10_000


class Token(str):
    """A piece of a source text, with the terminal it is an instance of."""

    __slots__ = ("end_pos", "start_pos", "type")
    type: str
    start_pos: int
    end_pos: int

    def __new__(cls, kind: str, text: str, start: int) -> Self:
        """Make the token of ``text`` that starts at the offset ``start``."""
        token = str.__new__(cls, text)
        token.type = kind
        token.start_pos = start
        token.end_pos = start + len(text)
        return token


@record(kw_only=False)
class Terminal:
    """A terminal of a grammar; ``text`` is what it matches if that is one fixed text, ``pattern`` its regex."""

    name: str
    pattern: str
    text: str | None
    priority: int


@record(kw_only=False)
class Rule:
    """A production: how many symbols it takes, and what becomes of their values.

    ``method`` is the builder's method for it, None for a rule that only gathers. ``kept`` names the children by
    position: one that gathered is spliced in (``~position``), and None stands for what was left out. ``is_inline``
    hands an only child on as it is.
    """

    origin: str
    size: int
    method: str | None
    kept: tuple[int | None, ...]
    is_inline: bool


@record(kw_only=False)
class Tables:
    """What a parser needs to know of its grammar.

    A state is a number below ``states``. ``shifts`` maps its terminals to the states they lead to, ``reductions`` its
    rules to the set of terminals (``terminal_sets``) before which they apply, ``gotos`` what was recognised to the next
    state.
    """

    grammar: str
    terminals: Sequence[Terminal]
    ignored: Sequence[str]
    rules: Sequence[Rule]
    terminal_sets: Sequence[Sequence[str]]
    shifts: Mapping[int, Mapping[str, int]]
    reductions: Mapping[int, Sequence[tuple[int, int]]]
    gotos: Mapping[int, Mapping[str, int]]
    states: int
    start: int
    end: int


# What the next token may be: the state it leads to, or, negative, the rule that comes first.
Row = Mapping[str, int]


class Lexer(Protocol):
    """Cuts one text into tokens."""

    def read(self, row: Row, accepts: Callable[[str], bool]) -> Token:
        """Return the next token, an instance of a terminal of ``row`` if it can be one; at the end ``END``.

        A row also has terminals that other ways to its state accept; ``accepts`` is exact, and slower.

        Raises:
            UnreadableText: what stands there is no token at all.
        """
        ...


class UnreadableText(Exception):  # noqa: N818 - a signal inside this room, never seen outside it
    """No token starts at ``at``; ``accepted`` are the terminals that could have stood there."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at
        self.accepted: frozenset[str] = frozenset()


class UnexpectedToken(Exception):  # noqa: N818 - see above
    """A token that may not stand where it stands; ``accepted`` are the terminals that could have."""

    def __init__(self, token: Token, accepted: frozenset[str]) -> None:
        super().__init__(token)
        self.token = token
        self.accepted = accepted


class TooDeep(Exception):  # noqa: N818 - see above
    """The text is nested too deeply at ``token``."""

    def __init__(self, token: Token, limit: int) -> None:
        super().__init__(token)
        self.token = token
        self.limit = limit


@record(kw_only=False)
class Scan:
    """A text that may end anywhere: its tokens, and the terminals that can follow; none behind an error."""

    tokens: tuple[Token, ...]
    accepted: frozenset[str]


class _Rows(dict[int, Row]):
    """The rows of the states that were visited: a short text visits few of them."""

    def __init__(self, tables: Tables) -> None:
        super().__init__()
        self._tables = tables

    def __missing__(self, state: int) -> Row:
        row: dict[str, int] = {}
        for rule, terminals in self._tables.reductions[state]:
            row.update(dict.fromkeys(self._tables.terminal_sets[terminals], ~rule))
        row.update(self._tables.shifts[state])
        self[state] = row
        return row


class Parser:
    """The parser of one grammar; ``builder`` has a method per rule, and per terminal that is more than its text."""

    def __init__(self, tables: Tables, builder: object, lexer: Callable[[str], Lexer]) -> None:
        self.terminals = {terminal.name: terminal for terminal in tables.terminals}
        self._lexer = lexer
        self._rows = _Rows(tables)
        self._gotos = tables.gotos
        self._start, self._end = tables.start, tables.end
        self._rules = [_reducer(rule, builder) for rule in tables.rules]
        self._leaves = {name: leaf for name in self.terminals if (leaf := getattr(builder, name, None)) is not None}

    def parse(self, text: str) -> Any:
        """Return what the builder makes of ``text``.

        Raises:
            UnexpectedToken: a token may not stand where it stands.
            UnreadableText: there is something that is no token.
            TooDeep: more was begun than a stack should hold.
        """
        rows, rules, gotos, leaves = self._rows, self._rules, self._gotos, self._leaves
        read = self._lexer(text).read
        states = [self._start]
        values: list[Any] = []
        accepts = partial(self._accepts, states)
        # What reductions took off the stack for this token: if it is refused, what was expected is told before them.
        taken: list[list[int]] = []
        while True:
            row = rows[states[-1]]
            try:
                token = read(row, accepts)
            except UnreadableText as problem:
                problem.accepted = self._accepted(states)
                raise
            kind = token.type
            while (action := row.get(kind)) is not None and action < 0:
                origin, size, build = rules[~action]
                if build is None:
                    # A level of precedence that is not used: its one child goes up as it is.
                    taken.append([states.pop()])
                    state = gotos[states[-1]][origin]
                    states.append(state)
                    row = rows[state]
                    continue
                if size:
                    children = values[-size:]
                    taken.append(states[-size:])
                    del values[-size:], states[-size:]
                else:
                    children = []
                    taken.append([])
                value = build(children)
                state = gotos[states[-1]][origin]
                if state == self._end and kind == END:
                    return value
                states.append(state)
                values.append(value)
                row = rows[state]
            if action is None:
                for part in reversed(taken):
                    states[-1:] = part
                raise UnexpectedToken(token, self._accepted(states))
            taken.clear()
            states.append(action)
            if len(states) > _MAX_STACK:
                raise TooDeep(token, _MAX_STACK)
            leaf = leaves.get(kind)
            values.append(token if leaf is None else leaf(token))

    def scan(self, text: str) -> Scan:
        """Cut the beginning of a text into tokens, as far as it is one, and tell what can follow; nothing is built."""
        read = self._lexer(text).read
        states = [self._start]
        accepts = partial(self._accepts, states)
        tokens: list[Token] = []
        while True:
            try:
                token = read(self._rows[states[-1]], accepts)
            except UnreadableText:
                return Scan(tuple(tokens), frozenset())
            if token.type == END:
                return Scan(tuple(tokens), self._accepted(states))
            if not accepts(token.type) or len(states) > _MAX_STACK:
                return Scan(tuple(tokens), frozenset())
            while (action := self._rows[states[-1]][token.type]) < 0:
                origin, size, _build = self._rules[~action]
                del states[len(states) - size :]
                states.append(self._gotos[states[-1]][origin])
            states.append(action)
            tokens.append(token)

    def _accepted(self, states: Sequence[int]) -> frozenset[str]:
        """Return the terminals that can really follow: a state's row also has those of its neighbours."""
        return frozenset(name for name in self._rows[states[-1]] if self._accepts(states, name))

    def _accepts(self, states: Sequence[int], terminal: str) -> bool:
        # What was recognised is put on top of a stack that is only looked at: it may be very deep.
        below = len(states)
        above: list[int] = []
        while True:
            state = above[-1] if above else states[below - 1]
            action = self._rows[state].get(terminal)
            if action is None or action >= 0:
                return action is not None
            origin, size, _build = self._rules[~action]
            taken = min(size, len(above))
            del above[len(above) - taken :]
            below -= size - taken
            following = self._gotos[above[-1] if above else states[below - 1]][origin]
            if following == self._end:
                return terminal == END
            above.append(following)


_Reducer = tuple[str, int, Callable[[list[Any]], Any] | None]


def _reducer(rule: Rule, builder: object) -> _Reducer:
    build: Callable[[list[Any]], Any] = _gather if rule.method is None else getattr(builder, rule.method, _gather)
    choose = None if rule.kept == tuple(range(rule.size)) else rule.kept
    if rule.is_inline and rule.kept == (0,) and rule.size == 1:
        return rule.origin, 1, None
    if rule.is_inline:
        return rule.origin, rule.size, _inline(choose, build)
    return rule.origin, rule.size, build if choose is None else _choosing(choose, build)


def _gather(children: list[Any]) -> list[Any]:
    return children


def _choosing(kept: Iterable[int | None], build: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    places = tuple(kept)
    return lambda children: build(_chosen(places, children))


def _inline(kept: tuple[int | None, ...] | None, build: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    def build_inline(children: list[Any]) -> Any:
        chosen = children if kept is None else _chosen(kept, children)
        return chosen[0] if len(chosen) == 1 else build(chosen)

    return build_inline


def _chosen(places: tuple[int | None, ...], children: list[Any]) -> list[Any]:
    chosen: list[Any] = []
    for place in places:
        if place is None:
            chosen.append(None)
        elif place >= 0:
            chosen.append(children[place])
        elif chosen:
            chosen += children[~place]
        else:
            # Going on with the list itself keeps a long one linear.
            chosen = children[~place]
    return chosen
