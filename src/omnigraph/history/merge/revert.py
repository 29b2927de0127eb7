"""Undoing one commit by another: a three-way merge back to the state before it."""

from __future__ import annotations

from omnigraph.engine.session import GraphSession
from omnigraph.errors import BadValue, CommitMissingError, MissingThing, RevertRefusedError
from omnigraph.history.merge.budget import DEFAULT_MEMORY_BYTES, Budget
from omnigraph.history.merge.planning import Sides, plan_merge
from omnigraph.history.merge.publishing import publish
from omnigraph.history.merge.resolve import Resolution, check_resolution
from omnigraph.history.merge.results import RevertResult
from omnigraph.runtime import Counters
from omnigraph.txn.graph_store import GraphStore
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.plan import WriteKind
from omnigraph.txn.snapshot import Snapshot
from omnigraph.values import MAIN, BranchName, CommitId, Ulid


def revert_commit(
    session: GraphSession,
    commit: str,
    branch: str = MAIN,
    *,
    resolve: Resolution | None = None,
    actor: str | None = None,
    message: str | None = None,
    expected_head: str | None = None,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
) -> RevertResult:
    """Undo what one commit changed, relative to its first parent, as a commit of its own.

    Rows that later commits changed again are conflicts; "ours" then keeps the branch's rows and "theirs" brings back
    the rows as they were before the commit.

    Args:
        session: the open graph.
        commit: the commit to undo, in the history of ``branch``.
        branch: where to undo it.
        resolve: how to decide rows that were changed since.
        actor: who asks for it.
        message: what the commit says; names the reverted commit when not given.
        expected_head: the commit that the branch must be at.
        memory_bytes: how much of the rows that differ may be in memory at once.

    Raises:
        CommitMissingError: the branch's history has no such commit.
        RevertRefusedError: the commit is the first one, or was published together with others.
        MergeConflictsError: later commits touched the same rows, or the graph would break a rule of its schema.
        HistoryGoneError: the state before the commit was reclaimed.
        ExpectedVersionMismatchError, SchemaMovedError, PreconditionFailedError: as for a merge.
    """
    name, wanted = BranchName.parse(branch), CommitId(Ulid.parse(commit))
    check_resolution(resolve)
    counters = Counters()
    authority, _ = session.store.current(name, counters)
    txn = authority.begin(
        WriteKind.REVERT,
        actor=actor,
        message=f"revert {wanted}" if message is None else message,
        expected_head=None if expected_head is None else CommitId(Ulid.parse(expected_head)),
    )
    txn.counters.add(counters.cost())
    sides = _sides(session.store, wanted, txn.snapshot, txn.counters)
    authority.services.world.failpoints.hit("history.merge.after_capture")
    catalog = session.catalog_at(txn.snapshot)
    plan = plan_merge(sides, catalog, resolve, Budget(memory_bytes), txn.counters)
    done = publish(authority, txn, sides, plan, catalog, what="revert")
    return RevertResult(
        branch=name,
        reverted=wanted,
        tables=plan.tables,
        commit=done.commit,
        manifest_version=done.manifest_version,
        cost=done.cost,
    )


def _sides(store: GraphStore, wanted: CommitId, target: Snapshot, counters: Counters) -> Sides:
    """Return the states that undo a commit: from what it made, back to what it was made on."""
    undone, parent = _find(store, wanted, target, counters)
    base = store.snapshot_of(undone, counters)
    if parent.manifest_version == undone.manifest_version or base.state.head.commit != undone.id:
        details = BadValue(what="commit", value=wanted, expected="a commit that was published alone")
        raise RevertRefusedError(f"the commit was published together with others commit={wanted}", details=details)
    return Sides(base=base, source=store.snapshot_of(parent, counters), target=target)


def _find(store: GraphStore, wanted: CommitId, target: Snapshot, counters: Counters) -> tuple[Commit, Commit]:
    """Return a commit of the branch's history and its first parent, which is the next older one there."""
    history = store.iter_commits(target, counters)
    undone = next((commit for commit in history if commit.id == wanted), None)
    if undone is None:
        details = MissingThing(what="commit", name=wanted)
        branch = target.state.head.branch
        raise CommitMissingError(f"commit '{wanted}' not found in the history of '{branch}'", details=details)
    parent = next(history, None)
    if parent is None:
        details_first = BadValue(what="commit", value=wanted, expected="a commit with a parent")
        raise RevertRefusedError(f"the first commit of a graph cannot be undone commit={wanted}", details=details_first)
    return undone, parent
