"""``omnigraph fmt``: rewrites schema and query files in canonical form."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from pathlib import PurePath
from typing import Annotated, Any, assert_never

import typer

from omnigraph.catalog import Catalog, compile_schema
from omnigraph.catalog.lint import Finding, lint_schema
from omnigraph.cli.files import STDIN, read_input, refuse_second_stdin, replace_file
from omnigraph.cli.graphs import AsJson, Store, Uri, graph_address, open_graph
from omnigraph.cli.lazy import new_app
from omnigraph.cli.output import choose_output, error_lines
from omnigraph.errors import BadValue, Kind, OmnigraphError, UsageError
from omnigraph.ir import LintReport, SchemaSource, lint_queries
from omnigraph.ir.lint import QueryResult
from omnigraph.lang.gq import format_queries, parse_queries
from omnigraph.lang.pg import format_schema, parse_schema
from omnigraph.records import record
from omnigraph.values import MAIN

fmt_app = new_app()


class Language(Enum):
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
    paths: Annotated[list[str], typer.Argument(metavar="FILE...", help="Files ending in .pg or .gq; - is a filter.")],
    *,
    check: Annotated[bool, typer.Option("--check", help="Change nothing; exit with 2 if something would.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Change nothing; print what would.")] = False,
    language: Annotated[
        Language | None, typer.Option("--language", help="The language of - and of files with another suffix.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Rewrite schema and query files in canonical form; comments stay.

    A file that does not parse is reported and left alone, and the others are still formatted. The exit code is that
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
    what = "standard input" if path == STDIN else "the suffix"
    raise UsageError(
        f"cannot tell the language from {what}: path={path}",
        details=BadValue(what="path", value=path, expected="a file ending in .pg or .gq"),
        hint="say --language pg or --language gq",
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


lint_app = new_app()

_LABELS = {"ok": "OK   ", "error": "ERROR", "warning": "WARN ", "info": "INFO "}
_MARGIN = " " * 6
_COUNTS = ("queries_processed", "errors", "warnings", "infos")


@record
class SchemaLintReport:
    """The findings about a schema that compiles."""

    schema_source: SchemaSource
    findings: tuple[Finding, ...]

    @property
    def has_errors(self) -> bool:
        """Whether the command fails."""
        return self._count("error") > 0

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values, with the members of a query report that apply."""
        return {
            "status": "error" if self.has_errors else "ok",
            "schema_source": self.schema_source.to_json(),
            "errors": self._count("error"),
            "warnings": self._count("warning"),
            "infos": self._count("info"),
            "findings": [finding.to_json() for finding in self.findings],
        }

    def to_lines(self) -> Iterable[str]:
        """A line per finding, and the count."""
        for finding in self.findings:
            place = f"{finding.place.source}:{finding.place.line}:{finding.place.column}"
            yield from _entry(finding.severity.value, f"{finding.code} {place}: {finding.message}")
        if not self.findings:
            yield from _entry("ok", self.schema_source.location)
        yield _totals(self.to_json())

    def to_remarks(self) -> Iterable[str]:
        """Everything is part of the result."""
        return ()

    def _count(self, severity: str) -> int:
        return sum(finding.severity.value == severity for finding in self.findings)


@record
class QueryLintReport:
    """The reports about one or more query files against one schema."""

    reports: tuple[LintReport, ...]

    @property
    def has_errors(self) -> bool:
        """Whether the command fails."""
        return any(report.errors for report in self.reports)

    def to_json(self) -> dict[str, Any]:
        """The report of the one file; of several, their sum and a list of them."""
        if len(self.reports) == 1:
            return self.reports[0].to_json()
        parts = [report.to_json() for report in self.reports]
        sums = {name: sum(part[name] for part in parts) for name in _COUNTS}
        return {"status": "error" if self.has_errors else "ok", **sums, "reports": parts}

    def to_lines(self) -> Iterable[str]:
        """A line per query, warning and finding, and the count."""
        for report in self.reports:
            for result in report.results:
                yield from _result_lines(result)
            for finding in report.findings:
                about = finding.message if finding.problem is None else str(finding.problem)
                yield from _entry(finding.severity, f"{finding.code} {about}")
        sums = self.to_json()
        queries = sums["queries_processed"]
        yield f"{queries} {'query' if queries == 1 else 'queries'} processed, {_totals(sums)}"

    def to_remarks(self) -> Iterable[str]:
        """Everything is part of the result."""
        return ()


@record
class _Schema:
    """The text of a schema, what messages call it, and where it came from."""

    text: str | bytes
    name: str
    source: SchemaSource


@lint_app.command()
def lint(
    *,
    uri: Uri = None,
    schema: Annotated[
        str | None, typer.Option("--schema", metavar="FILE", help="The schema; - reads standard input.")
    ] = None,
    query: Annotated[
        list[str] | None,
        typer.Option("--query", metavar="FILE", help="A query file to check against the schema; may be repeated."),
    ] = None,
    store: Store = None,
    branch: Annotated[
        str | None, typer.Option("--branch", metavar="NAME", help="The branch of the graph whose schema counts.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Check a schema by itself, or query files against it.

    The schema is that of the file; without one, that of a branch of the graph. Exits with 2 if there is an error.
    Warnings and infos never fail.
    """
    query_paths = query or []
    refuse_second_stdin([*([] if schema is None else [schema]), *query_paths])
    found = _of_graph(uri, store, branch) if schema is None else _of_file(schema, uri, store, branch)
    tree = parse_schema(found.text, found.name)
    catalog = compile_schema(tree)
    report: SchemaLintReport | QueryLintReport
    if query_paths:
        report = QueryLintReport(reports=tuple(_lint_file(path, catalog, found.source) for path in query_paths))
    else:
        report = SchemaLintReport(schema_source=found.source, findings=lint_schema(tree, catalog))
    choose_output(as_json=as_json).show(report)
    return Kind.INVALID.exit_code if report.has_errors else 0


def _of_file(path: str, uri: str | None, store: str | None, branch: str | None) -> _Schema:
    graph = uri or store or branch
    if graph is not None:
        details = BadValue(what="arguments", value=graph, expected="--schema or a graph")
        raise UsageError("both a schema and a graph are given", details=details, hint="leave out one of them")
    read = read_input(path)
    return _Schema(text=read.data, name=read.name, source=SchemaSource(kind="file", location=read.name))


def _of_graph(uri: str | None, store: str | None, branch: str | None) -> _Schema:
    address = graph_address(uri, store)
    with open_graph(address, mode="read_only") as session:
        text = session.snapshot(branch or MAIN).state.schema.source
    return _Schema(text=text, name="<schema>", source=SchemaSource(kind="graph", location=address))


def _lint_file(path: str, catalog: Catalog, schema: SchemaSource) -> LintReport:
    read = read_input(path)
    return lint_queries(read.data, read.name, catalog, schema)


def _result_lines(result: QueryResult) -> Iterator[str]:
    if result.problem is None:
        yield from _entry("ok", f"{result.name} ({result.kind})")
    else:
        yield from _entry("error", f"{result.name} ({result.kind}): {result.problem}")
    for warning in result.warnings:
        yield from _entry("warning", f"{result.name} ({result.kind}): {warning}")


def _entry(severity: str, text: str) -> Iterator[str]:
    # The first line of an entry starts with its label; what follows (source line, caret) is set in.
    first, *rest = text.split("\n")
    yield f"{_LABELS[severity]} {first}"
    yield from (f"{_MARGIN}{line}" for line in rest)


def _totals(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{counts[name]} {name[:-1] if counts[name] == 1 else name}" for name in _COUNTS[1:])
