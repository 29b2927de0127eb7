"""Requests about proposals: asking for a branch to be merged, looking at it together, and merging it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from omnigraph.errors.history import MAX_CONFLICTS
from omnigraph.operations.request import Request, operation
from omnigraph.policy.decision import Action
from omnigraph.records import record
from omnigraph.values import MAIN

if TYPE_CHECKING:
    from omnigraph.history.merge import Resolution
    from omnigraph.history.proposals import CheckReport, ProposalMerge, ProposalPage, ProposalRecord


@operation("open_proposal", Action.CHANGE, writes=True)
@record
class OpenProposalRequest(Request["ProposalRecord"]):
    """Ask for a branch to be merged into another; nothing is merged yet.

    Args:
        source: the branch to merge from.
        target: the branch to merge into.
        title: what it is about, in one line.
        description: the rest.
        checks: whole ``.gq`` sources; every query in them must return no row in the merged state. They are kept with
            the proposal.
        check_names: only these of their queries; all of them when empty.
        required_approvals: how many others than the author must have approved the source as it is.
        actor: who asks for it.
    """

    source: str
    title: str
    target: str = MAIN
    description: str = ""
    checks: Iterable[str | bytes] = ()
    check_names: Iterable[str] = ()
    required_approvals: int = 0
    actor: str | None = None


@operation("list_proposals", Action.READ)
@record
class ListProposalsRequest(Request["ProposalPage"]):
    """List proposals, newest first.

    Args:
        state: only those that are ``open``, ``merged`` or ``closed``; ``all`` of them.
        limit: how many at most.
        after: ``following`` of the page before: the number to go on behind.
    """

    state: str = "open"
    limit: int = 20
    after: int | None = None


@operation("get_proposal", Action.READ)
@record
class GetProposalRequest(Request["ProposalRecord"]):
    """Show a proposal: how it stands, its checks, approvals and comments."""

    number: int


@operation("check_proposal", Action.READ)
@record
class CheckProposalRequest(Request["CheckReport"]):
    """Show what merging a proposal would do, and run its checks on the merged state; nothing is written.

    ``resolve``, ``decisions`` and ``max_conflicts`` are those of a merge.
    """

    number: int
    resolve: Resolution | None = None
    decisions: Sequence[Mapping[str, Any]] = ()
    max_conflicts: int = MAX_CONFLICTS


@operation("comment_proposal", Action.CHANGE, writes=True)
@record
class CommentProposalRequest(Request["ProposalRecord"]):
    """Say something about a proposal, or about the entity of a type and an id; also when it has ended."""

    number: int
    text: str
    type_name: str | None = None
    entity_id: str | None = None
    actor: str | None = None


@operation("approve_proposal", Action.BRANCH_MERGE, writes=True)
@record
class ApproveProposalRequest(Request["ProposalRecord"]):
    """Approve the source of a proposal as it is; ``head`` is the commit that it must be at."""

    number: int
    head: str | None = None
    actor: str | None = None


@operation("merge_proposal", Action.BRANCH_MERGE, writes=True)
@record
class MergeProposalRequest(Request["ProposalMerge"]):
    """Merge a proposal, if every check passes on the state that is published.

    Args:
        number: the proposal.
        resolve: how to decide rows that both sides changed: ``ours``, ``theirs`` or ``properties``; None leaves them
            undecided, which is a conflict.
        decisions: what is decided one by one, as for a merge.
        max_conflicts: how many conflicts are told one by one.
        actor: who asks for it.
        message: what the commit says; the number and the title of the proposal when None.
        expected_head: the commit that the target must be at.
    """

    number: int
    resolve: Resolution | None = None
    decisions: Sequence[Mapping[str, Any]] = ()
    max_conflicts: int = MAX_CONFLICTS
    actor: str | None = None
    message: str | None = None
    expected_head: str | None = None


@operation("close_proposal", Action.CHANGE, writes=True)
@record
class CloseProposalRequest(Request["ProposalRecord"]):
    """Give a proposal up; it stays listed, and nothing happens to its branches."""

    number: int
    reason: str | None = None
    actor: str | None = None
