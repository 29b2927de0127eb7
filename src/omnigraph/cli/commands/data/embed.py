"""``omnigraph embed``: vectors of a graph that do not fit their texts any more, or vectors of records in files."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.engines import SparkOptions, choose_plainly, open_spark
from omnigraph.cli.graphs import CommandBackend, graph_address, local_backend, open_graph
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import AsJson, Branch, CommitOptions, GraphOptions, IfCommit, Types, expand_options
from omnigraph.cli.output import PlainReport, choose_output
from omnigraph.cli.usage import usage_error
from omnigraph.operations.request import Attachments
from omnigraph.operations.writes import EmbedRequest
from omnigraph.records import record
from omnigraph.values.counts import counted

if TYPE_CHECKING:
    from omnigraph.engine.embedding.files import EmbedFiles, EmbedMode
    from omnigraph.engine.embedding.rewrite import EmbedProgress, EmbedResult

app = new_app()


@record
class FileOptions:
    """What is embedded when it is records of a file."""

    seed: Annotated[
        str | None, typer.Option("--seed", metavar="MANIFEST", help="Embed the records that this YAML file describes.")
    ] = None
    source: Annotated[
        str | None, typer.Option("--input", metavar="FILE", help="Embed the records of this JSONL file.")
    ] = None
    output: Annotated[str | None, typer.Option("--output", metavar="FILE", help="Write all lines to this file.")] = None
    spec: Annotated[
        str | None, typer.Option("--spec", metavar="FILE", help="Dimension, targets and fields by type, as JSON.")
    ] = None
    clean: Annotated[bool, typer.Option("--clean", help="Remove the vectors of the records instead.")] = False
    select: Annotated[
        list[str] | None,
        typer.Option(
            "--select", metavar="[TYPE:]FIELD=VALUE", help="Only records whose field has this value; may be repeated."
        ),
    ] = None

    @property
    def is_given(self) -> bool:
        """Whether it is about files at all."""
        return any(value is not None for value in (self.seed, self.source, self.output, self.spec))


@app.command()
@expand_options
def embed(  # noqa: PLR0913 - one parameter per option
    *,
    graph: GraphOptions,
    types: Types = None,
    every: Annotated[
        bool, typer.Option("--reembed-all", "--reembed_all", help="Compute every vector that has a text, stale or not.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", metavar="N", min=0, help="Compute at most N vectors of the graph.")
    ] = None,
    commit_every: Annotated[
        int | None, typer.Option("--commit-every", metavar="N", min=1, help="Make a commit for every N vectors.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count the stale vectors; write nothing.")] = False,
    files: FileOptions,
    spark_options: SparkOptions,
    branch: Branch = "main",
    expected_head: IfCommit = None,
    commit: CommitOptions,
    as_json: AsJson = False,
) -> int:
    """Compute the vectors of a graph whose texts have changed, or that are missing.

    Only vectors with @embed whose text has changed since they were computed are computed again. They are stored in one
    commit, or in several with --commit-every; after an interruption, run the command again to continue.

    With --seed, or --input, --output and --spec, the records of a JSONL file get vectors before they are loaded; no
    graph is needed.
    """
    shows_bar = not as_json and sys.stderr.isatty()
    if files.is_given or files.clean or files.select:
        given = {
            "the graph": graph.given,
            "--limit": limit,
            "--commit-every": commit_every,
            "--dry-run": dry_run or None,
            "--if-commit": expected_head,
            "--message": commit.message,
            "--engine": spark_options.engine,
        }
        for flag, value in given.items():
            if value is not None:
                raise usage_error(f"{flag} does not apply to records of files", expected=f"no {flag.lstrip('-')}")
        return _embed_files(files, types or (), every=every, shows_bar=shows_bar, as_json=as_json)
    address = graph_address(graph)
    spark = spark_options.request()
    request = EmbedRequest(
        types=types or None,
        every=every,
        limit=limit,
        dry_run=dry_run,
        branch=branch,
        expected_head=expected_head,
        **commit.to_fields(),
    )
    if commit_every is not None and (every or expected_head is not None):
        raise usage_error(
            "--commit-every cannot be combined with --reembed-all or --if-commit", expected="--commit-every alone"
        )
    with open_graph(address) as backend, _bar(is_wanted=shows_bar) as progress:
        if choose_plainly(spark).is_spark:
            with open_spark(spark, is_short=True) as session:
                from omnigraph.spark.embedding import ExecutorEmbedder  # noqa: PLC0415 - for runs on Spark

                runner = ExecutorEmbedder.of(local_backend(backend).engine, session)
                done, commits = _run(backend, request, commit_every, Attachments(progress=progress, runner=runner))
        else:
            done, commits = _run(backend, request, commit_every, Attachments(progress=progress))
    document = {"uri": address, **done.to_json(), "commits": commits}
    remarks = [f"warning: {warning}" for warning in done.warnings]
    choose_output(as_json=as_json).show(PlainReport(document=document, lines=list(done.lines()), remarks=remarks))
    return 0


def _run(
    backend: CommandBackend, request: EmbedRequest, commit_every: int | None, attached: Attachments
) -> tuple[EmbedResult, int]:
    """Execute the request, as often as there are commits to make; return all that it did, and how many they were."""
    if commit_every is None or request.dry_run:
        done = backend.execute(request, attached)
        return done, int(done.commit is not None)
    left, commits = request.limit, 0
    total: EmbedResult | None = None
    while True:
        step = backend.execute(
            replace(request, limit=commit_every if left is None else min(left, commit_every)), attached
        )
        commits += step.commit is not None
        total = step if total is None else _added(total, step)
        count = step.embedded + step.cleared
        left = None if left is None else left - count
        if not count or not step.remaining or left == 0:
            return total, commits


def _added(total: EmbedResult, step: EmbedResult) -> EmbedResult:
    properties = tuple(
        replace(first, embedded=first.embedded + more.embedded, cleared=first.cleared + more.cleared)
        for first, more in zip(total.properties, step.properties, strict=True)
    )
    return replace(total, properties=properties, commit=step.commit or total.commit)


def _embed_files(files: FileOptions, types: Any, *, every: bool, shows_bar: bool, as_json: bool) -> int:
    from omnigraph.engine.embedding.embedder import Embedder  # noqa: PLC0415 - for arguments that make sense
    from omnigraph.engine.embedding.files import FileEmbedding, Selector  # noqa: PLC0415 - see above
    from omnigraph.engine.embedding.settings import settings_from_environment  # noqa: PLC0415 - see above
    from omnigraph.runtime import Runtime  # noqa: PLC0415 - see above

    if files.clean and every:
        raise usage_error("--clean and --reembed-all cannot be combined", expected="one of them")
    selectors = [Selector.parse(text) for text in files.select or ()]
    mode: EmbedMode = "reembed_selected" if selectors else "fill_missing"
    mode = "clean" if files.clean else "reembed_all" if every else mode
    chosen = _chosen(files)
    work = FileEmbedding(chosen, mode, types, selectors)
    embedder = Embedder(Runtime.system().clock)
    try:
        with _bar(is_wanted=shows_bar) as progress:
            counts = work.run(embedder, progress)
    finally:
        embedder.close()
    model = None if mode == "clean" or not counts.embedded else settings_from_environment(os.environ).active_model
    document = {
        "input": str(chosen.source),
        "output": str(chosen.output),
        "records": counts.records,
        "selected_records": counts.selected,
        "embedded_records": counts.embedded,
        "cleaned_records": counts.cleaned,
        "mode": mode,
        "dimension": chosen.spec.dimension,
        "model": model,
    }
    done = f"{counts.cleaned} cleaned" if mode == "clean" else f"{counts.embedded} embedded"
    line = f"wrote {chosen.output}: {counted(counts.records, 'record')}, {counts.selected} selected, {done}"
    choose_output(as_json=as_json).show(PlainReport(document=document, lines=[line]))
    return 0


def _chosen(files: FileOptions) -> EmbedFiles:
    from pathlib import Path  # noqa: PLC0415 - for arguments that make sense

    from omnigraph.engine.embedding.files import EmbedFiles, read_manifest, read_spec  # noqa: PLC0415 - see above

    single = (files.source, files.output, files.spec)
    if files.seed is not None:
        if any(value is not None for value in single):
            raise usage_error("--seed names input, output and spec itself", value=files.seed, expected="--seed alone")
        return read_manifest(files.seed)
    if files.source is None or files.output is None or files.spec is None:
        raise usage_error("some of the three files are missing", expected="--seed, or --input, --output and --spec")
    return EmbedFiles(source=Path(files.source), output=Path(files.output), spec=read_spec(files.spec))


@contextmanager
def _bar(*, is_wanted: bool) -> Iterator[Callable[[EmbedProgress], None] | None]:
    """Show a bar on standard error while texts are embedded, if it is wanted."""
    if not is_wanted:
        yield None
        return
    # Only a terminal pays for the library that draws.
    from rich import console  # noqa: PLC0415 - see above
    from rich import progress as drawing  # noqa: PLC0415 - see above

    columns = (
        drawing.TextColumn("embedding"),
        drawing.BarColumn(),
        drawing.TextColumn("{task.completed:,} of {task.total:,} texts"),
        drawing.TimeElapsedColumn(),
    )
    with drawing.Progress(*columns, console=console.Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=0)

        def show(state: EmbedProgress) -> None:
            bar.update(task, completed=state.embedded, total=state.total)

        yield show
