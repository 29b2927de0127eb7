"""Proposals: requests to merge a branch, with checks, comments and approvals."""

from omnigraph.history.proposals.checks import CheckReport, CheckResult, CheckStatus
from omnigraph.history.proposals.proposing import (
    ProposalMerge,
    approve_proposal,
    check_proposal,
    close_proposal,
    comment_proposal,
    get_proposal,
    list_proposals,
    merge_proposal,
    open_proposal,
)
from omnigraph.history.proposals.record import (
    ProposalApproval,
    ProposalComment,
    ProposalPage,
    ProposalRecord,
    ProposalState,
)

__all__ = [
    "CheckReport",
    "CheckResult",
    "CheckStatus",
    "ProposalApproval",
    "ProposalComment",
    "ProposalMerge",
    "ProposalPage",
    "ProposalRecord",
    "ProposalState",
    "approve_proposal",
    "check_proposal",
    "close_proposal",
    "comment_proposal",
    "get_proposal",
    "list_proposals",
    "merge_proposal",
    "open_proposal",
]
