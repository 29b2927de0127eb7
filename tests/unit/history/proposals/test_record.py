"""What events make of a proposal, as a table: nothing here touches storage."""

from __future__ import annotations

import pytest

from omnigraph.history.proposals.record import ProposalState, fold, unsettled
from omnigraph.txn.proposals import (
    Approved,
    BranchPoint,
    Closed,
    Commented,
    DeclaredCheck,
    MergeBegun,
    MergeDone,
    Opened,
    ProposalEvent,
)
from omnigraph.values import BranchName, CommitId, Ulid

FIRST, SECOND, MERGED, OTHER = (CommitId(Ulid(f"01ARZ3NDEKTSV4RRFFQ69G5FA{end}")) for end in "ABCD")
DRAFT, MAIN = BranchName("draft"), BranchName("main")


def point(branch, head, incarnation="one"):
    return BranchPoint(branch=branch, incarnation=incarnation, head=head)


OPENED = Opened(
    title="t",
    description="",
    source=point(DRAFT, FIRST),
    target=point(MAIN, FIRST, "main"),
    texts=("query q() { }",),
    checks=(DeclaredCheck(name="q", text=0),),
    required_approvals=1,
)
POINTS = {DRAFT: point(DRAFT, FIRST), MAIN: point(MAIN, SECOND, "main")}
MOVED = {**POINTS, DRAFT: point(DRAFT, SECOND)}
BEGUN = MergeBegun(commit=MERGED, version=9, source_head=FIRST, target_head=SECOND, checks=("q",), approved_by=())
DONE, CLOSED = MergeDone(commit=MERGED), Closed(reason="no")


def told(*happened):
    """Events in order; the author is ann, and others are told with their actor."""
    pairs = [(OPENED, "ann"), *(one if isinstance(one, tuple) else (one, "bob") for one in happened)]
    return tuple(
        ProposalEvent(proposal=7, number=number, identity=str(number), at_ms=number, actor=actor, what=what)
        for number, (what, actor) in enumerate(pairs, start=1)
    )


@pytest.mark.parametrize(
    ("happened", "landed", "state", "commit", "ended_at_ms"),
    [
        ((), (), "open", None, None),
        ((CLOSED,), (), "closed", None, 2),
        # Only that it is in the history of the target makes a merge of what had begun.
        ((BEGUN,), (), "open", None, None),
        ((BEGUN,), (MERGED,), "merged", MERGED, 2),
        ((BEGUN,), (OTHER,), "open", None, None),
        ((BEGUN, DONE), (), "merged", MERGED, 2),
        ((BEGUN, CLOSED), (), "closed", None, 3),
        ((BEGUN, CLOSED), (MERGED,), "merged", MERGED, 2),
        ((BEGUN, CLOSED, DONE), (), "merged", MERGED, 2),
        # A merge that is tried again tells of it again.
        ((BEGUN, BEGUN, DONE), (), "merged", MERGED, 3),
    ],
)
def test_a_merge_that_was_published_counts_and_nothing_else_does(happened, landed, state, commit, ended_at_ms):
    found = fold(told(*happened), POINTS, landed)
    assert (found.state, found.commit, found.ended_at_ms) == (ProposalState(state), commit, ended_at_ms)
    assert found.is_open == (state == "open")
    assert found.reason == ("no" if state == "closed" else None)
    heads = {"open": (FIRST, SECOND), "merged": (FIRST, MERGED), "closed": (None, None)}[state]
    assert (found.source_head, found.target_head) == heads


@pytest.mark.parametrize(
    ("happened", "count"), [((), 0), ((BEGUN,), 1), ((BEGUN, BEGUN), 2), ((BEGUN, DONE), 0), ((BEGUN, CLOSED), 1)]
)
def test_what_began_and_is_not_known_to_have_ended_has_to_be_looked_for(happened, count):
    assert len(unsettled(told(*happened))) == count


def _by(actor, head):
    return (Approved(head=head), actor)


@pytest.mark.parametrize(
    ("happened", "points", "given", "stale"),
    [
        ((), POINTS, (), ()),
        ((_by("bob", FIRST),), POINTS, ("bob",), ()),
        ((_by("bob", FIRST),), MOVED, (), ("bob",)),
        ((_by("bob", FIRST), _by("bob", SECOND)), MOVED, ("bob",), ()),
        ((_by("bob", FIRST), _by("cy", SECOND)), MOVED, ("cy",), ("bob",)),
        # What was merged is what was approved, wherever the source is by now.
        ((_by("bob", FIRST), BEGUN, DONE), MOVED, ("bob",), ()),
        ((_by("bob", SECOND), BEGUN, DONE), MOVED, (), ("bob",)),
        # A branch that is gone has no state that could be approved.
        ((_by("bob", FIRST),), {MAIN: POINTS[MAIN]}, (), ("bob",)),
    ],
)
def test_an_approval_is_bound_to_the_head_that_it_was_given_for(happened, points, given, stale):
    found = fold(told(*happened), points)
    assert (found.approved_by, found.stale_approvals, found.is_approved) == (given, stale, len(given) == 1)


@pytest.mark.parametrize(
    ("points", "troubles"),
    [
        (POINTS, ()),
        ({**POINTS, DRAFT: None}, ("source branch 'draft' was deleted",)),
        ({**POINTS, DRAFT: point(DRAFT, FIRST, "two")}, ("source branch 'draft' was deleted",)),
        ({DRAFT: POINTS[DRAFT]}, ("target branch 'main' was deleted",)),
    ],
)
def test_a_branch_that_was_deleted_or_made_anew_is_not_the_one_that_was_meant(points, troubles):
    found = fold(told(), points)
    assert found.troubles == troubles
    assert all(trouble in found.summary() for trouble in troubles)
    assert fold(told(CLOSED), points).troubles == ()


def test_a_proposal_shows_everything_that_was_said():
    said = [(Commented(text="why?\nreally?"), None), Commented(text="so", type_key="node:Person", entity_id="ann")]
    found = fold(told(*said, _by("bob", FIRST)), POINTS)
    assert str(found).splitlines() == [
        "proposal 7: t (open)",
        "merge draft into main, opened by ann",
        "checks: q",
        "approvals: 1 of 1 required (bob)",
        "comment 1: why?",
        "really?",
        "comment 2 by bob on Person ann: so",
    ]
    assert repr(found) == "<ProposalRecord: proposal 7: t (open)>"
    document = found.to_json()
    assert [one["on"] for one in document["comments"]] == [
        None,
        {"entity_kind": "node", "type_name": "Person", "id": "ann"},
    ]
    assert (document["checks"], document["approved_by"], document["state"]) == (["q"], ["bob"], "open")
