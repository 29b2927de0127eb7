"""The text typed into the shell, as query sources.

A statement is the body of a query (``match … return …`` or statements that change rows), or whole declarations. A body
becomes a declaration that takes the parameters of the shell that it names; errors keep the places of what was typed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from omnigraph.errors import Diagnostic, DiagnosticError, Place, QueryNotFoundError, QuerySyntaxError
from omnigraph.lang.gq import parse_queries
from omnigraph.lang.gq.ast import QueryDecl
from omnigraph.lang.gq.parser import select_query
from omnigraph.lang.source import SourceText, Span
from omnigraph.records import record

NAME = "statement"
SOURCE = "<shell>"
_DECLARED = re.compile(r"\s*(?://[^\n]*\n\s*|/\*[\s\S]*?\*/\s*)*query\b(?!\s*:)")
_END = "\n}"


@record
class Statement:
    """A statement as it was typed, and as a source; ``prefix`` is what stands before the typed text in the source."""

    typed: str
    prefix: str = ""

    @classmethod
    def of(cls, typed: str, params: Mapping[str, Any] | None = None) -> Statement:
        """Return the statement that a text is; a body is given those of the parameters that it names."""
        typed = typed.strip().removesuffix(";").rstrip()
        return cls(typed=typed, prefix="" if _DECLARED.match(typed) else _head(typed, params or {}))

    @property
    def source(self) -> str:
        """The statement as a whole ``.gq`` source."""
        return f"{self.prefix}{self.typed}{_END}" if self.prefix else self.typed

    def declaration(self) -> QueryDecl:
        """Parse the statement.

        Raises:
            QuerySyntaxError: it is none; the place is that of the typed text.
            QueryNotFoundError: it declares several queries.
        """
        return select_query(parse_queries(self.source, SOURCE))

    def is_unfinished(self) -> bool:
        """Whether more has to be typed before this can be anything."""
        try:
            self.declaration()
        except QuerySyntaxError as problem:
            return self._is_behind(problem.details.place)
        except (DiagnosticError, QueryNotFoundError):
            return False
        return False

    def placed(self, problem: DiagnosticError) -> DiagnosticError:
        """Return an error about the source as one about what was typed."""
        place = problem.details.place
        if place is None or not self.prefix or place.source != SOURCE:
            return problem
        if self._is_behind(place):
            end = SourceText(SOURCE, self.typed).place(Span(len(self.typed), len(self.typed)))
            expected = " or ".join(problem.details.expected)
            message = f"the statement is not finished: expected {expected}" if expected else problem.message
            return type(problem)(message, details=Diagnostic(place=end, expected=problem.details.expected))
        before = len(self.prefix.encode())
        moved = replace(place, line=place.line - 1, start=place.start - before, end=place.end - before)
        return type(problem)(
            problem.message,
            details=replace(problem.details, place=moved),
            hint=problem.hint,
            retry=problem.retry,
            effect=problem.effect,
        )

    def _is_behind(self, place: Place | None) -> bool:
        """Whether a place is behind all that was typed."""
        return place is not None and place.start >= len(f"{self.prefix}{self.typed}".rstrip().encode())


def split_script(lines: Iterable[str]) -> Iterator[str]:
    r"""Yield the statements and commands of a script: a semicolon or an empty line ends a statement that can end.

    >>> list(split_script(["match { $p: P }", "return { $p };", ":branch x", "delete P where a = 1"]))
    ['match { $p: P }\nreturn { $p };', ':branch x', 'delete P where a = 1']
    """
    held: list[str] = []
    for line in (line.rstrip("\r\n") for line in lines):
        is_command = line.lstrip().startswith(":")
        if is_command or not line.strip():
            if held and not _is_open(held):
                yield "\n".join(held)
                held = []
            if is_command and not held:
                yield line.strip()
                continue
        if line.strip() or held:
            held.append(line)
        if line.rstrip().endswith(";") and not _is_open(held):
            yield "\n".join(held)
            held = []
    if any(line.strip() for line in held):
        yield "\n".join(held).rstrip()


def _is_open(lines: Iterable[str]) -> bool:
    return Statement.of("\n".join(lines)).is_unfinished()


def _head(typed: str, params: Mapping[str, Any]) -> str:
    """Return the declaration of a body, on a line of its own so that columns stay what they are."""
    named = set(re.findall(r"\$([A-Za-z_][A-Za-z0-9_]*)", typed))
    declared = [f"${name}: {type_of(value)}" for name, value in params.items() if name in named]
    return f"query {NAME}({', '.join(declared)}) {{\n"


def type_of(value: Any) -> str:
    """Return the type that a parameter of this JSON value is declared with.

    >>> type_of("x"), type_of(1), type_of([1.5]), type_of(None)
    ('String', 'I64', '[F64]', 'String?')
    """
    match value:
        case bool():
            return "Bool"
        case int():
            return "I64"
        case float():
            return "F64"
        case [first, *_]:
            return f"[{type_of(first)}]"
        case None:
            return "String?"
        case _:
            return "String"


def show_value(value: Any) -> str:
    """Return a parameter as it may be typed again."""
    return json.dumps(value, ensure_ascii=False)
