"""The log: a branch's commits newest first, page by page, each page at the same cost wherever it is."""

from __future__ import annotations

import re
from typing import Any

from omnigraph.errors import BadValue, ValueFormatError
from omnigraph.records import record
from omnigraph.txn.manifest.commits import CommitLine
from omnigraph.txn.manifest.rows import Commit
from omnigraph.values import CommitId, Ulid, is_ulid

# How many commits one page looks at before it gives its caller a word, when few of them are wanted.
_MOST_LOOKED_AT = 4096
_POSITION = re.compile(r"[0-9]{1,18}")


@record
class LogFilter:
    """Which commits are wanted; None wants all.

    Args:
        actor: who asked for them.
        operation: what they were, such as ``mutate`` or ``branch_merge``.
        type_name: ``Person`` or ``node:Person``, a type they changed as it was called then.
        since_ms: published at this moment or later.
        until_ms: published at this moment or earlier.
    """

    actor: str | None = None
    operation: str | None = None
    type_name: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    def wants(self, commit: Commit) -> bool:
        """Whether a commit is wanted; time is decided by where to begin and where to stop."""
        return (
            self.actor in {None, commit.actor}
            and self.operation in {None, commit.operation}
            and (self.type_name is None or any(self._names(key) for key in commit.touched))
        )

    def _names(self, table_key: str) -> bool:
        return self.type_name in {table_key, table_key.partition(":")[2]}


@record
class LogPage:
    """Commits, newest first. ``following`` gets the next page; None means that this was the last.

    A page may hold fewer commits than were asked for, even none, when a filter passes over many.
    """

    commits: tuple[Commit, ...]
    following: str | None

    def to_json(self) -> dict[str, Any]:
        """Return the page as every result shows it."""
        return {"commits": [commit.to_json() for commit in self.commits], "next": self.following}


def read_log(line: CommitLine, wanted: LogFilter, limit: int, after: str | None) -> LogPage:
    """Return one page.

    Args:
        line: the history of a branch.
        wanted: which commits.
        limit: how many at most.
        after: the ``following`` of the page before, or the id of a commit to go on behind.

    Raises:
        ValueFormatError: ``limit`` is not positive, or ``after`` is not a place in this history.
    """
    given: object = limit
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        details = BadValue(what="limit", value=str(limit), expected="a positive number")
        raise ValueFormatError(f"not a number of commits: limit={limit}", details=details)
    before = len(line) if after is None else _position(line, after)
    if wanted.until_ms is not None:
        newest = line.newest_until(wanted.until_ms)
        before = min(before, 0 if newest is None else newest + 1)
    chosen: list[Commit] = []
    for looked_at, (position, commit) in enumerate(line.back(before), start=1):
        if wanted.since_ms is not None and commit.published_at_ms < wanted.since_ms:
            return LogPage(commits=tuple(chosen), following=None)
        if wanted.wants(commit):
            chosen.append(commit)
        if position and (len(chosen) == limit or looked_at >= _MOST_LOOKED_AT):
            return LogPage(commits=tuple(chosen), following=f"{commit.id}.{position}")
    return LogPage(commits=tuple(chosen), following=None)


def _position(line: CommitLine, after: str) -> int:
    """Return where a page ended. The id proves that a position was counted along this very history."""
    text, _, number = after.strip().partition(".")
    if is_ulid(text):
        commit_id = CommitId(Ulid(text))
        if not number:
            found = line.position_of(commit_id)
            if found is not None:
                return found
        elif _POSITION.fullmatch(number) and int(number) < len(line) and line.at(int(number)).id == commit_id:
            return int(number)
    details = BadValue(what="log position", value=after[:64], expected="what an earlier page of this branch gave")
    raise ValueFormatError(f"not a place in the history of this branch: {after[:64]!r}", details=details)
