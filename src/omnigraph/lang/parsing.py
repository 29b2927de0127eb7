"""What both parsers share: running a grammar and turning its complaints into our diagnostics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field
from functools import cached_property
from typing import Any

from omnigraph.errors import Diagnostic, DiagnosticError, LimitExceeded, SourceTooLargeError
from omnigraph.lang.lalr import END, Lexer, Parser, Scan, Tables, Token, TooDeep, UnexpectedToken, UnreadableText
from omnigraph.lang.source import MAX_NESTING, Comment, SourceText, Span
from omnigraph.lang.tables import open_tables
from omnigraph.records import record
from omnigraph.values.patterns import late_pattern

# Strings come first so that a comment mark inside one is not taken for a comment. What is left open runs to the
# end of the text: searching on behind each opening mark would take quadratic time. Repetitions that never give back
# what they took remember nothing on the way, which is quicker by an order of magnitude; the grammars do the same.
# Queries know both quotes; in a schema an apostrophe stands in strings and comments only.
_STRING_BODY = r'[^"\\]*+(?:\\[\s\S][^"\\]*+)*+'
_OTHER_BODY = _STRING_BODY.replace('"', "'")
_STRING = rf"""(?:"{_STRING_BODY}(?:"|\\?\Z)|'{_OTHER_BODY}(?:'|\\?\Z))"""
_COMMENT = r"//[^\n]*|/\*[\s\S]*?(?:\*/|\Z)"
_STRING_OR_COMMENT = late_pattern(rf"{_STRING}|(?P<comment>{_COMMENT})")
_STRING_OR_BRACKET = late_pattern(rf"{_STRING}|{_COMMENT}|(?P<bracket>[\[\]{{}}()])")
_STRING_OPEN = late_pattern(rf"""(?:"{_STRING_BODY}|'{_OTHER_BODY})\\?\Z""")
_WORD = late_pattern(r"[A-Za-z0-9_$@-]+")
# The words in the pattern of a keyword, which ends with a look ahead.
_GAP = r"\s+"
_LOWER_WORD = late_pattern(r"\b[a-z_0-9]{2,}\b")
_WORD_ENDING = "(?![A-Za-z0-9_]|"
_KEYWORD = late_pattern(r"[a-z_0-9]+(?:\\s\+[a-z]+)*(?=\(\?!)")
_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}


class SyntaxFinding(Exception):  # noqa: N818 - a signal inside this room, never seen outside it
    """A finding of a tree builder about its own tokens, before the source is at hand to place it.

    ``error`` is the class to report it by, if it is not the syntax error of the grammar.
    """

    def __init__(
        self,
        message: str,
        span: Span,
        *,
        expected: tuple[str, ...] = (),
        suggestion: str | None = None,
        rule: str | None = None,
        error: type[DiagnosticError] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.expected = expected
        self.suggestion = suggestion
        self.rule = rule
        self.error = error


@record(kw_only=False)
class TokenGroup:
    """Tokens that share one word in an error where at least ``least`` of them may stand.

    ``is_guessed`` says whether a misspelling of one of them deserves a suggestion.
    """

    word: str
    members: frozenset[str]
    least: int
    is_guessed: bool


@record(kw_only=False, slots=False)
class Grammar:
    """A package's grammar with the builder of its tree, the error it reports and the words people know its tokens by.

    ``token_choices`` lists the words a token can be, for those whose misspelling deserves a suggestion;
    ``token_kinds`` names the wider token that a keyword is an instance of where both may stand, so that an error
    says "a name" instead of listing every keyword that could be one. ``hint`` knows what people write who think of
    another language: it is given the text, the offset and the text of what was found, and what was accepted there.
    """

    package: str
    builder: type[object]
    lexing: Callable[[Tables], Callable[[str], Lexer]]
    error: type[DiagnosticError]
    token_words: Mapping[str, str]
    token_choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    token_kinds: Mapping[str, str] = field(default_factory=dict)
    token_groups: Sequence[TokenGroup] = ()
    hint: Callable[[str, int, str, AbstractSet[str]], str | None] | None = None

    @cached_property
    def _parser(self) -> Parser:
        tables = open_tables(self.package)
        return Parser(tables, self.builder(), self.lexing(tables))

    def parse(self, source: SourceText) -> Any:
        """Return what the builder makes of ``source``.

        Raises:
            DiagnosticError: the class named in ``error``, with the place, what was expected and one suggestion.
            SourceTooLargeError: brackets are nested more deeply than ``MAX_NESTING``.
        """
        _refuse_deep_nesting(source)
        try:
            return self._parser.parse(source.text)
        except (UnexpectedToken, UnreadableText) as problem:
            raise self._explain(source, problem) from None
        except SyntaxFinding as finding:
            raise self._place(source, finding) from None
        except TooDeep as problem:
            raise _too_deep(source, token_span(problem.token), problem.limit, problem.limit + 1) from None

    def scan(self, text: str) -> Scan:
        """Return the tokens of the beginning of a text, and what can follow them."""
        return self._parser.scan(text)

    def words(self, terminal: str) -> tuple[str, ...]:
        """Return the words that a terminal stands for; none for names, numbers and marks."""
        known = self._parser.terminals.get(terminal)
        pattern = "" if known is None else known.pattern
        if _WORD_ENDING not in pattern:
            return ()
        words = pattern.partition(_WORD_ENDING)[0].removeprefix("(?:").removesuffix(")")
        return tuple(word.replace(_GAP, " ") for word in words.split("|"))

    def _place(self, source: SourceText, finding: SyntaxFinding) -> DiagnosticError:
        details = Diagnostic(
            rule=finding.rule,
            place=source.place(finding.span),
            expected=finding.expected,
            suggestion=finding.suggestion,
        )
        return (finding.error or self.error)(finding.message, details=details)

    def _explain(self, source: SourceText, problem: UnexpectedToken | UnreadableText) -> DiagnosticError:
        span, found = _found(source.text, problem)
        names = problem.accepted - {END}
        expected, guesses = self._expected(names)
        word = source.text[span.start : span.end]
        hint = self._foreign(source.text, span.start, word, names)
        details = Diagnostic(
            place=source.place(span),
            expected=expected,
            found=found,
            suggestion=hint or _suggest(found, expected, guesses),
        )
        what = f"; expected {_join(expected)}" if expected else ""
        return self.error(f"syntax error: unexpected {found}{what}", details=details)

    def _expected(self, names: AbstractSet[str]) -> tuple[tuple[str, ...], list[str]]:
        """Return the words for what may stand somewhere, and those that what was found may be a slip of."""
        left, words, guesses = set(names), set(), []
        for group in self.token_groups:
            members = names & group.members
            if len(members) >= group.least:
                left -= members
                words.add(group.word)
                guesses += [self._word(name).strip("'") for name in members if group.is_guessed]
        left = {name for name in left if self.token_kinds.get(name) not in names}
        words |= {self._word(name) for name in left}
        guesses += [choice for name in sorted(left) for choice in self.token_choices.get(name, ())]
        return tuple(sorted(words)), guesses

    def _foreign(self, text: str, start: int, word: str, names: AbstractSet[str]) -> str | None:
        hint = None if self.hint is None else self.hint(text, start, word, names)
        if hint is None and word.isupper() and any(word.lower() in self._keywords(name) for name in names):
            return f"did you mean '{word.lower()}'?"
        return hint

    def _keywords(self, terminal: str) -> list[str]:
        pattern = self._parser.terminals[terminal].pattern
        return _LOWER_WORD.findall(pattern.partition("(?!")[0])

    def _word(self, terminal: str) -> str:
        known = self.token_words.get(terminal)
        if known is not None:
            return known
        definition = self._parser.terminals[terminal]
        if definition.text is not None:
            return f"'{definition.text}'"
        keyword = _KEYWORD.match(definition.pattern)
        return f"'{keyword[0].replace(_GAP, ' ')}'" if keyword else terminal.lower()


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
    return Span(token.start_pos, token.end_pos)


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
            msg = f"unsupported escape sequence {_quote(body[slash : slash + 2])}"
            raise SyntaxFinding(msg, Span(start, start + 2), suggestion=f"use one of {known}")
        parts.append(_ESCAPES[escaped])
        at = slash + 2
    parts.append(body[at:])
    return "".join(parts)


def quote_string(value: str) -> str:
    r"""Write ``value`` as a string literal; the inverse of :func:`unquote`.

    >>> print(quote_string('say "hi"'))
    "say \"hi\""
    """
    for plain, written in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        value = value.replace(plain, written)
    return f'"{value}"'


def nearest_name(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the known name that ``name`` was probably meant to be, if any is close."""
    folded = {candidate.lower(): candidate for candidate in sorted(known)}
    import difflib  # noqa: PLC0415 - for mistakes

    close = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=cutoff)
    return folded[close[0]] if close else None


def _refuse_deep_nesting(source: SourceText) -> None:
    # Most texts have fewer brackets than may be nested, which is told quicker than how they stand.
    if sum(map(source.text.count, "[{(")) <= MAX_NESTING:
        return
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(source.text):
        bracket = match["bracket"]
        if bracket is None:
            continue
        depth = depth + 1 if bracket in "[{(" else max(0, depth - 1)
        if depth > MAX_NESTING:
            raise _too_deep(source, Span(*match.span()), MAX_NESTING, depth)


def _too_deep(source: SourceText, span: Span, limit: int, actual: int) -> SourceTooLargeError:
    place = source.place(span)
    details = LimitExceeded(resource="nesting", limit=limit, actual=actual, place=place)
    msg = f"source is nested more than {limit} levels deep: {source.name}:{place.line}:{place.column}"
    return SourceTooLargeError(msg, details=details)


def _found(text: str, problem: UnexpectedToken | UnreadableText) -> tuple[Span, str]:
    """Name what stands where the parser stopped."""
    if isinstance(problem, UnreadableText):
        return _unknown_text(text, problem.at)
    if problem.token.type != END:
        return token_span(problem.token), _quote(problem.token)
    end = len(text.rstrip())
    return Span(end, end + 1), "end of file"


def _unknown_text(text: str, start: int) -> tuple[Span, str]:
    """Name what the lexer could not read: an unfinished string or comment is more telling than its first mark."""
    if _STRING_OPEN.match(text, start):
        return Span(start, start + 1), "unterminated string"
    if text.startswith("/*", start) and text.find("*/", start + 2) < 0:
        return Span(start, start + 2), "unterminated comment"
    word = _WORD.match(text, start)
    end = word.end() if word else start + 1
    return Span(start, end), _quote(text[start:end])


def _quote(text: str) -> str:
    shown = text if len(text) <= 40 else text[:39] + "…"
    # A control character in a message could drive the reader's terminal.
    return "'" + "".join(char if char.isprintable() else ascii(char)[1:-1] for char in shown) + "'"


def _suggest(found: str, expected: tuple[str, ...], choices: list[str]) -> str | None:
    words = [word.strip("'") for word in expected if word.startswith("'") and word.strip("'").isalpha()]
    near = nearest_name(found.strip("'"), [*words, *choices], cutoff=0.7)
    if near is not None and f"'{near}'" != found:
        return f"did you mean '{near}'?"
    return f"write {expected[0]} here" if len(expected) == 1 and expected[0].startswith("'") else None


def _join(words: tuple[str, ...]) -> str:
    if len(words) == 1:
        return words[0]
    return f"{', '.join(words[:-1])} or {words[-1]}"
