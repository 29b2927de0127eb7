"""``omnigraph pipeline status``, ``report`` and ``quarantine``: what earlier runs did, and what they put aside."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from omnigraph.cli.commands.pipeline.declaration import PipelineFile
from omnigraph.cli.commands.pipeline.running import (
    ClusterOptions,
    PublishOption,
    RunBranch,
    open_pipeline_graph,
    write_page,
)
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import Actor, AsJson, Store, expand_options
from omnigraph.cli.output import PlainReport, choose_output
from omnigraph.cli.usage import usage_error
from omnigraph.values.counts import counted

status_app = new_app()
report_app = new_app()
quarantine_app = new_app()

RunId = Annotated[str | None, typer.Option("--run", metavar="ID", help="The run; the newest by default.")]


@status_app.command()
def status(
    *,
    file: PipelineFile,
    store: Store = None,
    branch: RunBranch = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="Show at most N runs.")] = 10,
    as_json: AsJson = False,
) -> int:
    """Show the runs of a pipeline on a branch, and the position reached in each source."""
    from omnigraph.pipelines import load_declaration  # noqa: PLC0415 - for a command line that makes sense
    from omnigraph.pipelines import status as runs_of  # noqa: PLC0415 - see above
    from omnigraph.pipelines.report import history_lines  # noqa: PLC0415 - see above

    declaration = load_declaration(file)
    name = branch or declaration.branch
    with open_pipeline_graph(store, declaration, mode="read_only") as backend:
        found = runs_of(backend, declaration.name, name, limit=limit)
    lines = list(history_lines(found)) or [f"{declaration.name} has not run on branch {name}"]
    lines += [f"source {source}: {_how_far(told)}" for source, told in (found[0].progress if found else {}).items()]
    if found and found[0].digest != declaration.digest:
        lines.append("the declaration has changed since the last run; --full-refresh applies it to rows read before")
    document = {
        "pipeline": declaration.name,
        "branch": name,
        "digest": declaration.digest,
        "runs": [one.to_json() for one in found],
    }
    choose_output(as_json=as_json).show(PlainReport(document=document, lines=lines))
    return 0


def _how_far(told: Any) -> str:
    if told.get("by") == "column":
        return f"read up to {told['column']} = {told['value']}"
    if "files" in told:
        return f"{counted(len(told['files']), 'file')} read by the last run"
    return "read as a whole"


@report_app.command()
def report(
    *,
    file: PipelineFile,
    store: Store = None,
    branch: RunBranch = None,
    run: RunId = None,
    html: Annotated[str | None, typer.Option("--html", metavar="FILE", help="Write it as a page of HTML.")] = None,
    as_json: AsJson = False,
) -> int:
    """Show the report of a run: steps, expectations with samples, checks and changes."""
    from omnigraph.pipelines import load_declaration, run_report  # noqa: PLC0415 - for a command line that makes sense
    from omnigraph.pipelines.report import run_lines  # noqa: PLC0415 - see above

    declaration = load_declaration(file)
    with open_pipeline_graph(store, declaration, mode="read_only") as backend:
        found = run_report(backend, declaration.name, run, branch or declaration.branch)
    if html is not None:
        write_page(html, found)
    choose_output(as_json=as_json).show(PlainReport(document=found.to_json(), lines=list(run_lines(found))))
    return 0


@quarantine_app.command()
@expand_options
def quarantine(
    *,
    file: PipelineFile,
    store: Store = None,
    branch: RunBranch = None,
    run: Annotated[str | None, typer.Option("--run", metavar="ID", help="Only the rows of this run.")] = None,
    export: Annotated[
        str | None, typer.Option("--export", metavar="FILE", help="Write the rows to a file, .parquet or .jsonl.")
    ] = None,
    replay: Annotated[
        bool, typer.Option("--replay", help="Run the steps over these rows again, after a repair, as one commit.")
    ] = False,
    publish: PublishOption = None,
    cluster: ClusterOptions,
    actor: Actor = None,
    as_json: AsJson = False,
) -> int:
    """List the rows that runs rejected, write them to a file, or run them again."""
    from omnigraph import pipelines  # noqa: PLC0415 - for a command line that makes sense
    from omnigraph.pipelines.report import run_lines  # noqa: PLC0415 - see above

    if export is not None and replay:
        raise usage_error("--export and --replay cannot be combined", value=export, expected="one of them")
    declaration = pipelines.load_declaration(file)
    name = branch or declaration.branch
    output = choose_output(as_json=as_json)
    with open_pipeline_graph(store, declaration, mode="read_write" if replay else "read_only") as backend:
        if replay:
            with cluster.open() as spark:
                done = pipelines.replay(
                    declaration,
                    backend,
                    run=run,
                    spark=spark,
                    branch=name,
                    publish=None if publish is None else publish.value,
                    actor=actor,
                )
            output.show(PlainReport(document=done.to_json(), lines=list(run_lines(done))))
            return 0
        if export is not None:
            rows = pipelines.export_quarantine(backend, declaration.name, export, run, name)
            told = PlainReport(document={"file": export, "rows": rows}, lines=[f"{counted(rows, 'row')} in {export}"])
            output.show(told)
            return 0
        waiting = [one for one in pipelines.quarantined(backend, declaration.name, name) if run in {None, one.run}]
    lines = [
        f"{one.run}  {step}  {rule}  {counted(rows, 'row')}"
        for one in waiting
        for (step, rule), rows in one.counts.items()
    ]
    document = {"pipeline": declaration.name, "branch": name, "runs": [one.to_json() for one in waiting]}
    output.show(PlainReport(document=document, lines=lines or [f"no row of {declaration.name} is in quarantine"]))
    return 0
