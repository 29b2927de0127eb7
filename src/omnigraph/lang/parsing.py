"""What both parsers share: running a Lark grammar and turning its complaints into our diagnostics."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import Any

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken, VisitError

from omnigraph.errors import Diagnostic, DiagnosticError, LimitExceeded, SourceTooLargeError
from omnigraph.lang.source import MAX_NESTING, Comment, Source, Span

# Strings come first so that a comment mark inside one is not taken for a comment.
_STRING_OR_COMMENT = re.compile(r'"(?:[^"\\]|\\[\s\S])*"|(?P<comment>//[^\n]*|/\*[\s\S]*?\*/)')
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\[\s\S])*"|//[^\n]*|/\*[\s\S]*?\*/|(?P<bracket>[\[\]{}()])')
_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}


class SyntaxFinding(Exception):  # noqa: N818 - a signal inside this room, never seen outside it
    """A finding of a tree builder about its own tokens, before the source is at hand to place it."""

    def __init__(self, message: str, span: Span, *, suggestion: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.suggestion = suggestion


@dataclass(frozen=True)
class Grammar:
    """A grammar file with the builder of its tree, the error it reports and the words people know its tokens by."""

    package: str
    file_name: str
    builder: type[Transformer[Token, Any]]
    error: type[DiagnosticError]
    token_words: Mapping[str, str]

    @cached_property
    def _lark(self) -> Lark:
        text = resources.files(self.package).joinpath(self.file_name).read_text(encoding="utf-8")
        # The builder runs inside the parser, bottom up: no whole Lark tree is made, and nothing recurses.
        return Lark(text, parser="lalr", lexer="contextual", propagate_positions=True, transformer=self.builder())

    def parse(self, source: Source) -> Any:
        """Return what the builder makes of ``source``.

        Raises:
            DiagnosticError: the class named in ``error``, with the place, what was expected and one suggestion.
            SourceTooLargeError: brackets are nested more deeply than ``MAX_NESTING``.
        """
        _refuse_deep_nesting(source)
        try:
            return self._lark.parse(source.text)
        except UnexpectedInput as problem:
            raise self._explain(source, problem) from None
        except SyntaxFinding as finding:
            raise self._place(source, finding) from None
        except VisitError as problem:
            if isinstance(problem.orig_exc, SyntaxFinding):
                raise self._place(source, problem.orig_exc) from None
            raise

    def _place(self, source: Source, finding: SyntaxFinding) -> DiagnosticError:
        details = Diagnostic(place=source.place(finding.span), suggestion=finding.suggestion)
        return self.error(finding.message, details=details)

    def _explain(self, source: Source, problem: UnexpectedInput) -> DiagnosticError:
        if isinstance(problem, UnexpectedToken):
            token = problem.token
            at_end = token.type == "$END"
            start = len(source.text.rstrip()) if at_end else token.start_pos or 0
            span = Span(start, start + 1 if at_end else start + len(token))
            found = "end of file" if at_end else _quote(str(token))
            accepted: Iterable[str] = problem.accepts or problem.expected
        elif isinstance(problem, UnexpectedCharacters):
            start = problem.pos_in_stream or 0
            span, found = _unknown_text(source.text, start)
            accepted = problem.allowed or ()
        else:
            span, found, accepted = Span(len(source.text), len(source.text) + 1), "end of file", ()
        expected = tuple(sorted({self._word(name) for name in accepted if name != "$END"}))
        details = Diagnostic(
            place=source.place(span),
            expected=expected,
            found=found,
            suggestion=_suggest(found, expected),
        )
        what = f"; expected {_join(expected)}" if expected else ""
        return self.error(f"syntax error: unexpected {found}{what}", details=details)

    def _word(self, terminal: str) -> str:
        known = self.token_words.get(terminal)
        if known is not None:
            return known
        definition = self._lark.get_terminal(terminal)
        return f"'{definition.pattern.value}'" if definition.pattern.type == "str" else terminal.lower()


def scan_comments(text: str) -> tuple[Comment, ...]:
    """Return every comment of a text that parsed, in order.

    >>> [comment.text for comment in scan_comments('a "// no" // yes')]
    ['// yes']
    """
    return tuple(
        Comment(text=match["comment"].rstrip(), span=Span(*match.span("comment")))
        for match in _STRING_OR_COMMENT.finditer(text)
        if match["comment"]
    )


def token_span(token: Token) -> Span:
    """Return where a token stands."""
    start = token.start_pos or 0
    return Span(start, start + len(token))


def unquote(token: Token) -> str:
    """Return the value of a string token, escapes resolved; both languages know the same five."""
    body = str(token)[1:-1]
    if "\\" not in body:
        return body
    parts: list[str] = []
    at = 0
    while (slash := body.find("\\", at)) >= 0:
        parts.append(body[at:slash])
        escaped = body[slash + 1]
        if escaped not in _ESCAPES:
            start = token_span(token).start + 1 + slash
            known = '\\" \\\\ \\n \\r \\t'
            msg = f"unsupported escape sequence '\\{escaped}'"
            raise SyntaxFinding(msg, Span(start, start + 2), suggestion=f"use one of {known}")
        parts.append(_ESCAPES[escaped])
        at = slash + 2
    parts.append(body[at:])
    return "".join(parts)


def quote_string(value: str) -> str:
    """Write ``value`` as a string literal; the inverse of :func:`unquote`.

    >>> print(quote_string('say "hi"'))
    "say \\"hi\\""
    """
    for plain, written in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        value = value.replace(plain, written)
    return f'"{value}"'


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that ``name`` was probably meant to be, if any is close."""
    folded = {candidate.lower(): candidate for candidate in sorted(known)}
    close = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.6)
    return folded[close[0]] if close else None


def _refuse_deep_nesting(source: Source) -> None:
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(source.text):
        bracket = match["bracket"]
        if bracket is None:
            continue
        depth += 1 if bracket in "[{(" else -1
        if depth > MAX_NESTING:
            place = source.place(Span(*match.span()))
            details = LimitExceeded(resource="nesting", limit=MAX_NESTING, actual=depth, place=place)
            msg = f"source is nested too deeply: {source.name}:{place.line}:{place.column} limit={MAX_NESTING}"
            raise SourceTooLargeError(msg, details=details)


def _unknown_text(text: str, start: int) -> tuple[Span, str]:
    """Name what the lexer could not read: an unfinished string or comment is more telling than its first mark."""
    if text[start] == '"':
        return Span(start, start + 1), "unterminated string"
    if text.startswith("/*", start):
        return Span(start, start + 2), "unterminated comment"
    word = re.compile(r"[A-Za-z0-9_$@-]+|.", re.DOTALL).match(text, start)
    end = word.end() if word else start + 1
    return Span(start, end), _quote(text[start:end])


def _quote(text: str) -> str:
    shown = text if len(text) <= 40 else text[:39] + "…"
    return f"'{shown}'".replace("\n", "\\n")


def _suggest(found: str, expected: tuple[str, ...]) -> str | None:
    words = [word.strip("'") for word in expected if word.startswith("'") and word.strip("'").isalpha()]
    near = nearest_name(found.strip("'"), words)
    if near is not None and f"'{near}'" != found:
        return f"did you mean '{near}'?"
    return f"write {expected[0]} here" if len(expected) == 1 else None


def _join(words: tuple[str, ...]) -> str:
    if len(words) == 1:
        return words[0]
    return f"{', '.join(words[:-1])} or {words[-1]}"
