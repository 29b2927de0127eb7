"""Handlers of the requests about proposals."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from omnigraph.history import proposals as proposing
from omnigraph.history.proposals.proposing import LISTED_STATES, ListedState
from omnigraph.values import check_choice, check_text, check_whole, checked_names, unfit

if TYPE_CHECKING:
    from omnigraph.engine.open_graph import OpenGraph
    from omnigraph.history.proposals import CheckReport, ProposalMerge, ProposalPage, ProposalRecord
    from omnigraph.operations.proposals import (
        ApproveProposalRequest,
        CheckProposalRequest,
        CloseProposalRequest,
        CommentProposalRequest,
        GetProposalRequest,
        ListProposalsRequest,
        MergeProposalRequest,
        OpenProposalRequest,
    )
    from omnigraph.operations.request import Attachments

_MOST_APPROVALS = 100


def open_proposal(graph: OpenGraph, request: OpenProposalRequest, attached: Attachments) -> ProposalRecord:
    """Ask for a branch to be merged.

    Raises:
        BranchMissingError: there is no such branch.
        UsageError, ValueFormatError: same branches, a text that is empty or too long, a query that is not a check.
        QuerySyntaxError, QueryTypeError, QueryMeaningError, QueryNotFoundError: a check fits neither branch.
        ReadOnlyError: the graph is open for reading only.
    """
    del attached
    check_whole("required_approvals", request.required_approvals, most=_MOST_APPROVALS)
    check_text("title", request.title)
    check_text("description", request.description)
    if isinstance(request.checks, str | bytes):
        raise unfit("checks", request.checks, "a list of query texts")
    texts = tuple(request.checks)
    for text in texts:
        if not isinstance(text, bytes):
            check_text("check", text)
    return proposing.open_proposal(
        graph,
        request.source,
        request.target,
        title=request.title,
        description=request.description,
        checks=texts,
        check_names=checked_names("check_names", request.check_names),
        required_approvals=request.required_approvals,
        actor=request.actor,
    )


def list_proposals(graph: OpenGraph, request: ListProposalsRequest, attached: Attachments) -> ProposalPage:
    """Return proposals, newest first.

    Raises:
        UsageError: the state is none, or a number makes no sense.
    """
    del attached
    check_choice("state", request.state, LISTED_STATES)
    check_whole("limit", request.limit, least=1)
    check_whole("after", request.after, least=1, optional=True)
    return proposing.list_proposals(graph, cast("ListedState", request.state), request.limit, request.after)


def get_proposal(graph: OpenGraph, request: GetProposalRequest, attached: Attachments) -> ProposalRecord:
    """Return a proposal.

    Raises:
        ProposalMissingError: there is none of that number.
    """
    del attached
    return proposing.get_proposal(graph, _number(request.number))


def check_proposal(graph: OpenGraph, request: CheckProposalRequest, attached: Attachments) -> CheckReport:
    """Return whether a proposal could be merged; nothing is written.

    Raises:
        ProposalMissingError: there is none of that number.
        ProposalStateError: it was merged or closed, or a branch of it was deleted.
    """
    del attached
    return proposing.check_proposal(
        graph,
        _number(request.number),
        resolve=request.resolve,
        decisions=request.decisions,
        max_conflicts=request.max_conflicts,
    )


def comment_proposal(graph: OpenGraph, request: CommentProposalRequest, attached: Attachments) -> ProposalRecord:
    """Say something about a proposal.

    Raises:
        ProposalMissingError: there is none of that number.
        UsageError, ValueFormatError: the text is empty or too long, or only one of type and id is given.
        TypeMissingError: neither branch has such a type.
    """
    del attached
    return proposing.comment_proposal(
        graph,
        _number(request.number),
        request.text,
        type_name=request.type_name,
        entity_id=request.entity_id,
        actor=request.actor,
    )


def approve_proposal(graph: OpenGraph, request: ApproveProposalRequest, attached: Attachments) -> ProposalRecord:
    """Approve the source of a proposal as it is.

    Raises:
        ProposalMissingError: there is none of that number.
        ProposalStateError: it was merged or closed, or a branch of it was deleted.
        UsageError: no actor is given, or it is the author.
        PreconditionFailedError: the source is not at ``head``.
    """
    del attached
    return proposing.approve_proposal(graph, _number(request.number), head=request.head, actor=request.actor)


def merge_proposal(graph: OpenGraph, request: MergeProposalRequest, attached: Attachments) -> ProposalMerge:
    """Merge a proposal.

    Raises:
        ProposalMissingError: there is none of that number.
        ProposalStateError: it was merged or closed, a branch of it was deleted, or there is nothing to merge.
        ProposalApprovalsError, ProposalChecksError: it has too few approvals, or a check did not pass.
        MergeConflictsError: something cannot be decided, or the merged graph would break a rule; carries all of it.
        ReadSetChangedError, ExpectedVersionMismatchError, SchemaMovedError: another write moved what it relies on.
        PreconditionFailedError: the target is not at ``expected_head``.
    """
    del attached
    return proposing.merge_proposal(
        graph,
        _number(request.number),
        resolve=request.resolve,
        decisions=request.decisions,
        max_conflicts=request.max_conflicts,
        actor=request.actor,
        message=request.message,
        expected_head=request.expected_head,
    )


def close_proposal(graph: OpenGraph, request: CloseProposalRequest, attached: Attachments) -> ProposalRecord:
    """Give a proposal up.

    Raises:
        ProposalMissingError: there is none of that number.
        ProposalStateError: it was merged or closed before.
    """
    del attached
    return proposing.close_proposal(graph, _number(request.number), reason=request.reason, actor=request.actor)


def _number(number: int) -> int:
    check_whole("proposal", number, least=1)
    return number
