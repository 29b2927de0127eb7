"""What change logs remember behind a revert: everything but what the undone commits had brought."""

from __future__ import annotations

from omnigraph.errors import BranchMissingError, CommitMissingError, HistoryGoneError
from omnigraph.store.sequence_runs import run_key
from omnigraph.txn.graph_store import GraphStore
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.manifest.sequences import SequenceMark, UndoneCommits, reverted
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.values import CommitId


def reverted_sequences(store: GraphStore, wanted: CommitId, target: GraphSnapshot) -> tuple[SequenceMark, ...]:
    """Return what the revert of a commit does to what is remembered of change logs.

    There is nothing to do if the commit added nothing. Runs are merged as calls come, so what it brought cannot be
    taken out of those that hold: they are put together again, from the state before the oldest commit that is undone
    and from what every later one added. Where a cleanup has taken some of that away, everything stays remembered. Rows
    of the undone commit can be applied again all the same: a row with the sequence of its entity is not late.
    """
    if not target.state.sequences:
        return ()
    kept: list[SequenceMark] = []
    undone, history = UndoneCommits(wanted), store.iter_commits(target)
    for commit in history:
        if undone.counts(commit.id, commit.reverts):
            kept.extend(commit.sequences)
        elif commit.id == wanted and not commit.sequences:
            return ()
        if undone.is_over:
            parent = next(history, None)
            return () if parent is None else _put_together(store, target, kept, parent)
    return ()


def _put_together(
    store: GraphStore, target: GraphSnapshot, kept: list[SequenceMark], parent: Commit
) -> tuple[SequenceMark, ...]:
    try:
        before = store.snapshot_of(parent).state.sequences
    except (BranchMissingError, CommitMissingError, HistoryGoneError):
        return ()
    marks = tuple(reverted(target.state.sequences, kept, before))
    control = store.stores.control
    is_whole = all(control.exists(run_key(run.name)) for mark in marks for run in mark.puts)
    return marks if is_whole else ()
