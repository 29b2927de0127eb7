"""``omnigraph load``: rows from files into a graph."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from omnigraph.cli.engines import (
    Choice,
    Engine,
    Machine,
    SparkOptions,
    SparkRequest,
    choose_for_load,
    input_size,
    open_spark,
)
from omnigraph.cli.graphs import (
    CommandBackend,
    ask_consent,
    echo_target,
    graph_address,
    is_served,
    local_backend,
    open_graph,
)
from omnigraph.cli.lazy import example, new_app
from omnigraph.cli.options import (
    AsJson,
    BlobBases,
    Branch,
    CommitOptions,
    ConflictRule,
    Consent,
    GraphOptions,
    OnConflict,
    Quiet,
    expand_options,
)
from omnigraph.cli.output import PlainReport, choose_output
from omnigraph.cli.sources import TableOptions, read_sources
from omnigraph.cli.usage import usage_error
from omnigraph.engine.load import LoadMode, LoadProgress, LoadResult, LoadSettings, OnDelete, Source
from omnigraph.engine.load.sources.expand import expand_sources
from omnigraph.engine.load.sources.source import STDIN
from omnigraph.errors import BadValue, BranchExistsError, SparkUnsupportedError
from omnigraph.operations import Attachments
from omnigraph.operations.history import CreateBranchRequest, ListBranchesRequest
from omnigraph.operations.writes import LoadRequest
from omnigraph.records import record
from omnigraph.values import BranchName
from omnigraph.values.counts import counted

if TYPE_CHECKING:
    from omnigraph.spark.runner import TaskCount

# A load of more than this is worth a driver that is slower to start.
_LONG_BYTES = 256 << 20


_PHASES = {"read": "reading", "check": "checking", "write": "writing"}


@record(frozen=False)
class LoadBar:
    """How far a load is, drawn anew whenever it says so."""

    bar: Any
    task: Any
    state: LoadProgress

    def show(self, state: LoadProgress) -> None:
        """Draw what a load tells."""
        if state.phase != self.state.phase:
            # A bar that is full says that the load is done, and stops its clock.
            started = self.bar.tasks[-1].start_time
            self.bar.remove_task(self.task)
            self.task = self.bar.add_task("", total=None, rows=0)
            self.bar.tasks[-1].start_time = started
        self.state = state
        self.bar.update(self.task, description=_PHASES[state.phase], rows=f"{state.rows:,}")
        if state.phase == "read":
            self.bar.update(self.task, completed=state.bytes_read, total=state.bytes_total)

    def show_tasks(self, count: TaskCount) -> None:
        """Draw what is known of a load that tells nothing while its tasks run: which part of them has ended."""
        if self.state.phase == "read" and self.state.bytes_total:
            self.bar.update(self.task, completed=int(self.state.bytes_total * count.share))


@contextmanager
def open_bar(*, is_wanted: bool) -> Iterator[LoadBar | None]:
    """Show a bar on standard error while a load runs, if it is wanted."""
    if not is_wanted:
        yield None
        return
    # Only a terminal pays for the library that draws.
    from rich import console  # noqa: PLC0415 - see above
    from rich import progress as drawing  # noqa: PLC0415 - see above

    class WhenKnown(drawing.ProgressColumn):
        """A column that is empty as long as there is no total."""

        def __init__(self, column: drawing.ProgressColumn) -> None:
            super().__init__()
            self._column = column

        def render(self, task: drawing.Task) -> Any:
            return "" if task.total is None else self._column.render(task)

    columns = (
        drawing.SpinnerColumn(),
        drawing.TextColumn("{task.description}"),
        WhenKnown(drawing.BarColumn()),
        WhenKnown(drawing.DownloadColumn(binary_units=True)),
        drawing.TextColumn("{task.fields[rows]} rows"),
        drawing.TimeElapsedColumn(),
    )
    with drawing.Progress(*columns, console=console.Console(stderr=True), transient=True) as bar:
        yield LoadBar(bar=bar, task=bar.add_task("reading", total=None, rows=0), state=LoadProgress(phase="read"))


ClusterBy = Literal["key"] | Mapping[str, str]


@record
class LoadOrder:
    """What the options of a load ask for."""

    sources: Sequence[Source]
    mode: LoadMode
    branch: str
    commit: CommitOptions
    on_conflict: Literal["rerun", "refuse"]
    errors_to: str | None
    patch: bool
    truncate: bool
    on_delete: OnDelete
    batch: tuple[str, int] | None
    check_sums: bool
    projections: bool
    cluster_by: ClusterBy | None
    spark: SparkRequest
    has_blob_bases: bool = False


def run_load(backend: CommandBackend, order: LoadOrder, *, shows_bar: bool) -> tuple[LoadResult, Choice]:
    """Load on the engine that was asked for, or that suits the input; return what it did and which one it was.

    Raises:
        OmnigraphError: whatever the load does.
    """
    if is_served(backend):
        return _run_served(backend, order, shows_bar=shows_bar)
    size = _size(backend, order)
    choice = choose_for_load(order.spark, size, Machine.this(), local_only=_local_only(order))
    if not choice.is_spark:
        if order.cluster_by is not None:
            raise usage_error("--cluster-by needs Spark", value="local", expected="--engine spark")
        return _run_local(backend, order, shows_bar=shows_bar), choice
    try:
        return _run_on_spark(backend, order, size, shows_bar=shows_bar), choice
    except SparkUnsupportedError as problem:
        if order.spark.engine is Engine.SPARK or order.spark.names_spark or order.cluster_by is not None:
            raise
        # Nothing was published, and nobody asked for Spark.
        fallback = Choice(engine="local", reason=problem.message, is_told=True)
        return _run_local(backend, order, shows_bar=shows_bar), fallback


def spark_json(result: LoadResult) -> dict[str, Any]:
    """Return what a load on Spark says beyond the others, as JSON values; nothing for the others."""
    found = _on_spark(result)
    if found is None:
        return {}
    return {
        "unchanged": dict(found.unchanged),
        "bytes_read": found.bytes_read,
        "fragments": found.fragments,
        "seconds": {step: round(taken, 3) for step, taken in found.seconds.items()},
    }


def spark_lines(result: LoadResult) -> Iterable[str]:
    """Return what a load on Spark says beyond the others, as text; nothing for the others."""
    found = _on_spark(result)
    if found is None:
        return ()
    from omnigraph.spark.runner import summary_lines  # noqa: PLC0415 - it ran on Spark, so that it is loaded

    return summary_lines(found)


def _size(backend: CommandBackend, order: LoadOrder) -> int | None:
    if any(source.path == STDIN for source in order.sources):
        return None
    return input_size(expand_sources(order.sources, local_backend(backend).engine.store.storage.options))


def _run_served(backend: CommandBackend, order: LoadOrder, *, shows_bar: bool) -> tuple[LoadResult, Choice]:
    if order.spark.engine is Engine.SPARK or order.spark.names_spark or order.cluster_by is not None:
        local_backend(backend)
    choice = Choice(engine="local", reason="the server loads", is_told=False)
    return _run_local(backend, order, shows_bar=shows_bar), choice


def _local_only(order: LoadOrder) -> str | None:
    if order.has_blob_bases:
        return "external blobs are read by one process"
    return "a patch runs in one process" if order.patch else None


def _run_local(backend: CommandBackend, order: LoadOrder, *, shows_bar: bool) -> LoadResult:
    with open_bar(is_wanted=shows_bar) as bar:
        request = LoadRequest(
            sources=order.sources,
            mode=order.mode,
            patch=order.patch,
            truncate=order.truncate,
            on_delete=order.on_delete,
            batch=order.batch,
            branch=order.branch,
            **order.commit.to_fields(),
            on_conflict=order.on_conflict,
            errors_to=order.errors_to,
            settings=LoadSettings(check_sums=order.check_sums),
            projections=order.projections,
        )
        return backend.execute(request, Attachments(progress=None if bar is None else bar.show))


def _run_on_spark(backend: CommandBackend, order: LoadOrder, size: int | None, *, shows_bar: bool) -> LoadResult:
    if order.patch:
        raise SparkUnsupportedError(
            "a patch cannot be loaded on Spark",
            details=BadValue(what="load", value="--patch", expected="a load of whole rows"),
        )
    if order.has_blob_bases:
        raise SparkUnsupportedError(
            "external blobs cannot be loaded on Spark",
            details=BadValue(what="load", value="--blob-base", expected="a load without external blobs"),
        )
    from omnigraph.spark import load  # noqa: PLC0415 - loaded for the loads that run on it

    is_short = size is not None and size < _LONG_BYTES
    if order.check_sums:
        expand_sources(order.sources, local_backend(backend).engine.store.storage.options, check_sums=True)
    with (
        open_spark(order.spark, is_short=is_short) as spark,
        open_bar(is_wanted=shows_bar) as bar,
        _watching(spark, bar),
    ):
        return load(
            local_backend(backend),
            order.sources,
            order.mode,
            spark=spark,
            branch=order.branch,
            **order.commit.to_fields(),
            on_conflict=order.on_conflict,
            errors_to=order.errors_to,
            truncate=order.truncate,
            on_delete=order.on_delete,
            batch=order.batch,
            progress=None if bar is None else bar.show,
            cluster_by=order.cluster_by,
        )


def _watching(spark: Any, bar: LoadBar | None) -> Any:
    from omnigraph.spark.runner import watch_tasks  # noqa: PLC0415 - loaded for the loads that run on it

    return nullcontext() if bar is None else watch_tasks(spark, bar.show_tasks)


def _on_spark(result: LoadResult) -> Any:
    # Told by what it has: asking for the class would load Spark's room for every load.
    return result if hasattr(result, "fragments") else None


app = new_app()
_MOST_DIGITS = 18


class Mode(StrEnum):
    """What happens to rows that exist."""

    APPEND = "append"
    MERGE = "merge"
    OVERWRITE = "overwrite"
    APPLY = "apply"


class DeleteRule(StrEnum):
    """What becomes of the edges of a node that is deleted."""

    CASCADE = "cascade"
    REFUSE = "refuse"


@app.command(epilog=example("omnigraph load crm --data people.jsonl --mode merge"))
@expand_options
def load(  # noqa: PLR0913 - one parameter per option
    *,
    graph: GraphOptions,
    mode: Annotated[
        Mode,
        typer.Option(
            "--mode",
            help="append rejects existing rows, merge replaces them, overwrite replaces whole types, apply takes a"
            " change log.",
        ),
    ],
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data", metavar="FILE", help="A file, a folder, a glob, or - for standard input; may be repeated."
        ),
    ] = None,
    table_options: TableOptions,
    patch: Annotated[
        bool,
        typer.Option(
            "--patch", help="With merge: keep the properties that a row leaves out instead of setting them to null."
        ),
    ] = False,
    truncate: Annotated[
        bool,
        typer.Option(
            "--truncate", help="Cut instants finer than a millisecond, which DateTime keeps, instead of rejecting them."
        ),
    ] = False,
    on_delete: Annotated[
        DeleteRule,
        typer.Option("--on-delete", help="With apply: edges of a deleted node go with it, or the load is rejected."),
    ] = DeleteRule.CASCADE,
    batch: Annotated[
        str | None,
        typer.Option(
            "--batch",
            metavar="NAME:NUMBER",
            help="Load this batch of a stream once: if repeated, nothing changes and the first commit is shown.",
        ),
    ] = None,
    errors_to: Annotated[
        str | None, typer.Option("--errors-to", metavar="FILE", help="Write every problem to this file, as JSONL.")
    ] = None,
    check_sums: Annotated[
        bool, typer.Option("--check-sums", help="Verify the checksums of an exported folder first.")
    ] = False,
    no_projections: Annotated[
        bool,
        typer.Option("--no-projections", help="After a large load, leave its projections to optimize."),
    ] = False,
    blob_bases: BlobBases = None,
    cluster_by: Annotated[
        list[str] | None,
        typer.Option(
            "--cluster-by",
            metavar="TYPE=COLUMN",
            help=(
                "On Spark: sort the rows of a type by a column, or with `key` those of all types by "
                "key; may be repeated."
            ),
        ),
    ] = None,
    spark_options: SparkOptions,
    branch: Branch = "main",
    base: Annotated[
        str | None,
        typer.Option("--from", metavar="BRANCH", help="Create the branch from this one if it does not exist."),
    ] = None,
    on_conflict: OnConflict = ConflictRule.RERUN,
    commit: CommitOptions,
    yes: Consent = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Load rows from files in a single atomic commit.

    JSONL files (.jsonl, .ndjson) name the type of each row. CSV, Parquet and Arrow files have rows of one type, which
    --table or else the file name determines; JSONL files passed with --table have plain objects of that type. Files
    compressed with gzip or zstd, exported folders, and folders with a mapping.yaml are recognised. By default, large
    inputs are loaded on Spark if it is installed. Exits with code 2 if a row is invalid or breaks a rule, 3 if a row
    already exists or --on-conflict refuse meets a conflict.
    """
    address = graph_address(graph)
    if mode is Mode.OVERWRITE:
        ask_consent("load --mode overwrite", address, is_given=yes, as_json=as_json)
    sources = read_sources(data or (), table_options, expected="--data FILE or --table TYPE=FILE")
    order = LoadOrder(
        sources=sources,
        mode=mode.value,
        branch=branch,
        commit=commit,
        on_conflict=on_conflict.value,
        errors_to=errors_to,
        patch=patch,
        truncate=truncate,
        on_delete=on_delete.value,
        batch=read_batch(batch),
        check_sums=check_sums,
        projections=not no_projections,
        cluster_by=read_clusters(cluster_by or ()),
        spark=spark_options.request(),
        has_blob_bases=bool(blob_bases),
    )
    echo_target("load", address, is_quiet=quiet)
    with open_graph(address, blob_bases=blob_bases) as backend:
        is_created = base is not None and _create_branch(backend, branch, base, commit.actor)
        result, choice = run_load(backend, order, shows_bar=not as_json and sys.stderr.isatty())
    document = {
        "uri": address,
        "branch": result.branch,
        "base_branch": base,
        "branch_created": is_created,
        **result.to_json(),
        "engine": choice.to_json() | spark_json(result),
    }
    lines = [f"branch {result.branch} created from {base}"] if is_created else []
    lines += _lines(result, address)
    choose_output(as_json=as_json).show(PlainReport(document=document, lines=lines, remarks=list(choice.to_remarks())))
    return 0


def _lines(done: LoadResult, uri: str) -> Iterable[str]:
    """The counts in one line."""
    if done.commit is None:
        return [f"nothing to load into {uri} on branch {done.branch}: {done.reason}, no commit"]
    if done.is_repeat:
        return [f"loaded into {uri} on branch {done.branch} before, as commit {done.commit.id}"]
    across = f"{counted(len(done.nodes_loaded), 'node type')} and {counted(len(done.edges_loaded), 'edge type')}"
    entities = counted(done.total, "entity", "entities")
    loaded = f"loaded {uri} on branch {done.branch} with {done.mode}: {entities} across {across}"
    built = (f"{projection.table_key}: {projection}" for projection in done.projections)
    return [loaded, *(() if done.changes is None else [str(done.changes)]), *built, *spark_lines(done)]


def read_batch(text: str | None) -> tuple[str, int] | None:
    """Return the name of a stream and the number of a batch, from the option that names them.

    Raises:
        UsageError: it is not of its form.
    """
    if text is None:
        return None
    name, colon, number = text.rpartition(":")
    if not (colon and name and number.isascii() and number.isdigit() and len(number) <= _MOST_DIGITS):
        raise usage_error(f"invalid --batch '{text}'", value=text, expected="NAME:NUMBER")
    return name, int(number)


def read_clusters(texts: Sequence[str]) -> ClusterBy | None:
    """Return by which column the rows of which type are ordered, None if nothing asks for it.

    Raises:
        UsageError: an option is not of its form.
    """
    if not texts:
        return None
    if list(texts) == ["key"]:
        return "key"
    chosen: dict[str, str] = {}
    for text in texts:
        owner, equals, name = text.partition("=")
        if not (owner and equals and name):
            raise usage_error(f"invalid --cluster-by '{text}'", value=text, expected="TYPE=COLUMN, or key alone")
        chosen[owner] = name
    return chosen


def _create_branch(backend: CommandBackend, branch: str, base: str, actor: str | None) -> bool:
    known = {str(status.name) for status in backend.execute(ListBranchesRequest())}
    if str(BranchName.parse(branch)) in known:
        return False
    try:
        backend.execute(CreateBranchRequest(name=branch, source=base, actor=actor))
    except BranchExistsError:
        # Somebody else made it between the look and the attempt, which is just as good.
        return False
    return True
