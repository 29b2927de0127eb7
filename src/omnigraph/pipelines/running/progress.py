"""How far the sources of a pipeline were read, as the commits of its runs tell; there is no second store.

Of a column every run tells the greatest value, of files only those that it read itself: all runs that count together
have read the files that need not be read again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Any

from omnigraph.engine.open_graph import OpenGraph
from omnigraph.errors import RunConflict, RunConflictError
from omnigraph.history.runs import runs_that_count
from omnigraph.records import record
from omnigraph.spark.steps.sources import SourceFile, Watermark
from omnigraph.txn.manifest.rows import RunMark
from omnigraph.txn.snapshot import GraphSnapshot


@record
class ReadSoFar:
    """What the runs that count have read of all sources.

    Args:
        run: the newest of them; None when there is none.
        head: the commit that this was found out at.
        digest: what stands for the declaration of that run.
        columns: by source how far it was read by a column.
        files: by source the files that were read, by path.
        marks: by source what the newest run that says something about it says.
    """

    run: str | None
    head: str
    digest: str | None = None
    columns: Mapping[str, Watermark] = field(default_factory=lambda: MappingProxyType({}))
    files: Mapping[str, Mapping[str, SourceFile]] = field(default_factory=lambda: MappingProxyType({}))
    marks: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


def read_so_far(engine: OpenGraph, snapshot: GraphSnapshot, pipeline: str) -> ReadSoFar:
    """Return how far the sources of a pipeline were read in the history that a state ends."""
    newest: RunMark | None = None
    columns: dict[str, Watermark] = {}
    files: dict[str, dict[str, SourceFile]] = {}
    marks: dict[str, Any] = {}
    for found in runs_that_count(engine.store, snapshot, pipeline):
        newest = newest or found.mark
        for source, told in found.mark.progress.items():
            marks.setdefault(source, told)
            match told.get("by"):
                case "column":
                    columns.setdefault(source, Watermark(column=told["column"], type=told["type"], value=told["value"]))
                case "files":
                    known = files.setdefault(source, {})
                    for path, size, version in told["files"]:
                        known.setdefault(path, SourceFile(path=path, size=size, version=version))
                case _:
                    pass
    return ReadSoFar(
        run=None if newest is None else newest.run,
        head=snapshot.state.head.commit,
        digest=None if newest is None else newest.digest,
        columns=columns,
        files=files,
        marks=marks,
    )


def expect_unmoved(engine: OpenGraph, snapshot: GraphSnapshot, so_far: ReadSoFar, *, pipeline: str, run: str) -> None:
    """Return if a state that a run is about to be published on tells the same of its sources as when it began.

    Raises:
        RunConflictError: another run of the pipeline is there since, or one that counted does not any more.
    """
    if not _may_differ(engine, snapshot, so_far.head, pipeline):
        return
    newest = next(iter(runs_that_count(engine.store, snapshot, pipeline)), None)
    other = None if newest is None else newest.mark.run
    if other != so_far.run:
        branch = snapshot.state.head.branch
        raise RunConflictError(
            f"run '{run}' of pipeline '{pipeline}' began before another one of branch '{branch}' had ended",
            details=RunConflict(pipeline=pipeline, run=run, branch=branch, other=other),
        )


def _may_differ(engine: OpenGraph, snapshot: GraphSnapshot, head: str, pipeline: str) -> bool:
    """Whether something that matters stands between two states; history before the older one need not be read."""
    for commit, _ in engine.store.refs.iter_all_commits(snapshot):
        if commit.id == head:
            return False
        if commit.reverts is not None or (commit.run is not None and commit.run.pipeline == pipeline):
            return True
    return True
