"""What may be asked of a session about history: the log, branches and tags, in the words of a caller."""

from __future__ import annotations

from omnigraph.runtime import Calls, Counters, counted
from omnigraph.txn.branches.status import BranchStatus
from omnigraph.txn.branches.tags import Tag
from omnigraph.txn.graph_store import GraphStore
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.refs import LogFilter, LogPage
from omnigraph.values import MAIN, BranchName, CommitId, TagName, Ulid, check_text, check_whole
from omnigraph.values.temporal import parse_datetime


class HistoryCalls:
    """The calls of a session that look at history or name places in it. Each takes and gives plain values."""

    store: GraphStore
    _calls: Calls

    @counted
    def log(
        self,
        branch: str = MAIN,
        *,
        limit: int = 20,
        after: str | None = None,
        actor: str | None = None,
        operation: str | None = None,
        type_name: str | None = None,
        since: str | None = None,
        until: str | None = None,
        counters: Counters | None = None,
    ) -> LogPage:
        """Return commits of a branch's history, newest first.

        Args:
            branch: whose history.
            limit: how many at most.
            after: ``following`` of the page before, or the id of a commit to go on behind.
            actor: only those that this actor asked for.
            operation: only those of this kind, such as ``mutate``.
            type_name: only those that changed this type, ``Person`` or ``node:Person``.
            since: only those published at this moment or later.
            until: only those published at this moment or earlier.
            counters: where the calls go.

        Raises:
            BranchMissingError: there is no such branch.
            ValueFormatError: a moment, the limit or ``after`` makes no sense.
        """
        check_whole("limit", limit, least=1)
        given = {
            "after": after,
            "actor": actor,
            "operation": operation,
            "type_name": type_name,
            "since": since,
            "until": until,
        }
        for what, value in given.items():
            if value is not None:
                check_text(what, value)
        wanted = LogFilter(
            actor=actor,
            operation=operation,
            type_name=type_name,
            since_ms=None if since is None else parse_datetime(since),
            until_ms=None if until is None else parse_datetime(until),
        )
        return self.store.past.log(BranchName.parse(branch), wanted, limit, after, counters or Counters())

    @counted
    def show(self, commit_id: str, branch: str = MAIN) -> Commit:
        """Return a commit, looked for in the history of ``branch`` and then of every other.

        Raises:
            CommitMissingError: no live branch's history has such a commit.
        """
        return self.store.past.show(CommitId(Ulid.parse(commit_id)), BranchName.parse(branch), Counters())

    @counted
    def branches(self) -> tuple[BranchStatus, ...]:
        """Return the live branches and how each stands to the one it came from, main first, then by name."""
        return self.store.branches(Counters())

    @counted
    def create_branch(
        self, name: str, source: str = MAIN, *, at: str | None = None, actor: str | None = None
    ) -> BranchStatus:
        """Create a branch at the newest state of ``source``, or at what the reference ``at`` names.

        Raises:
            BranchExistsError: the name, or one that overlaps with it, is taken.
            BranchMissingError, TagMissingError, CommitMissingError, HistoryGoneError: there is no such state.
            BranchClosingError: the source is about to be deleted.
        """
        made = self.store.create_branch(BranchName.parse(name), source=BranchName.parse(source), at=at, actor=actor)
        return self.store.branch_status(made, Counters())

    @counted
    def delete_branch(self, name: str, *, actor: str | None = None) -> None:
        """Delete a branch and its own commits for good.

        Raises:
            UsageError: it is main.
            BranchMissingError: there is no such branch.
            BranchInUseError: a branch or a tag depends on it.
        """
        self.store.delete_branch(BranchName.parse(name), actor=actor)

    @counted
    def tags(self) -> tuple[Tag, ...]:
        """Return every tag, by name."""
        return self.store.tags.list(Counters())

    @counted
    def create_tag(self, name: str, at: str = MAIN, *, actor: str | None = None, message: str | None = None) -> Tag:
        """Name the state that the reference ``at`` means at this moment; it is kept from being reclaimed.

        Raises:
            TagExistsError: the name is taken.
            BranchMissingError, CommitMissingError, HistoryGoneError: there is no such state.
        """
        return self.store.create_tag(TagName.parse(name), at, actor=actor, message=message)

    @counted
    def delete_tag(self, name: str) -> Tag:
        """Remove a tag and return it.

        Raises:
            TagMissingError: there is none of that name.
        """
        return self.store.delete_tag(TagName.parse(name))
