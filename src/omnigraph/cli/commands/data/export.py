"""``omnigraph export``: all rows of a graph as files, or as lines on standard output."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Any

import typer

from omnigraph.cli.engines import (
    Choice,
    SparkOptions,
    SparkRequest,
    choose_plainly,
    open_spark,
)
from omnigraph.cli.graphs import graph_address, local_backend, open_graph
from omnigraph.cli.lazy import example, new_app
from omnigraph.cli.options import (
    AsJson,
    AtSnapshot,
    GraphOptions,
    ReadBranch,
    Types,
    expand_options,
    refuse_two_states,
)
from omnigraph.cli.output import LineBuffer, choose_output
from omnigraph.cli.usage import usage_error
from omnigraph.engine.export import ExportFormat, ExportProgress, ExportResult
from omnigraph.engine.export.options import Progress
from omnigraph.operations import Attachments
from omnigraph.operations.local import LocalBackend
from omnigraph.operations.reads import ExportRequest, ExportStreamRequest
from omnigraph.records import record
from omnigraph.values.counts import counted

app = new_app()


class FileFormat(StrEnum):
    """How files are written."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


@record
class ExportReport:
    """What an export wrote, and where."""

    uri: str
    to: str
    result: ExportResult
    choice: Choice

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        done = self.result
        return {
            "uri": self.uri,
            "to": self.to,
            "format": done.format,
            "branch": done.branch,
            "graph_commit_id": done.commit_id,
            "types": [item.to_json() for item in done.types],
            "total_entities": done.rows,
            "bytes": done.bytes_written,
            "elapsed_s": round(done.elapsed_s, 3),
            "engine": self.choice.to_json(),
        }

    def to_lines(self) -> Iterable[str]:
        """The counts in one line, and the commit that they are of."""
        done = self.result
        nodes = sum(item.kind == "node" for item in done.types)
        edges = len(done.types) - nodes
        across = f"{counted(nodes, 'node type')} and {counted(edges, 'edge type')}"
        entities = counted(done.rows, "entity", "entities")
        files = counted(sum(item.files for item in done.types), "file")
        yield f"exported {self.uri} to {self.to} as {done.format}: {entities} across {across} in {files}"
        yield f"commit {done.commit_id} of branch {done.branch}"

    def to_remarks(self) -> Iterable[str]:
        """Which engine did it and why, where that is worth a line."""
        return self.choice.to_remarks()


@app.command(epilog=example("omnigraph export crm --to backup"))
@expand_options
def export(
    *,
    graph: GraphOptions,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="FOLDER", help="An empty folder or s3://bucket/prefix; standard output by default."
        ),
    ] = None,
    form: Annotated[FileFormat | None, typer.Option("--format", help="The file format; jsonl by default.")] = None,
    types: Types = None,
    spark_options: SparkOptions,
    branch: ReadBranch = None,
    snapshot: AtSnapshot = None,
    as_json: AsJson = False,
) -> int:
    """Export every row of one state of a graph, so that it can be loaded again.

    Without --to, all rows go to standard output as JSONL: edges first, then nodes, by type and id. With --to, each type
    gets its own folder, and a manifest written last marks the export as complete; `load --data FOLDER` reads it.
    With --engine spark or a Spark setting, executors write the files.
    """
    address = graph_address(graph)
    output = choose_output(as_json=as_json)
    request = spark_options.request()
    choice = choose_plainly(request)
    refuse_two_states(branch, snapshot)
    _check(to, form, needs_folder=as_json or choice.is_spark)
    source: dict[str, Any] = {"branch": branch or "main", "at": snapshot, "types": types or None}
    with open_graph(address, mode="read_only") as backend:
        is_shown = not as_json and sys.stderr.isatty() and (to is not None or not sys.stdout.isatty())
        with show_progress(is_wanted=is_shown) as progress:
            if to is None:
                with LineBuffer(sys.stdout.buffer, b"\n") as lines:
                    backend.execute(ExportStreamRequest(**source), Attachments(sink=lines, progress=progress))
                return 0
            written: ExportFormat = (form or FileFormat.JSONL).value
            if choice.is_spark:
                result = _export_on_spark(local_backend(backend), to, written, request, **source, progress=progress)
            else:
                result = backend.execute(ExportRequest(to=to, format=written, **source), Attachments(progress=progress))
    output.show(ExportReport(uri=address, to=to, result=result, choice=choice))
    return 0


def _export_on_spark(
    backend: LocalBackend, to: str, form: ExportFormat, request: SparkRequest, **source: Any
) -> ExportResult:
    from omnigraph import spark as plane  # noqa: PLC0415 - loaded for the exports that run on it

    # What the Java side does is little, so that it is not worth its slow but thorough compiler.
    with open_spark(request, is_short=True) as spark:
        return plane.export(backend, to, form, spark=spark, **source)


@contextmanager
def show_progress(*, is_wanted: bool) -> Iterator[Progress | None]:
    """Show a bar on standard error while an export runs, if it is wanted."""
    if not is_wanted:
        yield None
        return
    # Only a terminal pays for the library that draws.
    from rich import console  # noqa: PLC0415 - see above
    from rich import progress as drawing  # noqa: PLC0415 - see above

    columns = (
        drawing.TextColumn("exporting"),
        drawing.BarColumn(),
        drawing.TextColumn("{task.completed:,} of {task.total:,} rows"),
        drawing.TextColumn("{task.fields[size]}"),
        drawing.TimeElapsedColumn(),
    )
    with drawing.Progress(*columns, console=console.Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=0, size="")

        def show(state: ExportProgress) -> None:
            size = f"{state.bytes_written / (1 << 20):,.1f} MiB"
            bar.update(task, completed=state.rows, total=state.rows_total, size=size)

        yield show


def _check(to: str | None, form: FileFormat | None, *, needs_folder: bool) -> None:
    if to is None and form is not None and form is not FileFormat.JSONL:
        raise usage_error("only JSONL can be written to standard output", value=form.value, expected="--to FOLDER")
    if to is None and needs_folder:
        raise usage_error("--json and Spark need a destination folder", expected="--to FOLDER")
