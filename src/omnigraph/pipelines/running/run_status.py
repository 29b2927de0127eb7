"""The runs of a pipeline, as the commits of a branch tell."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from omnigraph.engine.open_graph import OpenGraph
from omnigraph.errors import MissingThing, RunMissingError
from omnigraph.history.runs import PipelineRun, pipeline_runs
from omnigraph.pipelines.results import RunReport
from omnigraph.spark.sessions.session import engine_of
from omnigraph.values import MAIN, BranchName, check_whole


def status(graph: Any, pipeline: str | None = None, branch: str = MAIN, *, limit: int = 20) -> tuple[RunReport, ...]:
    """Return what the runs told that led to the newest state of a branch, newest first.

    Args:
        graph: the open graph.
        pipeline: whose runs; those of all pipelines when None.
        branch: whose history.
        limit: how many at most.
    """
    check_whole("limit", limit, least=1)
    return tuple(islice(_runs(engine_of(graph), pipeline, branch), limit))


def run_report(graph: Any, pipeline: str, run: str | None = None, branch: str = MAIN) -> RunReport:
    """Return what a run told, the newest one when None.

    Raises:
        RunMissingError: history has no such run.
    """
    for found in _runs(engine_of(graph), pipeline, branch):
        if run in {None, found.run}:
            return found
    details = MissingThing(what="run", name=run or "", near=())
    raise RunMissingError(f"branch '{branch}' has no run '{run or ''}' of pipeline '{pipeline}'", details=details)


def _runs(engine: OpenGraph, pipeline: str | None, branch: str) -> Iterator[RunReport]:
    seen: set[str] = set()
    for found in pipeline_runs(engine.store, engine.store.snapshot(BranchName.parse(branch)), pipeline):
        if found.mark.run not in seen:
            # A merge and the commit that it brought tell of the same run.
            seen.add(found.mark.run)
            yield _report(found)


def _report(found: PipelineRun) -> RunReport:
    mark = found.mark
    usual = {"pipeline": mark.pipeline, "run": mark.run, "branch": found.commit.branch, "publish": "direct"}
    told = {**usual, "outcome": "published", "digest": mark.digest, **mark.report, "progress": mark.progress}
    return RunReport.from_json({**told, "commit": found.commit.id, "is_undone": found.is_undone})
