"""``omnigraph fmt``: rewrites schema and query files in canonical form."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from enum import StrEnum
from pathlib import PurePath
from typing import Annotated, Any, assert_never

import typer

from omnigraph.cli.files import STDIN, read_input, refuse_second_stdin, replace_file
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import AsJson
from omnigraph.cli.output import choose_output, error_lines
from omnigraph.cli.usage import usage_error
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.lang.gq import parse_queries
from omnigraph.lang.gq.format import format_queries
from omnigraph.lang.pg import format_schema, parse_schema
from omnigraph.records import record

fmt_app = new_app()


class Language(StrEnum):
    """The two languages, by the suffix of their files."""

    PG = "pg"
    GQ = "gq"


@record
class FileOutcome:
    """What became of one file; ``after`` is None if it could not be formatted, and then ``error`` says why."""

    path: str
    before: str = ""
    after: str | None = None
    error: OmnigraphError | None = None

    @property
    def is_changed(self) -> bool:
        """Whether the canonical form differs from what was there."""
        return self.after is not None and self.after != self.before

    @property
    def diff(self) -> list[str]:
        """The lines of a unified diff to the canonical form; none if there is nothing to change."""
        if self.after is None or not self.is_changed:
            return []
        before, after = _lines(self.before), _lines(self.after)
        lines = list(difflib.unified_diff(before, after, self.path, f"{self.path} (formatted)", lineterm=""))
        # Texts that differ only in the line break at the end have equal lines.
        return lines or [f"--- {self.path}", f"+++ {self.path} (formatted)", "@@ end of file @@"]


@record
class FormatReport:
    """What became of all files."""

    outcomes: tuple[FileOutcome, ...]
    is_check: bool
    shows_diff: bool

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {"check": self.is_check, "files": [self._file_json(outcome) for outcome in self.outcomes]}

    def to_lines(self) -> Iterable[str]:
        """The diff if asked for, the text if it came from standard input, and else a line per file."""
        for outcome in self.outcomes:
            if outcome.after is None:
                continue
            if self.shows_diff:
                yield from outcome.diff
            elif outcome.path == STDIN and not self.is_check:
                yield from _lines(outcome.after)
            else:
                yield f"{self._status(outcome)} {outcome.path}"

    def to_remarks(self) -> Iterable[str]:
        """The errors of the files that could not be formatted."""
        for outcome in self.outcomes:
            if outcome.error is not None:
                yield from error_lines(outcome.error)

    @property
    def exit_code(self) -> int:
        """The code of the first error; a check that found something to change is one."""
        for outcome in self.outcomes:
            if outcome.error is not None:
                return outcome.error.kind.exit_code
        is_refused = self.is_check and any(outcome.is_changed for outcome in self.outcomes)
        return Kind.INVALID.exit_code if is_refused else 0

    def _status(self, outcome: FileOutcome) -> str:
        if outcome.error is not None:
            return "failed"
        if not outcome.is_changed:
            return "unchanged"
        return "would format" if self.is_check else "formatted"

    def _file_json(self, outcome: FileOutcome) -> dict[str, Any]:
        found: dict[str, Any] = {"path": outcome.path, "status": self._status(outcome).replace(" ", "_")}
        if outcome.error is not None:
            return {**found, "error": outcome.error.to_json()}
        if self.shows_diff:
            found["diff"] = outcome.diff
        elif outcome.path == STDIN:
            found["text"] = outcome.after
        return found


@fmt_app.command()
def fmt(
    paths: Annotated[
        list[str], typer.Argument(metavar="FILE", help="Files ending in .pg or .gq; - formats standard input.")
    ],
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit with code 2 if a file would change.")
    ] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Change nothing; print the differences.")] = False,
    language: Annotated[
        Language | None,
        typer.Option("--language", help="The language of standard input and of files with other suffixes."),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Rewrite schema and query files in canonical form; comments are kept.

    A file that does not parse is reported and left unchanged; the others are still formatted. The exit code is that
    of the first error.
    """
    refuse_second_stdin(paths)
    outcomes = tuple(_format_file(path, language, writes=not (check or diff)) for path in paths)
    report = FormatReport(outcomes=outcomes, is_check=check, shows_diff=diff)
    choose_output(as_json=as_json).show(report)
    return report.exit_code


def _format_file(path: str, language: Language | None, *, writes: bool) -> FileOutcome:
    try:
        chosen = _language_of(path, language)
        read = read_input(path)
        after = _canonical(read.data, read.name, chosen)
        # It parsed, so it is UTF-8; the very bytes are compared, line endings included.
        outcome = FileOutcome(path=path, before=read.data.decode(), after=after)
        if writes and outcome.is_changed and path != STDIN:
            replace_file(path, after)
    except OmnigraphError as error:
        return FileOutcome(path=path, error=error)
    return outcome


def _language_of(path: str, language: Language | None) -> Language:
    suffix = PurePath(path).suffix
    for known in Language:
        if suffix == f".{known.value}":
            return known
    if language is not None:
        return language
    what = "its content" if path == STDIN else "its suffix"
    raise usage_error(
        f"cannot determine the language of '{path}' from {what}",
        what="path",
        value=path,
        expected="a file ending in .pg or .gq",
        hint="use --language pg or --language gq",
    )


def _canonical(data: bytes, name: str, language: Language) -> str:
    match language:
        case Language.PG:
            return format_schema(parse_schema(data, name))
        case Language.GQ:
            return format_queries(parse_queries(data, name))
        case _:
            assert_never(language)


def _lines(text: str) -> list[str]:
    # Only a line feed ends a line of ours; str.splitlines knows ten more characters that a string may hold.
    return text.removesuffix("\n").split("\n") if text else []
