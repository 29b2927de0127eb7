"""A lexer for any grammar: in each state it looks for the terminals of that state and for no others."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from omnigraph.lang.lalr import END, Lexer, Row, Tables, Terminal, Token, UnreadableText


class ContextualLexing:
    """Makes the lexers of one grammar; they share what was compiled for it."""

    def __init__(self, tables: Tables) -> None:
        self._terminals = tables.terminals
        self._ignored = frozenset(tables.ignored)
        self._scanners: dict[frozenset[str], _Scanner] = {}
        self._everything = frozenset(terminal.name for terminal in tables.terminals)

    def __call__(self, text: str) -> Lexer:
        """Return a lexer at the start of ``text``."""
        return _ContextualLexer(self, text)

    def scan(self, text: str, at: int, accepted: frozenset[str]) -> tuple[str, str] | None:
        """Return the terminal that starts at ``at``, and its text."""
        scanner = self._scanners.get(accepted)
        if scanner is None:
            wanted = accepted | self._ignored
            scanner = _Scanner([terminal for terminal in self._terminals if terminal.name in wanted])
            self._scanners[accepted] = scanner
        return scanner.match(text, at)

    def scan_any(self, text: str, at: int) -> tuple[str, str] | None:
        """Return the terminal of any state that starts at ``at``."""
        return self.scan(text, at, self._everything)

    def is_ignored(self, terminal: str) -> bool:
        """Whether a terminal only separates others."""
        return terminal in self._ignored


class _ContextualLexer:
    __slots__ = ("_at", "_lexing", "_text")

    def __init__(self, lexing: ContextualLexing, text: str) -> None:
        self._lexing = lexing
        self._text = text
        self._at = 0

    def read(self, row: Row, _accepts: Callable[[str], bool]) -> Token:
        accepted = frozenset(row)
        while self._at < len(self._text):
            found = self._lexing.scan(self._text, self._at, accepted) or self._lexing.scan_any(self._text, self._at)
            if found is None:
                raise UnreadableText(self._at)
            start, (terminal, text) = self._at, found
            self._at += len(text)
            if not self._lexing.is_ignored(terminal):
                return Token(terminal, text, start)
        return Token(END, "", self._at)


class _Scanner:
    """Finds one of several terminals, given in the order to try them."""

    def __init__(self, terminals: Sequence[Terminal]) -> None:
        # A keyword that is an instance of a wider terminal is one only if it is the whole of it.
        self._words: dict[tuple[str, str], str] = {}
        contained: set[str] = set()
        for wider in terminals:
            for terminal in terminals:
                if wider.text is not None or terminal.text is None or terminal.priority != wider.priority:
                    continue
                if re.fullmatch(wider.pattern, terminal.text):
                    self._words[wider.name, terminal.text] = terminal.name
                    contained.add(terminal.name)
        tried = (terminal for terminal in terminals if terminal.name not in contained)
        self._regex = re.compile("|".join(f"(?P<{terminal.name}>{terminal.pattern})" for terminal in tried))

    def match(self, text: str, at: int) -> tuple[str, str] | None:
        found = self._regex.match(text, at)
        if found is None or found.lastgroup is None:
            return None
        matched = found[0]
        return self._words.get((found.lastgroup, matched), found.lastgroup), matched
