"""Merging one branch into another, and looking first what that would do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from omnigraph.catalog import Catalog
from omnigraph.engine.open_graph import OpenGraph
from omnigraph.errors import (
    MAX_CONFLICTS,
    BadValue,
    BranchMissingError,
    CommitMissingError,
    GoneState,
    HistoryGoneError,
    MergeBaseMissingError,
    MissingThing,
    OmnigraphError,
    ReadSetChange,
    ReadSetChangedError,
    RevertRefusedError,
    UsageError,
)
from omnigraph.history.diff.parts import DEFAULT_MEMORY_BYTES
from omnigraph.history.merge.conflicts import (
    Conflicts,
    MergeOutcome,
    MergePreview,
    MergeResult,
    RevertResult,
    conflicts_error,
    schema_conflict,
    table_receipts,
)
from omnigraph.history.merge.lineage import Related, base_gone, record_merge, relate
from omnigraph.history.merge.merged_state import MergeCandidate
from omnigraph.history.merge.planning import (
    MergePlan,
    Sides,
    Ways,
    plan_merge,
    refused_plan,
)
from omnigraph.history.merge.resolution import Resolution, check_resolution
from omnigraph.history.merge.sequences import reverted_sequences
from omnigraph.records import record
from omnigraph.runtime import Failpoints, counting
from omnigraph.txn.graph_store import GraphStore
from omnigraph.txn.manifest.rows import Commit, RunMark
from omnigraph.txn.manifest.sequences import joined
from omnigraph.txn.manifest.shared import SharedVersion
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.publish.phases import check_head
from omnigraph.txn.publish.publisher import CommitResult
from omnigraph.txn.publish.writer import BranchWriter
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.txn.transaction import CommitView, WriteTxn
from omnigraph.values import MAIN, BranchName, CommitId, Ulid
from omnigraph.values.checks import check_whole, unfit

# Looks at a merge that breaks no rule, and raises what forbids it.
Gate = Callable[[MergeCandidate], None]
# Decides about every row; :func:`plan_merge` does it in this process.
Planner = Callable[[Sides, Callable[[GraphSnapshot], Catalog], Ways, Failpoints], MergePlan]


@record
class PublishHooks:
    """What a merge does around the rules of the schema, each time it is about to be published.

    Args:
        before_rules: looks again at what the plan depends on.
        after_rules: gets the state to publish on and writes what has to be there first.
    """

    before_rules: Callable[[], None]
    after_rules: Callable[[GraphSnapshot], None]


def publish(
    branch_writer: BranchWriter,
    txn: WriteTxn,
    sides: Sides,
    plan: MergePlan,
    *,
    what: str,
    max_conflicts: int,
    hooks: PublishHooks | None = None,
) -> CommitResult:
    """Publish a plan that has no row conflicts: all of it, or nothing.

    Args:
        branch_writer: the branch to write to.
        txn: a transaction on the state that the plan was made for.
        sides: the states that it was made from.
        plan: what to write.
        what: how conflicts call the operation.
        max_conflicts: how many of them are told one by one.
        hooks: what else happens right before anything takes effect.

    Raises:
        MergeConflictsError: rows are undecided, or the merged graph would break a rule of its schema.
        ExpectedVersionMismatchError: a table that the plan or its validation rests on has moved.
        SchemaMovedError, PreconditionFailedError, ClaimBusyError, WriteOutcomeError: as for any commit.
    """
    if plan.conflicts:
        raise conflicts_error(plan.conflicts, what)

    def ask_rules(snapshot: GraphSnapshot) -> None:
        if hooks is not None:
            hooks.before_rules()
        found = plan.find_rule_conflicts(sides, snapshot, max_conflicts)
        if found:
            raise conflicts_error(found, what)

    def check(view: CommitView) -> None:
        ask_rules(view.snapshot)
        if hooks is not None:
            hooks.after_rules(view.snapshot)

    if plan.is_written_ahead:
        ask_rules(txn.snapshot)
    try:
        return _commit(branch_writer, txn, plan, check)
    except OmnigraphError as error:
        plan.discard(error)
        raise


def _commit(
    branch_writer: BranchWriter, txn: WriteTxn, plan: MergePlan, check: Callable[[CommitView], None]
) -> CommitResult:
    for change in plan.changes_on(branch_writer, txn):
        txn.change(change)
    if plan.schemas is not None and plan.schemas.accepted is not None:
        txn.set_schema(plan.schemas.accepted)
    for table_key in sorted(plan.reads):
        txn.read_table(table_key)
    txn.add_check(check)
    return branch_writer.commit(txn)


def merge_branch(  # noqa: PLR0913 - one for each field of the request, and what tests set
    graph: OpenGraph,
    source: str,
    target: str = MAIN,
    *,
    resolve: Resolution | None = None,
    decisions: Sequence[Any] = (),
    max_conflicts: int = MAX_CONFLICTS,
    actor: str | None = None,
    message: str | None = None,
    expected_head: str | None = None,
    expected_source_head: str | None = None,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    proposal: int | None = None,
    run: RunMark | None = None,
    gate: Gate | None = None,
    planner: Planner = plan_merge,
) -> MergeResult:
    """Bring everything that ``source`` changed since the common base into ``target``, as one commit or not at all.

    The source stays as it is; what it commits after the call began is not merged. The target is read once and must
    not move in any table that the merge reads or writes.

    Args:
        graph: the open graph.
        source: the branch to merge from.
        target: the branch to merge into.
        resolve: how to decide rows that both sides changed; None leaves them undecided, which is a conflict.
        decisions: what is decided one by one, as rows in the form of :meth:`Conflicts.to_json`.
        max_conflicts: how many conflicts are told one by one; how many there are is told always.
        actor: who asks for it.
        message: what the commit says.
        expected_head: the commit that the target must be at.
        expected_source_head: the commit that the source must be at, and that is merged.
        memory_bytes: how much of the rows that differ is in memory at once; more of them lie in temporary files.
        proposal: the number of the proposal that it merges; its commit carries it.
        run: the run of a pipeline whose branch it merges; its commit carries it.
        gate: what else the merge must pass, on every state that it is about to be published on.
        planner: who decides about the rows, and has them written.

    Raises:
        UsageError: both names are the same, or there is no such resolution.
        BranchMissingError: there is no such branch.
        MergeBaseMissingError: the branches share no commit.
        HistoryGoneError: the state that the merge starts from was reclaimed.
        MergeConflictsError: something cannot be decided, or the merged graph would break a rule; carries all of it.
        MergeDecisionError: a decision is about nothing that is in conflict, or does not fit.
        ReadSetChangedError: a branch was deleted or made anew meanwhile.
        ExpectedVersionMismatchError, SchemaMovedError: somebody changed what it was decided on.
        PreconditionFailedError: the target is not at ``expected_head``, or the source not at ``expected_source_head``.
        FileAccessError: the temporary files have no room.
    """
    names = _names(source, target)
    expected_commits = [
        None if expected is None else CommitId(Ulid.parse(expected))
        for expected in (expected_head, expected_source_head)
    ]
    ways = _ways(resolve, decisions, max_conflicts, memory_bytes)
    with counting() as counters:
        branch_writer, newest = graph.store.current(names[1])
        # Before the source is looked for: it may have been deleted after the merge.
        branch_writer.refuse_repeated(newest, actor)
        captured = graph.store.snapshot(names[0])
    # What is captured is what is merged, whatever the source commits from here on.
    check_head(captured.state, expected_commits[1])
    txn = branch_writer.begin(WriteKind.BRANCH_MERGE, actor=actor, message=message, expected_head=expected_commits[0])
    txn.counters.add(counters.cost())
    txn.proposal = proposal
    txn.run = run
    plan: MergePlan | None = None
    with counting(txn.counters):
        relation = _relate(graph.store, captured, txn.snapshot)
        branch_writer.services.runtime.failpoints.hit("history.merge.after_capture")
        if relation.outcome is MergeOutcome.ALREADY_UP_TO_DATE:
            done = branch_writer.commit(txn)
        else:
            merging = _Merging(graph, branch_writer, txn, captured, gate, planner)
            plan, done = merging.run(relation, ways)
    return MergeResult(
        source=names[0],
        target=names[1],
        outcome=relation.outcome,
        base=relation.base.id,
        tables=() if plan is None else plan.tables,
        commit=done.commit,
        manifest_version=done.manifest_version,
        cost=done.cost,
        schema_steps=() if plan is None else plan.steps,
    )


def preview_merge(
    graph: OpenGraph,
    source: str,
    target: str = MAIN,
    *,
    resolve: Resolution | None = None,
    decisions: Sequence[Any] = (),
    max_conflicts: int = MAX_CONFLICTS,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    gate: Gate | None = None,
    planner: Planner = plan_merge,
) -> MergePreview:
    """Return what :func:`merge_branch` would do with the branches as they are; nothing is written.

    ``gate`` looks at the merge if it has no conflicts.

    Raises:
        UsageError, BranchMissingError, MergeBaseMissingError, HistoryGoneError: as for the merge itself.
    """
    names = _names(source, target)
    ways = _ways(resolve, decisions, max_conflicts, memory_bytes)
    captured, ours = graph.store.snapshot(names[0]), graph.store.snapshot(names[1])
    relation = _relate(graph.store, captured, ours)
    plan: MergePlan | None = None
    conflicts = Conflicts()
    if relation.outcome is not MergeOutcome.ALREADY_UP_TO_DATE:
        sides, plan = _plan(graph, relation, captured, ours, ways, planner)
        with ours.reading(), captured.reading():
            conflicts = plan.conflicts or plan.find_rule_conflicts(sides, ours, max_conflicts)
    if gate is not None and not conflicts:
        catalog = graph.catalog_at(ours) if plan is None else plan.catalog
        gate(MergeCandidate(source=captured, target=ours, plan=plan, catalog=catalog))
    return MergePreview(
        source=names[0],
        target=names[1],
        outcome=relation.outcome,
        base=relation.base.id,
        source_head=captured.state.head.commit,
        target_head=ours.state.head.commit,
        tables=() if plan is None else plan.tables,
        conflicts=conflicts,
        schema_steps=() if plan is None else plan.steps,
    )


@record(kw_only=False)
class _Merging:
    """A merge under way: where it goes, and the state of the source that was captured for it."""

    graph: OpenGraph
    branch_writer: BranchWriter
    txn: WriteTxn
    captured: GraphSnapshot
    gate: Gate | None
    planner: Planner

    def run(self, relation: _Relation, ways: Ways) -> tuple[MergePlan, CommitResult]:
        """Plan it and publish it."""
        txn, store = self.txn, self.graph.store
        try:
            sides, plan = _plan(self.graph, relation, self.captured, txn.snapshot, ways, self.planner)
        except (BranchMissingError, CommitMissingError, HistoryGoneError):
            # A source that is gone takes its states with it; that it is gone is what the caller has to hear.
            self._expect_source()
            raise
        txn.merged_parent = self.captured.state.head.commit
        txn.sequences = tuple(joined(txn.snapshot.state.sequences, self.captured.state.sequences))
        txn.receipt = lambda: {
            "source": self.captured.state.head.branch,
            "outcome": relation.outcome.value,
            "base": relation.base.id,
            "tables": table_receipts(plan.tables),
        }

        def after_rules(newest: GraphSnapshot) -> None:
            if self.gate is not None:
                self.gate(
                    MergeCandidate(
                        source=self.captured, target=newest, plan=plan, catalog=plan.catalog, commit=txn.commit_id
                    )
                )
            self._record(relation.found, newest)

        hooks = PublishHooks(before_rules=self._expect_source, after_rules=after_rules)
        try:
            done = publish(
                self.branch_writer,
                txn,
                sides,
                plan,
                what="merge",
                max_conflicts=ways.max_conflicts,
                hooks=hooks,
            )
        except BranchMissingError as error:
            raise _changed("branch_merge_target", txn.snapshot, store) from error
        return plan, done

    def _record(self, found: Related, newest: GraphSnapshot) -> None:
        """Write down what the merge brings to the state that it is about to be published on."""
        if newest.state.head.commit != self.txn.snapshot.state.head.commit:
            found = relate(self.graph.store, self.captured, newest)
        try:
            record_merge(self.graph.store, self.txn.commit_id, self.captured, newest, found)
        except BranchMissingError as error:
            raise _changed("branch_merge_source_incarnation", self.captured, self.graph.store) from error

    def _expect_source(self) -> None:
        """Refuse to merge what belongs to a branch that is gone, or to another one of the same name."""
        head, store = self.captured.state.head, self.graph.store
        if _incarnation(store, head.branch) != head.incarnation:
            raise _changed("branch_merge_source_incarnation", self.captured, store)


@record
class _Relation:
    """How two branches stand to each other, and the commit that both come from."""

    outcome: MergeOutcome
    base: Commit
    found: Related


def _names(source: str, target: str) -> tuple[BranchName, BranchName]:
    names = BranchName.parse(source), BranchName.parse(target)
    if names[0] == names[1]:
        details = BadValue(what="source", value=names[0], expected="another branch than the target")
        raise UsageError("cannot merge a branch into itself", details=details)
    return names


def _ways(resolve: Resolution | None, decisions: object, max_conflicts: int, memory_bytes: int) -> Ways:
    check_resolution(resolve)
    check_whole("max_conflicts", max_conflicts, least=1)
    if isinstance(decisions, str | Mapping) or not isinstance(decisions, Iterable):
        raise unfit("decisions", decisions, "a list of decided rows")
    return Ways(rest=resolve, rows=tuple(decisions), max_conflicts=max_conflicts, memory_bytes=memory_bytes)


def _relate(store: GraphStore, source: GraphSnapshot, target: GraphSnapshot) -> _Relation:
    found = relate(store, source, target)
    base = found.base
    if base is None:
        names = f"'{source.state.head.branch}' and '{target.state.head.branch}'"
        details = BadValue(what="source", value=source.state.head.branch, expected="a branch that shares a commit")
        raise MergeBaseMissingError(f"branches {names} share no commit", details=details)
    if base.id == source.state.head.commit:
        outcome = MergeOutcome.ALREADY_UP_TO_DATE
    elif base.id == target.state.head.commit:
        outcome = MergeOutcome.FAST_FORWARD
    else:
        outcome = MergeOutcome.MERGED
    return _Relation(outcome=outcome, base=base, found=found)


def _plan(
    graph: OpenGraph,
    relation: _Relation,
    source: GraphSnapshot,
    target: GraphSnapshot,
    ways: Ways,
    planner: Planner,
) -> tuple[Sides, MergePlan]:
    """Plan a merge from the state of its base, and from no other: an older one would bring back what was deleted since.

    Raises:
        HistoryGoneError: the state of the base, or something else that it needs, is gone.
        BranchMissingError: a branch was deleted.
    """
    base = relation.base
    try:
        is_fast = relation.outcome is MergeOutcome.FAST_FORWARD
        sides = Sides(base=target if is_fast else graph.store.snapshot_of(base), source=source, target=target)
    except (BranchMissingError, CommitMissingError, HistoryGoneError) as error:
        raise base_gone(source, target, base.id, base.branch) from error
    try:
        return sides, planner(sides, graph.catalog_at, ways, graph.runtime.failpoints)
    except HistoryGoneError as error:
        if isinstance(error.details, GoneState) and error.details.commit_id == sides.base.state.head.commit:
            raise base_gone(source, target, base.id, base.branch) from error
        raise


def _changed(member: str, captured: GraphSnapshot, store: GraphStore) -> ReadSetChangedError:
    head = captured.state.head
    actual = _incarnation(store, head.branch)
    details = ReadSetChange(member=f"{member}:{head.branch}", expected=head.incarnation, actual=actual)
    return ReadSetChangedError(f"branch {head.branch!r} was deleted and created again", details=details)


def _incarnation(store: GraphStore, branch: BranchName) -> str | None:
    try:
        return store.branch_incarnation(branch).incarnation
    except BranchMissingError:
        return None


def revert_commit(  # noqa: PLR0913 - one for each field of the request, and what tests set
    graph: OpenGraph,
    commit: str,
    branch: str = MAIN,
    *,
    resolve: Resolution | None = None,
    decisions: Sequence[Any] = (),
    max_conflicts: int = MAX_CONFLICTS,
    actor: str | None = None,
    message: str | None = None,
    expected_head: str | None = None,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    planner: Planner = plan_merge,
) -> RevertResult:
    """Undo what one commit changed, relative to its first parent, as a commit of its own.

    Rows that later commits changed again are conflicts; "ours" then keeps the branch's rows and "theirs" brings back
    the rows as they were before the commit.

    Args:
        graph: the open graph.
        commit: the commit to undo, in the history of ``branch``.
        branch: where to undo it.
        resolve: how to decide rows that were changed since.
        decisions: what is decided one by one, as rows in the form of :meth:`Conflicts.to_json`.
        max_conflicts: how many conflicts are told one by one; how many there are is told always.
        actor: who asks for it.
        message: what the commit says; names the reverted commit when not given.
        expected_head: the commit that the branch must be at.
        memory_bytes: how much of the rows that differ is in memory at once; more of them lie in temporary files.
        planner: who decides about the rows, and has them written.

    Raises:
        CommitMissingError: the branch's history has no such commit.
        RevertRefusedError: the commit is the first one, or it is not recorded which rows it wrote.
        MergeConflictsError: later commits touched the same rows, or the graph would break a rule of its schema.
        MergeDecisionError: a decision is about nothing that is in conflict, or does not fit.
        HistoryGoneError: the state before the commit was reclaimed.
        ExpectedVersionMismatchError, SchemaMovedError, PreconditionFailedError: as for a merge.
    """
    name, wanted = BranchName.parse(branch), CommitId(Ulid.parse(commit))
    ways = _ways(resolve, decisions, max_conflicts, memory_bytes)
    with counting() as counters:
        branch_writer, _ = graph.store.current(name)
    txn = branch_writer.begin(
        WriteKind.REVERT,
        actor=actor,
        message=f"revert {wanted}" if message is None else message,
        expected_head=None if expected_head is None else CommitId(Ulid.parse(expected_head)),
    )
    txn.reverts = wanted
    txn.counters.add(counters.cost())
    with counting(txn.counters):
        sides = _revert_sides(graph.store, wanted, txn.snapshot)
        branch_writer.services.runtime.failpoints.hit("history.merge.after_capture")
        plan = _plan_revert(graph, sides, ways, planner)
        txn.sequences = reverted_sequences(graph.store, wanted, txn.snapshot)
        for mark in txn.sequences:
            txn.read_sequences(mark.stream)
    txn.receipt = lambda: {"reverted": wanted, "tables": table_receipts(plan.tables)}
    done = publish(branch_writer, txn, sides, plan, what="revert", max_conflicts=max_conflicts)
    return RevertResult(
        branch=name,
        reverted=wanted,
        tables=plan.tables,
        commit=done.commit,
        manifest_version=done.manifest_version,
        cost=done.cost,
    )


def _plan_revert(graph: OpenGraph, sides: Sides, ways: Ways, planner: Planner) -> MergePlan:
    if sides.base.state.schema.hash != sides.source.state.schema.hash:
        conflict = schema_conflict("the commit changed the schema, which a revert does not undo")
        return refused_plan(graph.catalog_at(sides.target), (conflict,))
    return planner(sides, graph.catalog_at, ways, graph.runtime.failpoints)


def _revert_sides(store: GraphStore, wanted: CommitId, target: GraphSnapshot) -> Sides:
    """Return the states that undo a commit: from what it made, back to what it was made on."""
    line = store.line_of(target)
    position = line.position_of(wanted)
    if position is None:
        details = MissingThing(what="commit", name=wanted)
        branch = target.state.head.branch
        raise CommitMissingError(f"commit '{wanted}' not found in the history of '{branch}'", details=details)
    undone = line.at(position)
    version, first = SharedVersion.of_line(line, position)
    if not first:
        details_first = BadValue(what="commit", value=wanted, expected="a commit with a parent")
        raise RevertRefusedError(
            f"commit '{wanted}' is the first of the graph and cannot be undone", details=details_first
        )
    if not version.is_told:
        details_shared = BadValue(what="commit", value=wanted, expected="a commit that recorded its rows")
        raise RevertRefusedError(
            f"commit '{wanted}' was published together with others by a version of omnigraph that did not record"
            " which rows each of them wrote",
            details=details_shared,
        )
    base, source = store.snapshot_of(undone), store.snapshot_of(line.at(first - 1))
    return Sides(base=base, source=source, target=target, rows=version.rows_of(undone))
