"""A proposal as its events tell it, together with where its branches are at this moment."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from omnigraph.records import record
from omnigraph.txn.proposals import (
    Approved,
    BranchPoint,
    Closed,
    Commented,
    DeclaredCheck,
    Events,
    MergeBegun,
    MergeDone,
    Opened,
    ProposalEvent,
)
from omnigraph.values import BranchName, CommitId
from omnigraph.values.damage import DamagedRecord, damaged_json
from omnigraph.values.printable import Printable
from omnigraph.values.temporal import format_datetime

# Where branches are by now; None is one that was deleted.
Points = Mapping[BranchName, BranchPoint | None]


class ProposalState(StrEnum):
    """What has become of a proposal. One that was merged or closed stays so."""

    OPEN = "open"
    MERGED = "merged"
    CLOSED = "closed"


@record
class ProposalComment(Printable):
    """Words about a proposal, or about one entity: ``type_key`` is ``node:Person`` then."""

    number: int
    text: str
    actor: str | None
    at_ms: int
    type_key: str | None
    entity_id: str | None

    def lines(self) -> Iterator[str]:
        """Yield who says what about what."""
        about = "" if self.type_key is None else f" on {self.type_key.partition(':')[2]} {self.entity_id}"
        yield from f"comment {self.number}{_by(self.actor)}{about}: {self.text}".splitlines()

    def to_json(self) -> dict[str, Any]:
        """Return the comment as JSON values."""
        entity = None
        if self.type_key is not None:
            kind, _, name = self.type_key.partition(":")
            entity = {"entity_kind": kind, "type_name": name, "id": self.entity_id}
        return {
            "number": self.number,
            "text": self.text,
            "actor_id": self.actor,
            "created_at": format_datetime(self.at_ms),
            "on": entity,
        }


@record
class ProposalApproval(Printable):
    """What an actor approved: the source as it is at ``head``. It is stale once the source has moved on."""

    actor: str
    head: CommitId
    at_ms: int
    is_stale: bool

    def lines(self) -> Iterator[str]:
        """Yield who approved what, and whether it still counts."""
        yield f"approved by {self.actor} at {self.head}{' (stale)' if self.is_stale else ''}"

    def to_json(self) -> dict[str, Any]:
        """Return the approval as JSON values."""
        return {
            "actor_id": self.actor,
            "source_commit_id": self.head,
            "created_at": format_datetime(self.at_ms),
            "stale": self.is_stale,
        }


@record
class ProposalRecord(Printable):
    """A proposal.

    Args:
        number: what it is called by.
        state: whether it is open.
        title: what it is about, in a line.
        description: the rest.
        author: who opened it.
        created_at_ms: when.
        source: the branch to merge from, as it was then.
        target: the branch to merge into, as it was then.
        source_head: where the source is: its head by now, or what was merged; None when the branch that was meant
            is gone, and of a closed proposal.
        target_head: the same of the target.
        checks: the queries that must return no row.
        check_texts: the sources that declare them.
        required_approvals: how many others must have approved the source as it is.
        approvals: the last one of each actor, in order.
        comments: in order.
        commit: what merged it.
        ended_at_ms: when it was merged or closed.
        ended_by: by whom.
        reason: why it was closed.
    """

    number: int
    state: ProposalState
    title: str
    description: str
    author: str | None
    created_at_ms: int
    source: BranchPoint
    target: BranchPoint
    source_head: CommitId | None
    target_head: CommitId | None
    checks: tuple[DeclaredCheck, ...]
    check_texts: tuple[str, ...]
    required_approvals: int
    approvals: tuple[ProposalApproval, ...] = ()
    comments: tuple[ProposalComment, ...] = ()
    commit: CommitId | None = None
    ended_at_ms: int | None = None
    ended_by: str | None = None
    reason: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether it can still be merged or closed."""
        return self.state is ProposalState.OPEN

    @property
    def approved_by(self) -> tuple[str, ...]:
        """Who has approved the source as it is."""
        return tuple(approval.actor for approval in self.approvals if not approval.is_stale)

    @property
    def stale_approvals(self) -> tuple[str, ...]:
        """Who has approved an earlier state of the source."""
        return tuple(approval.actor for approval in self.approvals if approval.is_stale)

    @property
    def is_approved(self) -> bool:
        """Whether enough others have approved the source as it is."""
        return len(self.approved_by) >= self.required_approvals

    @property
    def troubles(self) -> tuple[str, ...]:
        """Why an open proposal cannot be merged although nothing is wrong with its rows: branches that are gone."""
        if not self.is_open:
            return ()
        sides = ((self.source, self.source_head, "source"), (self.target, self.target_head, "target"))
        return tuple(f"{side} branch '{point.branch}' was deleted" for point, head, side in sides if head is None)

    def summary(self) -> str:
        """Return the proposal in one line."""
        parts = [f"{self.number}", self.state.value, json.dumps(self.title, ensure_ascii=False)]
        parts.append(f"{self.source.branch} → {self.target.branch}")
        if self.author is not None:
            parts.append(f"author={self.author}")
        if self.required_approvals:
            parts.append(f"approvals={len(self.approved_by)}/{self.required_approvals}")
        return "  ".join([*parts, *self.troubles])

    def lines(self) -> Iterator[str]:
        """Yield the proposal for people: what it asks for, how it stands, what was said about it."""
        yield f"proposal {self.number}: {self.title} ({self.state.value})"
        yield f"merge {self.source.branch} into {self.target.branch}, opened{_by(self.author)}"
        yield from (f"  {line}" for line in self.description.splitlines())
        yield from self.troubles
        if self.checks:
            yield f"checks: {', '.join(check.name for check in self.checks)}"
        if self.required_approvals or self.approvals:
            required = f" of {self.required_approvals} required" if self.required_approvals else ""
            yield f"approvals: {len(self.approved_by)}{required}{_listed(self.approved_by)}"
        if self.stale_approvals:
            yield f"stale approvals: {', '.join(self.stale_approvals)}"
        yield from (line for comment in self.comments for line in comment.lines())
        if self.state is ProposalState.MERGED:
            yield f"merged{_by(self.ended_by)} as commit {self.commit}"
        if self.state is ProposalState.CLOSED:
            yield f"closed{_by(self.ended_by)}{'' if self.reason is None else f': {self.reason}'}"

    def to_brief_json(self) -> dict[str, Any]:
        """Return the proposal as a list shows it."""
        return {
            "number": self.number,
            "state": self.state.value,
            "title": self.title,
            "source": self.source.branch,
            "target": self.target.branch,
            "author_id": self.author,
            "created_at": format_datetime(self.created_at_ms),
            "source_commit_id": self.source_head,
            "target_commit_id": self.target_head,
            "source_deleted": self.is_open and self.source_head is None,
            "target_deleted": self.is_open and self.target_head is None,
            "required_approvals": self.required_approvals,
            "approved_by": list(self.approved_by),
            "graph_commit_id": self.commit,
        }

    def to_json(self) -> dict[str, Any]:
        """Return the whole proposal as JSON values."""
        return {
            **self.to_brief_json(),
            "description": self.description,
            "opened_source_commit_id": self.source.head,
            "opened_target_commit_id": self.target.head,
            "checks": [check.name for check in self.checks],
            "check_texts": list(self.check_texts),
            "approvals": [approval.to_json() for approval in self.approvals],
            "comments": [comment.to_json() for comment in self.comments],
            "ended_at": None if self.ended_at_ms is None else format_datetime(self.ended_at_ms),
            "ended_by": self.ended_by,
            "reason": self.reason,
        }


@record
class ProposalPage(Printable):
    """Proposals, newest first. ``following`` gets the next page as ``after``; None means that this was the last.

    A page may hold fewer proposals than were asked for, even none, when a filter passes over many. ``damaged`` are
    proposals that cannot be understood.
    """

    proposals: tuple[ProposalRecord, ...]
    following: int | None
    damaged: tuple[DamagedRecord, ...] = ()

    def __iter__(self) -> Iterator[ProposalRecord]:
        return iter(self.proposals)

    def __len__(self) -> int:
        return len(self.proposals)

    def lines(self) -> Iterator[str]:
        """Yield a line for each proposal."""
        yield from (proposal.summary() for proposal in self.proposals)
        yield from (line for one in self.damaged for line in one.lines())

    def to_json(self) -> dict[str, Any]:
        """Return the page as JSON values."""
        return {
            "proposals": [proposal.to_brief_json() for proposal in self.proposals],
            "next": self.following,
            **damaged_json(self.damaged),
        }


def opening_of(events: Events) -> Opened:
    """Return what a proposal was made with."""
    first = events[0].what
    assert isinstance(first, Opened)  # noqa: S101 - for the type checker: no other event is stored under that number
    return first


def merge_of(events: Events, landed: Collection[CommitId]) -> ProposalEvent | None:
    """Return the event of the merge that was published, or None.

    Args:
        events: what happened to the proposal.
        landed: commits of merges that have begun and are in the history of the target, whatever the events say.
    """
    done = {event.what.commit for event in events if isinstance(event.what, MergeDone)} | set(landed)
    begun = [event for event in events if isinstance(event.what, MergeBegun) and event.what.commit in done]
    return begun[-1] if begun else None


def unsettled(events: Events) -> tuple[MergeBegun, ...]:
    """Return merges that have begun and of which no event tells how they ended; none if one is known to have."""
    if any(isinstance(event.what, MergeDone) for event in events):
        return ()
    return tuple(event.what for event in events if isinstance(event.what, MergeBegun))


def fold(events: Events, points: Points, landed: Collection[CommitId] = ()) -> ProposalRecord:
    """Return the proposal that events tell of.

    Args:
        events: all of them, in order.
        points: where the branches of an open proposal are; may lack those of one that has ended.
        landed: as for :func:`merge_of`. A merge that was published counts whatever came after it.
    """
    opened, first = opening_of(events), events[0]
    merged = merge_of(events, landed)
    closed = next((event for event in events if isinstance(event.what, Closed)), None)
    reason = closed.what.reason if closed is not None and isinstance(closed.what, Closed) else None
    ended = merged or closed
    source_head = target_head = commit = None
    if merged is not None and isinstance(merged.what, MergeBegun):
        source_head, commit = merged.what.source_head, merged.what.commit
        target_head = commit
    elif closed is None:
        source_head, target_head = (_head_of(point, points) for point in (opened.source, opened.target))
    state = ProposalState.OPEN
    if ended is not None:
        state = ProposalState.CLOSED if merged is None else ProposalState.MERGED
    is_compared = state is not ProposalState.CLOSED
    return ProposalRecord(
        number=first.proposal,
        state=state,
        title=opened.title,
        description=opened.description,
        author=first.actor,
        created_at_ms=first.at_ms,
        source=opened.source,
        target=opened.target,
        source_head=source_head,
        target_head=target_head,
        checks=opened.checks,
        check_texts=opened.texts,
        required_approvals=opened.required_approvals,
        approvals=_approvals(events, lambda head: is_compared and head != source_head),
        comments=_comments(events),
        commit=commit,
        ended_at_ms=None if ended is None else ended.at_ms,
        ended_by=None if ended is None else ended.actor,
        reason=reason if state is ProposalState.CLOSED else None,
    )


def _head_of(opened: BranchPoint, points: Points) -> CommitId | None:
    """Return where a branch is by now, None when it is gone or another one has its name."""
    now = points.get(opened.branch)
    return None if now is None or now.incarnation != opened.incarnation else now.head


def _approvals(events: Events, is_stale: Callable[[CommitId], bool]) -> tuple[ProposalApproval, ...]:
    last: dict[str, ProposalApproval] = {}
    for event in events:
        if isinstance(event.what, Approved) and event.actor is not None:
            head = event.what.head
            last.pop(event.actor, None)
            last[event.actor] = ProposalApproval(
                actor=event.actor, head=head, at_ms=event.at_ms, is_stale=is_stale(head)
            )
    return tuple(last.values())


def _comments(events: Events) -> tuple[ProposalComment, ...]:
    said = [(event, event.what) for event in events if isinstance(event.what, Commented)]
    return tuple(
        ProposalComment(
            number=number,
            text=what.text,
            actor=event.actor,
            at_ms=event.at_ms,
            type_key=what.type_key,
            entity_id=what.entity_id,
        )
        for number, (event, what) in enumerate(said, start=1)
    )


def _by(actor: str | None) -> str:
    return "" if actor is None else f" by {actor}"


def _listed(names: Sequence[str]) -> str:
    return f" ({', '.join(names)})" if names else ""
