"""``omnigraph lint``: checks a schema, of a file or of a graph, and query files against it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

import typer

from omnigraph.catalog import Catalog, compile_schema
from omnigraph.catalog.lint import SchemaFinding, lint_schema
from omnigraph.cli.files import read_input, refuse_second_stdin
from omnigraph.cli.graphs import graph_address, open_storage
from omnigraph.cli.lazy import example, new_app
from omnigraph.cli.options import AsJson, GraphOptions, expand_options
from omnigraph.cli.output import choose_output
from omnigraph.cli.usage import usage_error
from omnigraph.errors import Kind
from omnigraph.ir.lint import LintReport, QueryResult, SchemaSource, lint_queries
from omnigraph.lang.pg import parse_schema
from omnigraph.operations.reads import ReadStateRequest
from omnigraph.records import record
from omnigraph.values import MAIN

lint_app = new_app()


_LABELS = {"ok": "OK   ", "error": "ERROR", "warning": "WARN ", "info": "INFO "}


_MARGIN = " " * 6


_COUNTS = ("queries_processed", "errors", "warnings", "infos")


@record
class SchemaLintReport:
    """The findings about a schema that compiles."""

    schema_source: SchemaSource
    findings: tuple[SchemaFinding, ...]

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


@lint_app.command(epilog=example("omnigraph lint --schema crm.pg --query queries.gq"))
@expand_options
def lint(
    *,
    graph: GraphOptions,
    schema: Annotated[
        str | None, typer.Option("--schema", metavar="FILE", help="The schema file; - reads standard input.")
    ] = None,
    query: Annotated[
        list[str] | None,
        typer.Option("--query", metavar="FILE", help="A query file to check against the schema; may be repeated."),
    ] = None,
    branch: Annotated[
        str | None, typer.Option("--branch", metavar="NAME", help="The branch whose schema to use; main by default.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Check a schema on its own, or query files against it.

    The schema comes from --schema, or else from a branch of the graph. Exits with code 2 if there is an error; warnings
    and infos do not change the exit code.
    """
    query_paths = query or []
    refuse_second_stdin([*([] if schema is None else [schema]), *query_paths])
    found = _of_graph(graph, branch) if schema is None else _of_file(schema, graph, branch)
    tree = parse_schema(found.text, found.name)
    catalog = compile_schema(tree)
    report: SchemaLintReport | QueryLintReport
    if query_paths:
        report = QueryLintReport(reports=tuple(_lint_file(path, catalog, found.source) for path in query_paths))
    else:
        report = SchemaLintReport(schema_source=found.source, findings=lint_schema(tree, catalog))
    choose_output(as_json=as_json).show(report)
    return Kind.INVALID.exit_code if report.has_errors else 0


def _of_file(path: str, graph: GraphOptions, branch: str | None) -> _Schema:
    named = graph.given or branch
    if named is not None:
        raise usage_error(
            "--schema and a graph cannot be combined",
            value=named,
            expected="--schema or a graph",
            hint="leave out one of them",
        )
    read = read_input(path)
    return _Schema(text=read.data, name=read.name, source=SchemaSource(kind="file", location=read.name))


def _of_graph(graph: GraphOptions, branch: str | None) -> _Schema:
    address = graph_address(graph, is_direct=True)
    with open_storage(address, mode="read_only") as backend:
        text = backend.execute(ReadStateRequest(branch=branch or MAIN)).state.schema.source
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
