"""``omnigraph pipeline run``: one run, or a stream of them, with how far it is on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.commands.pipeline.declaration import PipelineFile
from omnigraph.cli.engines import Master, Remote, SparkConf, open_spark, spark_request
from omnigraph.cli.graphs import open_storage
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import Actor, AsJson, Store, expand_options
from omnigraph.cli.output import PlainReport, choose_output, write_line
from omnigraph.cli.usage import usage_error
from omnigraph.records import record

if TYPE_CHECKING:
    from omnigraph.operations.local import LocalBackend
    from omnigraph.pipelines import Declaration, RunProgress, RunReport

run_app = new_app()

NOTHING_TO_DO = 20
_PHASES = {"begin": "starting", "read": "reading", "load": "loading", "after": "running", "check": "checking"}


class PublishMode(StrEnum):
    """How a run becomes visible."""

    DIRECT = "direct"
    AUDIT = "audit"
    PROPOSE = "propose"


RunBranch = Annotated[
    str | None,
    typer.Option("--branch", metavar="NAME", help="The branch to write to; the branch of the declaration by default."),
]
PublishOption = Annotated[
    PublishMode | None,
    typer.Option(
        "--publish",
        help=(
            "direct commits to the branch, audit merges a temporary branch if all checks pass, "
            "propose opens a proposal; the declaration sets the default."
        ),
    ),
]


@record
class ClusterOptions:
    """Where the Spark is that runs a pipeline."""

    master: Master = None
    remote: Remote = None
    spark_conf: SparkConf = None

    @contextmanager
    def open(self) -> Iterator[Any]:
        """Give a session for one command."""
        request = spark_request(None, self.master, self.remote, self.spark_conf)
        with open_spark(request, is_short=True) as spark:
            yield spark


@record
class StreamOptions:
    """How a stream runs."""

    stream: Annotated[
        str | None,
        typer.Option(
            "--stream",
            metavar="WHEN",
            help=(
                "Run as a stream, one commit per micro-batch: `available-now` stops at the end of "
                "the data, a number of seconds is the interval between batches."
            ),
        ),
    ] = None
    checkpoint: Annotated[
        str | None,
        typer.Option("--checkpoint", metavar="FOLDER", help="With --stream: the folder for Spark's checkpoints."),
    ] = None

    def every_s(self) -> float | None:
        """Return how often to look for more; None for once.

        Raises:
            UsageError: an option is not of its form, or lacks the other.
        """
        if (self.stream is None) != (self.checkpoint is None):
            raise usage_error("--stream and --checkpoint need each other", expected="both or none of them")
        if self.stream in {None, "available-now"}:
            return None
        try:
            seconds = float(str(self.stream))
        except ValueError:
            seconds = 0.0
        if not 0 < seconds < float("inf"):
            raise usage_error(
                f"invalid --stream '{self.stream}'", value=str(self.stream), expected="available-now or seconds"
            )
        return seconds


@run_app.command()
@expand_options
def run(  # noqa: PLR0913 - one parameter per option
    *,
    file: PipelineFile,
    store: Store = None,
    branch: RunBranch = None,
    publish: PublishOption = None,
    full_refresh: Annotated[
        bool,
        typer.Option(
            "--full-refresh", help="Read everything; steps with removes_missing delete what the sources no longer have."
        ),
    ] = False,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="VALUE", help="Read from this value of incremental columns instead of the last position."
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", metavar="N", min=1, help="Read N rows of each source; progress is not saved."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would happen; publish nothing.")] = False,
    quarantine_to: Annotated[
        str | None, typer.Option("--quarantine-to", metavar="FOLDER", help="The folder for rejected rows.")
    ] = None,
    report: Annotated[
        str | None, typer.Option("--report", metavar="FILE", help="Write the report of the run as a page of HTML.")
    ] = None,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help=f"Exit with code {NOTHING_TO_DO} if there was nothing to do.")
    ] = False,
    streaming: StreamOptions,
    cluster: ClusterOptions,
    actor: Actor = None,
    as_json: AsJson = False,
) -> int:
    """Run a pipeline: the new data of its sources becomes one commit, or nothing is committed.

    Exits with code 0 if it was published or there was nothing to do, 2 if rows fail an expectation or the declaration
    is wrong, 3 if another run was faster, 4 if a check fails. In all failures nothing is published.
    """
    from omnigraph.pipelines import load_declaration, stream  # noqa: PLC0415 - for a command line that makes sense
    from omnigraph.pipelines import run as run_once  # noqa: PLC0415 - see above

    every_s = streaming.every_s()
    plain = {"--full-refresh": full_refresh, "--since": since, "--limit": limit, "--dry-run": dry_run}
    if streaming.stream is not None:
        for flag, given in plain.items():
            if given:
                raise usage_error(f"{flag} does not apply to a stream", value=flag, expected="--stream or the others")
    declaration = load_declaration(file)
    last: list[RunReport] = []
    with open_pipeline_graph(store, declaration) as backend, cluster.open() as spark, _shown(as_json, last) as tell:
        asked: dict[str, Any] = {
            "spark": spark,
            "branch": branch,
            "publish": None if publish is None else publish.value,
            "quarantine_to": quarantine_to,
            "actor": actor,
            "progress": tell,
        }
        try:
            if streaming.stream is None:
                run_once(
                    declaration, backend, full_refresh=full_refresh, since=since, limit=limit, dry_run=dry_run, **asked
                )
            else:
                stream(declaration, backend, checkpoint=str(streaming.checkpoint), every_s=every_s, **asked).wait()
        finally:
            if report is not None and last:
                write_page(report, last[-1])
    documents = [one.to_json() for one in last]
    lines = [line for one in last for line in _lines(one)]
    if streaming.stream is None:
        document = documents[-1]
    else:
        document = {"pipeline": declaration.name, "batches": documents}
        lines = lines or [f"{declaration.name}: nothing to do"]
    choose_output(as_json=as_json).show(PlainReport(document=document, lines=lines))
    is_idle = all(one.outcome == "nothing" for one in last)
    return NOTHING_TO_DO if exit_code and is_idle else 0


@contextmanager
def open_pipeline_graph(
    store: str | None, declaration: Declaration, *, mode: Any = "read_write"
) -> Iterator[LocalBackend]:
    """Open the graph of a pipeline: the one of the command line, of the declaration, or the one that is remembered."""
    from omnigraph.cli.commands.pipeline.declaration import SchemaOptions  # noqa: PLC0415 - see above

    address = SchemaOptions(store=store).address(declaration)
    if address is None:
        raise usage_error(
            f"pipeline '{declaration.name}' names no graph", value=declaration.name, expected="--store GRAPH"
        )
    with open_storage(address, mode=mode) as backend:
        yield backend


def write_page(path: str, report: RunReport) -> None:
    """Write the page of a run."""
    from omnigraph.pipelines.report import report_page  # noqa: PLC0415 - see above

    Path(path).write_text(report_page(report), encoding="utf-8")
    write_line(f"report: {path}", sys.stderr)


def _lines(report: RunReport) -> Iterator[str]:
    from omnigraph.pipelines.report import run_lines  # noqa: PLC0415 - see above

    return run_lines(report)


@contextmanager
def _shown(as_json: bool, last: list[RunReport]) -> Iterator[Callable[[RunProgress], None]]:
    """Give what is told how far a run is: reports are kept, and a terminal shows a line that changes."""
    if as_json or not sys.stderr.isatty():
        yield lambda told: last.append(told.report) if told.report is not None else None
        return
    # Only a terminal pays for the library that draws.
    from rich import console  # noqa: PLC0415 - see above

    with console.Console(stderr=True).status("starting") as line:

        def tell(told: RunProgress) -> None:
            if told.report is not None:
                last.append(told.report)
            line.update(f"{_PHASES.get(told.phase, told.phase)} {told.step or ''}".strip())

        yield tell
