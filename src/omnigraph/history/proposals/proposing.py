"""What can be done with proposals: opening, looking, commenting, approving, merging and closing them.

A merge is a fact of the target's history, and its events only tell of it. Before it is published an event names its
commit, so that a later look finds out whether it landed, also when the process died right behind it. A merge
that landed counts, whatever other events came meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, get_args

from omnigraph.engine.open_graph import OpenGraph
from omnigraph.engine.results.entity import find_table
from omnigraph.errors import (
    MAX_CONFLICTS,
    BadValue,
    BranchMissingError,
    HeadMismatch,
    ManifestCorruptError,
    MissingApprovals,
    OmnigraphError,
    PreconditionFailedError,
    ProposalApprovalsError,
    ProposalStateError,
    TypeMissingError,
    UsageError,
)
from omnigraph.history.merge import MergeResult, Resolution, merge_branch, preview_merge
from omnigraph.history.merge.merged_state import MergeCandidate
from omnigraph.history.proposals.checks import (
    CheckReport,
    CheckResult,
    checks_not_run,
    declare_checks,
    refuse_failed,
    run_checks,
)
from omnigraph.history.proposals.record import (
    ProposalPage,
    ProposalRecord,
    ProposalState,
    fold,
    opening_of,
    unsettled,
)
from omnigraph.records import record
from omnigraph.txn.proposals import (
    Approved,
    BranchPoint,
    Closed,
    Commented,
    Events,
    Happening,
    MergeBegun,
    MergeDone,
    Opened,
    described,
)
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.values import MAIN, BranchName, CommitId, Ulid, checked_text
from omnigraph.values.damage import DamagedRecord
from omnigraph.values.printable import Printable

_log = logging.getLogger(__name__)

ListedState = Literal["open", "merged", "closed", "all"]
LISTED_STATES: Sequence[str] = get_args(ListedState)
_MOST_TITLE = 200
_MOST_TEXT = 64 << 10
# How many proposals one page looks at before it gives its caller a word, when few of them are wanted.
_MOST_LOOKED_AT = 256
_AT_ONCE = 16


@record
class ProposalMerge(Printable):
    """What merging a proposal did: the proposal as it is now, the merge, and the checks that it passed."""

    proposal: ProposalRecord
    merge: MergeResult
    checks: tuple[CheckResult, ...]

    def lines(self) -> Iterator[str]:
        """Yield what was merged as which commit, and what happened by type."""
        yield f"merged proposal {self.proposal.number} as commit {self.proposal.commit}"
        yield from self.merge.lines()
        yield from (line for check in self.checks for line in check.lines())

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {
            "proposal": self.proposal.to_brief_json(),
            "merge": self.merge.to_json(),
            "checks": [check.to_json() for check in self.checks],
        }


def open_proposal(
    graph: OpenGraph,
    source: str,
    target: str = MAIN,
    *,
    title: str,
    description: str = "",
    checks: Sequence[str | bytes] = (),
    check_names: Sequence[str] = (),
    required_approvals: int = 0,
    actor: str | None = None,
) -> ProposalRecord:
    """Ask for a branch to be merged into another.

    Args:
        graph: the open graph.
        source: the branch to merge from.
        target: the branch to merge into.
        title: what it is about, in one line.
        description: the rest.
        checks: whole ``.gq`` sources; every query in them must return no row in the merged state.
        check_names: only these of their queries, all of them when empty.
        required_approvals: how many others than the author must have approved the source as it is.
        actor: who asks for it.

    Raises:
        ReadOnlyError: the graph is open for reading only.
        BranchMissingError: there is no such branch.
        UsageError, ValueFormatError: same branches, a text that is empty or too long, a query that is not a check.
        QuerySyntaxError, QueryTypeError, QueryMeaningError, QueryNotFoundError: a check fits neither branch.
    """
    graph.store.refuse_reading()
    names = BranchName.parse(source), BranchName.parse(target)
    if names[0] == names[1]:
        details = BadValue(what="source", value=names[0], expected="another branch than the target")
        raise UsageError("the source and the target of a proposal must differ", details=details)
    title = _checked_words("title", title, _MOST_TITLE).strip()
    if "\n" in title:
        details = BadValue(what="title", value=title[:_MOST_TITLE], expected="one line")
        raise UsageError("the title of a proposal is one line", details=details)
    if description:
        _checked_words("description", description, _MOST_TEXT)
    author = checked_text("actor", actor)
    states = tuple(graph.store.snapshot(name) for name in names)
    texts, declared = declare_checks(checks, check_names, [graph.catalog_at(state) for state in states])
    from_point, into_point = map(_point, states)
    opened = Opened(
        title=title,
        description=description,
        source=from_point,
        target=into_point,
        texts=texts,
        checks=declared,
        required_approvals=required_approvals,
    )
    made = graph.store.proposals.open(opened, author)
    return fold((made,), {point.branch: point for point in (from_point, into_point)})


def get_proposal(graph: OpenGraph, number: int) -> ProposalRecord:
    """Return a proposal as it is.

    Raises:
        ProposalMissingError: there is none of that number.
    """
    return _Looking(graph).record(graph.store.proposals.read(number))


def list_proposals(
    graph: OpenGraph, state: ListedState = "open", limit: int = 20, after: int | None = None
) -> ProposalPage:
    """Return proposals, newest first; those that cannot be understood are shown as damaged, whatever their state.

    Args:
        graph: the open graph.
        state: only those that are ``open``, ``merged`` or ``closed``; ``all`` of them.
        limit: how many at most.
        after: the number to go on behind.
    """
    stored, looking = graph.store.proposals, _Looking(graph)
    if state == "open":
        waiting = [number for number in stored.marked() if after is None or number < after]
    else:
        newest = stored.newest()
        waiting = list(range(newest if after is None else min(newest, after - 1), 0, -1))
    chosen: list[ProposalRecord] = []
    damaged: list[DamagedRecord] = []
    for start in range(0, min(len(waiting), _MOST_LOOKED_AT), _AT_ONCE):
        numbers = waiting[start : start + _AT_ONCE]
        found = stored.read_many(numbers, damaged)
        for place, number in enumerate(numbers, start=start + 1):
            if number not in found:
                # A mark without a proposal: its opener was interrupted, and the number is free.
                continue
            try:
                proposal = looking.record(found[number])
            except ManifestCorruptError as error:
                # A branch of it cannot be understood.
                damaged.append(described(number, error))
                continue
            if state in {"all", proposal.state.value}:
                chosen.append(proposal)
            if len(chosen) == limit:
                is_last = place == len(waiting)
                # Those behind are on the next page.
                on_page = tuple(one for one in damaged if int(one.name) > number)
                return ProposalPage(proposals=tuple(chosen), following=None if is_last else number, damaged=on_page)
    is_last = len(waiting) <= _MOST_LOOKED_AT
    following = None if is_last else waiting[_MOST_LOOKED_AT - 1]
    return ProposalPage(proposals=tuple(chosen), following=following, damaged=tuple(damaged))


def check_proposal(
    graph: OpenGraph,
    number: int,
    *,
    resolve: Resolution | None = None,
    decisions: Sequence[Any] = (),
    max_conflicts: int = MAX_CONFLICTS,
) -> CheckReport:
    """Return whether a proposal could be merged as everything is; nothing is written.

    ``resolve``, ``decisions`` and ``max_conflicts`` are those of a merge.

    Raises:
        ProposalMissingError: there is none of that number.
        ProposalStateError: it was merged or closed, or a branch of it was deleted.
        UsageError, MergeBaseMissingError: as for a merge.
    """
    proposal = get_proposal(graph, number)
    _expect_open(proposal)
    _expect_branches(proposal)
    results = checks_not_run(proposal)

    def gate(candidate: MergeCandidate) -> None:
        nonlocal results
        results = run_checks(graph, proposal, candidate)

    merge = preview_merge(
        graph,
        proposal.source.branch,
        proposal.target.branch,
        resolve=resolve,
        decisions=decisions,
        max_conflicts=max_conflicts,
        gate=gate,
    )
    return CheckReport(proposal=proposal, merge=merge, checks=results)


def comment_proposal(
    graph: OpenGraph,
    number: int,
    text: str,
    *,
    type_name: str | None = None,
    entity_id: str | None = None,
    actor: str | None = None,
) -> ProposalRecord:
    """Say something about a proposal, or about one entity; also when it has ended.

    Args:
        graph: the open graph.
        number: the proposal.
        text: the words.
        type_name: the type of the entity, ``Person`` or ``node:Person``.
        entity_id: its id; the entity itself need not exist.
        actor: who says it.

    Raises:
        ReadOnlyError: the graph is open for reading only.
        ProposalMissingError: there is none of that number.
        UsageError, ValueFormatError: the text is empty or too long, or only one of type and id is given.
        TypeMissingError: neither branch has such a type.
    """
    graph.store.refuse_reading()
    _checked_words("comment", text, _MOST_TEXT)
    if (type_name is None) != (entity_id is None):
        details = BadValue(what="entity", value=str(type_name or entity_id), expected="its type and its id")
        raise UsageError("an entity has a type and an id", details=details)
    type_key = None
    if type_name is not None:
        type_key = _type_key(graph, opening_of(graph.store.proposals.read(number)), type_name)
    said = Commented(text=text, type_key=type_key, entity_id=checked_text("entity id", entity_id))
    return _Looking(graph).append(number, lambda _: said, actor)


def approve_proposal(
    graph: OpenGraph, number: int, *, head: str | None = None, actor: str | None = None
) -> ProposalRecord:
    """Approve the source of a proposal as it is at this moment; what it commits later is not approved.

    Args:
        graph: the open graph.
        number: the proposal.
        head: the commit that the source must be at; None approves whatever it is at.
        actor: who approves; must be given, and be another than the author.

    Raises:
        ReadOnlyError: the graph is open for reading only.
        ProposalMissingError: there is none of that number.
        ProposalStateError: it was merged or closed, or a branch of it was deleted.
        UsageError: no actor is given, or it is the author.
        PreconditionFailedError: the source is not at ``head``.
    """
    graph.store.refuse_reading()
    expected = None if head is None else CommitId(Ulid.parse(head))
    if actor is None:
        details = BadValue(what="actor", value="none", expected="who approves")
        raise UsageError("an approval needs an actor", details=details)

    def decide(proposal: ProposalRecord) -> Happening:
        _expect_open(proposal)
        _expect_branches(proposal)
        now = proposal.source_head
        if actor == proposal.author:
            details = BadValue(what="actor", value=actor, expected="an actor other than the author")
            raise UsageError(f"'{actor}' opened proposal {number} and cannot approve it", details=details)
        if now is None or (expected is not None and now != expected):
            details_of_head = HeadMismatch(branch=proposal.source.branch, expected=str(expected), actual=str(now))
            raise PreconditionFailedError(
                f"the branch head is commit '{now}', not '{expected}'", details=details_of_head
            )
        return Approved(head=now)

    return _Looking(graph).append(number, decide, actor)


def close_proposal(
    graph: OpenGraph, number: int, *, reason: str | None = None, actor: str | None = None
) -> ProposalRecord:
    """Give a proposal up; it stays listed, and nothing happens to its branches.

    Raises:
        ReadOnlyError: the graph is open for reading only.
        ProposalMissingError: there is none of that number.
        ProposalStateError: it was merged or closed before.
    """
    graph.store.refuse_reading()
    if reason:
        _checked_words("reason", reason, _MOST_TEXT)

    looking = _Looking(graph)
    _expect_open(looking.settled(number))

    def decide(proposal: ProposalRecord) -> Happening:
        _expect_open(proposal)
        return Closed(reason=reason or None)

    return looking.append(number, decide, actor)


def merge_proposal(
    graph: OpenGraph,
    number: int,
    *,
    resolve: Resolution | None = None,
    decisions: Sequence[Any] = (),
    max_conflicts: int = MAX_CONFLICTS,
    actor: str | None = None,
    message: str | None = None,
    expected_head: str | None = None,
) -> ProposalMerge:
    """Merge the source of a proposal into its target, if every check passes on the state that is published.

    Args:
        graph: the open graph.
        number: the proposal.
        resolve: how to decide rows that both sides changed; None leaves them undecided, which is a conflict.
        decisions: what is decided one by one, as for a merge.
        max_conflicts: how many conflicts are told one by one.
        actor: who asks for it.
        message: what the commit says; the number and the title of the proposal when not given.
        expected_head: the commit that the target must be at.

    Raises:
        ReadOnlyError: the graph is open for reading only.
        ProposalMissingError: there is none of that number.
        ProposalStateError: it was merged or closed, a branch of it was deleted, or there is nothing to merge.
        ProposalApprovalsError: too few others have approved the source as it is.
        ProposalChecksError: a check found rows in the merged state, or could not run on it.
        MergeConflictsError and others: as for a merge.
    """
    graph.store.refuse_reading()
    stored, looking = graph.store.proposals, _Looking(graph)
    proposal = looking.settled(number)
    _expect_open(proposal)
    _expect_branches(proposal)
    _expect_approved(proposal)
    passed: tuple[CheckResult, ...] = ()
    begun: Events = ()

    def gate(candidate: MergeCandidate) -> None:
        nonlocal passed, begun
        passed = run_checks(graph, proposal, candidate)
        refuse_failed(number, passed)
        begun = stored.append(number, lambda events: _begin(graph, events, candidate, passed), actor)

    done = merge_branch(
        graph,
        proposal.source.branch,
        proposal.target.branch,
        resolve=resolve,
        decisions=decisions,
        max_conflicts=max_conflicts,
        actor=actor,
        message=f"merge proposal {number}: {proposal.title}" if message is None else message,
        expected_head=expected_head,
        proposal=number,
        gate=gate,
    )
    if done.commit is None:
        raise _nothing_to_merge(looking.settled(number))
    commit = done.commit.id
    graph.runtime.failpoints.hit("history.proposal.after_publish")
    try:
        begun = stored.append(number, lambda _: MergeDone(commit=commit), actor)
    except OmnigraphError as trouble:
        # It is merged, and every look at the proposal finds that out.
        _log.warning("could not record that proposal %s was merged: %s", number, trouble)
    return ProposalMerge(proposal=fold(begun, {}, {commit}), merge=done, checks=passed)


def _begin(graph: OpenGraph, events: Events, candidate: MergeCandidate, passed: Sequence[CheckResult]) -> MergeBegun:
    """Decide, on the newest events, that a merge may be published on the state that it was checked on."""
    points = {point.branch: point for point in map(_point, (candidate.source, candidate.target))}
    proposal = fold(events, points, _landed(graph, events, candidate.target))
    _expect_open(proposal)
    _expect_branches(proposal)
    _expect_approved(proposal)
    assert candidate.commit is not None  # noqa: S101 - for the type checker: a merge that publishes has one
    return MergeBegun(
        commit=candidate.commit,
        version=candidate.target.state.version + 1,
        source_head=candidate.source.state.head.commit,
        target_head=candidate.target.state.head.commit,
        checks=tuple(result.name for result in passed),
        approved_by=proposal.approved_by,
    )


class _Looking:
    """Looks at proposals, and at each of their branches once."""

    def __init__(self, graph: OpenGraph) -> None:
        self._graph = graph
        self._states: dict[BranchName, GraphSnapshot | None] = {}

    def record(self, events: Events) -> ProposalRecord:
        """Return the proposal that events tell of, as it is at this moment."""
        ended = fold(events, {})
        opened = opening_of(events)
        target = self._state(opened.target) if ended.is_open or unsettled(events) else None
        landed = () if target is None else _landed(self._graph, events, target)
        if not ended.is_open or landed:
            return fold(events, {}, landed)
        states = (self._state(opened.source), target)
        return fold(events, {point.branch: point for point in (_point(state) for state in states if state is not None)})

    def append(self, number: int, decide: Callable[[ProposalRecord], Happening], actor: str | None) -> ProposalRecord:
        """Add what ``decide`` makes of the newest proposal, and return the proposal after it."""
        checked = checked_text("actor", actor)

        def next_event(events: Events) -> Happening:
            self._states.clear()
            return decide(self.record(events))

        return self.record(self._graph.store.proposals.append(number, next_event, checked))

    def settled(self, number: int) -> ProposalRecord:
        """Return a proposal, and record that it was merged if the process that merged it could not."""
        stored = self._graph.store.proposals
        events = stored.read(number)
        proposal = self.record(events)
        if proposal.commit is not None and unsettled(events):
            done = MergeDone(commit=proposal.commit)
            stored.append(number, lambda _: done, proposal.ended_by)
        return proposal

    def _state(self, point: BranchPoint) -> GraphSnapshot | None:
        """Return the newest state of a branch, None when the one that was meant is gone."""
        if point.branch not in self._states:
            try:
                self._states[point.branch] = self._graph.store.snapshot(point.branch)
            except BranchMissingError:
                self._states[point.branch] = None
        found = self._states[point.branch]
        return None if found is None or _point(found).incarnation != point.incarnation else found


def _landed(graph: OpenGraph, events: Events, target: GraphSnapshot) -> frozenset[CommitId]:
    """Return the merges that no event tells the end of and that are in the history of the target."""
    waiting = [begun for begun in unsettled(events) if begun.version <= target.state.version]
    if not waiting:
        return frozenset()
    line = graph.store.refs.line_of(target)
    found = ((begun.commit, line.made_by(begun.version)) for begun in waiting)
    return frozenset(commit for commit, made in found if made is not None and made.id == commit)


def _point(state: GraphSnapshot) -> BranchPoint:
    line = state.manifest.life.line
    return BranchPoint(branch=line.name, incarnation=line.incarnation, head=state.state.head.commit)


def _type_key(graph: OpenGraph, opened: Opened, type_name: str) -> str:
    """Return the table of a type that one of the branches has."""
    missing: OmnigraphError | None = None
    for point in (opened.source, opened.target):
        try:
            return find_table(graph.store.snapshot(point.branch).state.tables, type_name)
        except (BranchMissingError, TypeMissingError) as error:
            missing = error
    assert missing is not None  # noqa: S101 - for the type checker: there are two branches
    raise missing


def _checked_words(what: str, text: object, most: int) -> str:
    checked = checked_text(what, text)
    if checked is None or not checked.strip() or len(checked) > most:
        shown = "" if checked is None else checked[:_MOST_TITLE]
        details = BadValue(what=what, value=shown, expected=f"1 to {most} characters")
        raise UsageError(f"the {what} of a proposal has 1 to {most} characters", details=details)
    return checked


def _expect_open(proposal: ProposalRecord) -> None:
    if proposal.is_open:
        return
    became = "closed" if proposal.state is ProposalState.CLOSED else f"merged as commit '{proposal.commit}'"
    details = BadValue(what=f"proposal {proposal.number}", value=proposal.state.value, expected="open")
    raise ProposalStateError(
        f"proposal {proposal.number} was {became}",
        details=details,
        hint="open another proposal for the rest",
    )


def _expect_branches(proposal: ProposalRecord) -> None:
    for trouble in proposal.troubles:
        details = BadValue(what=f"proposal {proposal.number}", value=trouble, expected="both of its branches")
        raise ProposalStateError(
            f"the {trouble} after proposal {proposal.number} was opened",
            details=details,
            hint="close the proposal, and open a new one for the new branch of that name",
        )


def _expect_approved(proposal: ProposalRecord) -> None:
    if proposal.is_approved:
        return
    given, stale = proposal.approved_by, proposal.stale_approvals
    details = MissingApprovals(proposal=proposal.number, required=proposal.required_approvals, given=given, stale=stale)
    earlier = f"; approvals of earlier commits do not count: {', '.join(stale)}" if stale else ""
    raise ProposalApprovalsError(
        f"proposal {proposal.number} has {len(given)} of {proposal.required_approvals} required approvals{earlier}",
        details=details,
    )


def _nothing_to_merge(proposal: ProposalRecord) -> ProposalStateError:
    _expect_open(proposal)
    source, target = proposal.source.branch, proposal.target.branch
    details = BadValue(what=f"proposal {proposal.number}", value="nothing to merge", expected="commits to merge")
    return ProposalStateError(
        f"branch '{target}' already has all commits of '{source}'", details=details, hint="close the proposal"
    )
