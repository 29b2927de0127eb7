"""The runs of pipelines as history has them: which of them still count, and so from where the next one goes on.

How far a run has read is part of the commit that holds its rows. Whatever happens to the commit happens to the
progress as well: a branch has that of the state it began with, a merge brings that of the branch, and a revert takes
it back, so that the next run reads the rows again.
"""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.records import record
from omnigraph.txn.graph_store import GraphStore
from omnigraph.txn.manifest.rows import Commit, RunMark
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.values import CommitId


@record
class PipelineRun:
    """One run that was published. ``is_undone``: its commit, or the merge that brought it, was reverted later."""

    commit: Commit
    mark: RunMark
    is_undone: bool = False


def pipeline_runs(store: GraphStore, snapshot: GraphSnapshot, pipeline: str | None = None) -> Iterator[PipelineRun]:
    """Yield the runs that led to a state, newest first, also those that merges brought.

    Args:
        store: the open graph.
        snapshot: the state.
        pipeline: the pipeline whose runs are wanted; those of all when None.
    """
    for commit, is_undone in _commits(store, snapshot, set()):
        mark = commit.run
        if mark is not None and pipeline in {None, mark.pipeline}:
            yield PipelineRun(commit=commit, mark=mark, is_undone=is_undone)


def runs_that_count(store: GraphStore, snapshot: GraphSnapshot, pipeline: str) -> Iterator[PipelineRun]:
    """Yield the runs whose rows are all in a state, newest first: the first one says how far sources were read.

    A run that was reverted does not count, nor do the runs between it and its revert: they began where it had ended,
    so that the rows it had read would be passed over.
    """
    unmet: set[CommitId] = set()
    waiting: list[PipelineRun] = []
    for commit, is_undone in _commits(store, snapshot, unmet):
        mark = commit.run
        if mark is not None and mark.pipeline == pipeline:
            if is_undone:
                waiting.clear()
            else:
                waiting.append(PipelineRun(commit=commit, mark=mark))
        if not unmet:
            # Everything that was undone has been passed: what is older counts as it is.
            yield from waiting
            waiting.clear()
    yield from waiting


def _commits(store: GraphStore, snapshot: GraphSnapshot, unmet: set[CommitId]) -> Iterator[tuple[Commit, bool]]:
    """Yield a history newest first, with what merges brought; whether each was undone.

    ``unmet`` holds the commits that were undone by one that was yielded, and that have not been yielded themselves.
    """
    undone: set[CommitId] = set()
    merge: CommitId | None = None
    for commit, is_brought in store.refs.iter_all_commits(snapshot):
        if not is_brought:
            # What a merge brought is undone with it, so the merge counts as met behind the last of them.
            if merge is not None:
                unmet.discard(merge)
            merge = commit.id
        is_undone = commit.id in undone or (is_brought and merge in undone)
        if is_brought:
            unmet.discard(commit.id)
        if commit.reverts is not None and not is_undone:
            undone.add(commit.reverts)
            unmet.add(commit.reverts)
        yield commit, is_undone
