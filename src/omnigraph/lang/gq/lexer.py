"""Cuts a query text into tokens: one regex finds them, the state of the parser says what a word means.

No word is reserved. A word is a keyword where the parser accepts that keyword, under the conditions that its terminal
in ``grammar.lark`` states, and a name anywhere else. The table of words is derived from those terminals.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from omnigraph.lang.lalr import END, Lexer, Row, Tables, Terminal, Token, UnreadableText
from omnigraph.records import record
from omnigraph.values.patterns import late_pattern

_SHAPES = ("VARIABLE", "NAME", "TYPE_NAME", "STRING", "FLOAT", "INTEGER", "ANNOTATION")
# How the patterns of words end, and before which marks such a word is a name if a name may stand there.
_WORD_ENDS = {
    r"(?![A-Za-z0-9_]|\s*:)": ":",
    r"(?![A-Za-z0-9_]|\s*[:,{}|])": ":,{}|",
}
_LOOKING_AROUND = late_pattern(r"\(\?(?:<=|!).*?\]\)")
_NAME, _MARK = "NAME", "MARK"


@record(kw_only=False)
class _Choice:
    """A terminal that a word or a mark may be.

    ``others`` are the words that must follow. Before one of ``not_before`` it is a name instead, if a name may stand
    there. A mark may have a ``pattern`` that looks around it.
    """

    terminal: str
    others: tuple[str, ...] = ()
    not_before: str = ""
    pattern: re.Pattern[str] | None = None


class QueryLexing:
    """Makes the lexers of the query language; they share what was compiled for it."""

    def __init__(self, tables: Tables) -> None:
        patterns = {terminal.name: terminal.pattern for terminal in tables.terminals}
        ignored = "|".join(patterns[name] for name in tables.ignored)
        shapes = "|".join(f"(?P<{name}>{patterns[name]})" for name in _SHAPES)
        self.skip = re.compile(f"(?:{ignored})*+").match
        self.scan = re.compile(rf"(?:{ignored})*+(?:{shapes}|(?P<{_MARK}>>=|<=|!=|[\s\S])|\Z)").match
        self.choices: dict[str, tuple[_Choice, ...]] = {}
        for terminal in tables.terminals:
            if terminal.name not in _SHAPES and terminal.name not in tables.ignored:
                for text, choice in _choices(terminal):
                    self.choices[text] = (*self.choices.get(text, ()), choice)

    def __call__(self, text: str) -> Lexer:
        """Return a lexer at the start of ``text``."""
        return _QueryLexer(self, text)


class _QueryLexer:
    __slots__ = ("_at", "_choices", "_scan", "_skip", "_text")

    def __init__(self, lexing: QueryLexing, text: str) -> None:
        self._scan = lexing.scan
        self._skip = lexing.skip
        self._choices = lexing.choices
        self._text = text
        self._at = 0

    def read(self, row: Row, accepts: Callable[[str], bool]) -> Token:
        found = self._scan(self._text, self._at)
        kind = found.lastgroup if found is not None else None
        if found is None or kind is None:
            return Token(END, "", len(self._text))
        start, end = found.span(kind)
        text = found[kind]
        self._at = end
        if kind not in {_NAME, _MARK}:
            return Token(kind, text, start)
        choices = self._choices.get(text, ())
        is_certain = _NAME not in row
        for choice in choices:
            if choice.terminal not in row or not (is_certain or accepts(choice.terminal)):
                continue
            if self._is_choice(choice, start, end, accepts):
                return Token(choice.terminal, self._text[start : self._at], start)
        if kind == _NAME:
            return Token(kind, text, start)
        if not choices or self._text.startswith(("//", "/*"), start):
            raise UnreadableText(start)
        return Token(choices[-1].terminal, text, start)

    def _is_choice(self, choice: _Choice, start: int, end: int, accepts: Callable[[str], bool]) -> bool:
        if choice.pattern is not None:
            return choice.pattern.match(self._text, start) is not None
        for word in choice.others:
            found = self._scan(self._text, end)
            if found is None or found[_NAME] != word:
                return False
            end = found.end()
        marks = choice.not_before
        if marks and self._text.startswith(tuple(marks), self._next(end)) and accepts(_NAME):
            return False
        self._at = end
        return True

    def _next(self, at: int) -> int:
        found = self._skip(self._text, at)
        return at if found is None else found.end()


def _choices(terminal: Terminal) -> Iterator[tuple[str, _Choice]]:
    """Return the first word, or the mark, of what a terminal may be, with the conditions of its pattern."""
    name, pattern = terminal.name, terminal.pattern
    if terminal.text is not None:
        yield terminal.text, _Choice(name)
        return
    ending = next((ending for ending in _WORD_ENDS if pattern.endswith(ending)), "")
    words = pattern.removesuffix(ending).removeprefix("(?:").removesuffix(")")
    if ending or "(?" not in pattern:
        for alternative in words.split("|"):
            first, *others = alternative.split(r"\s+")
            yield first, _Choice(name, tuple(others), _WORD_ENDS.get(ending, ""))
    else:
        yield _LOOKING_AROUND.sub("", pattern).replace("\\", ""), _Choice(name, pattern=re.compile(pattern))
