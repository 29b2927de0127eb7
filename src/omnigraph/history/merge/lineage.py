"""How two branches stand to each other, and writing down what a merge brings before it is published.

A merge and the deletion of its source meet on a mark, as a new branch and the deletion of its parent do: the merge
writes its mark and then looks whether the source is being deleted; a deletion claims the branch and then looks for
marks. Either the deletion keeps the states of the source, or the merge is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from omnigraph.errors import GoneState, HistoryGoneError
from omnigraph.history.merge.ancestry import Graph, SupportsLines
from omnigraph.records import record
from omnigraph.txn.branches.incarnation import MAIN_INCARNATION, BranchIncarnation
from omnigraph.txn.branches.records import Dependant
from omnigraph.txn.graph_store import GraphStore
from omnigraph.txn.manifest.merged import MergedCommit, record_of
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.values import BranchName, CommitId


@record
class Related:
    """The best common ancestor of two branches, None when they share nothing, and what one has that the other lacks.

    ``commits`` are those of the source along first parents that the target does not have, newest first; ``had`` are
    commits that merges among them lead to and that the target does have.
    """

    base: Commit | None
    commits: tuple[Commit, ...]
    had: frozenset[CommitId]


def relate(store: GraphStore, source: GraphSnapshot, target: GraphSnapshot) -> Related:
    """Return how two states stand to each other.

    Raises:
        HistoryGoneError: it is not recorded what a merge brought that their base depends on.
    """
    incarnations = source.state.head.incarnation, target.state.head.incarnation

    def brought(merges: Sequence[Commit]) -> Iterable[Commit]:
        found = store.merges.read_many(merges)
        for merge in merges:
            if merge.id not in found:
                raise base_gone(source, target, merge.id, merge.branch)
        return (one.commit for part in found.values() for one in part)

    def is_apart(line: Sequence[Commit], known: Graph) -> bool:
        return _is_apart(store, line, known, incarnations)

    lines = SupportsLines(brought=brought, is_apart=is_apart)
    base = lines.base_of(store.iter_commits(source), store.iter_commits(target))
    commits, had = lines.new_commits()
    return Related(base=base, commits=tuple(commits), had=frozenset(had))


def base_gone(source: GraphSnapshot, target: GraphSnapshot, commit: CommitId, branch: BranchName) -> HistoryGoneError:
    """Return the error for a merge that cannot tell which side changed what, because of a commit that was reclaimed."""
    ours, theirs = target.state.head.branch, source.state.head.branch
    return HistoryGoneError(
        f"branches '{theirs}' and '{ours}' cannot be merged: the state of commit '{commit}', which both have, was"
        " reclaimed",
        details=GoneState(commit_id=commit, branch=branch),
        hint=(
            f"compare them (omnigraph diff {ours} {theirs}), write the wanted changes to '{ours}', "
            "and continue on a new branch of it"
        ),
    )


def _is_apart(store: GraphStore, line: Sequence[Commit], known: Graph, incarnations: Collection[str]) -> bool:
    """Tell by marks if no other branch has commits of a line; of main there are no marks.

    That spares reading what every merge into the other branch brought. ``incarnations`` are the two branches: another
    one that once had the name of one of them may have brought commits elsewhere.
    """
    own = {commit.branch for commit in line}
    if MAIN_INCARNATION.name in own:
        return False
    refs = store.open_branches.refs
    for name in own:
        ref = refs.find(name)
        if ref is None:
            return False
        for mark in refs.marks.of(ref.line):
            is_known = mark.kind == "tag" or (mark.kind == "branch" and mark.identity in incarnations)
            merge = known.get(CommitId(mark.identity)) if mark.kind == "merge" else None  # type: ignore[arg-type] # compared only
            if not is_known and (merge is None or merge.merged_parent not in known):
                return False
    return True


def record_merge(
    store: GraphStore, merge: CommitId, source: GraphSnapshot, target: GraphSnapshot, found: Related
) -> None:
    """Write down what a merge is about to bring to ``target``, and make sure that the states of its source stay.

    Raises:
        BranchMissingError, BranchClosingError: the source was deleted, or is about to be.
    """
    refs, lines = store.open_branches.refs, _lines(store, source, {commit.branch for commit in found.commits})
    line = lines[source.state.head.branch]
    refs.marks.add(line, Dependant(kind="merge", name=target.state.head.branch, identity=str(merge)))
    merged = (MergedCommit(commit=commit, line=lines[commit.branch]) for commit in found.commits)
    store.merges.add(merge, target.state.version + 1, record_of(merged, found.had))
    store.stores.runtime.failpoints.hit("history.merge.after_record")
    refs.check_open(line)


def _lines(
    store: GraphStore, source: GraphSnapshot, names: Collection[BranchName]
) -> dict[BranchName, BranchIncarnation]:
    """Return the lines that commits of a branch landed on: its own, and those of the branches it came from."""
    head = source.state.head
    own = source.manifest.life.line
    found = {own.name: own, MAIN_INCARNATION.name: MAIN_INCARNATION}
    at = head.branch
    while not found.keys() >= set(names):
        ref = store.open_branches.refs.get(at)
        found[ref.parent.name] = ref.parent
        at = ref.parent.name
    return found
