"""``Log``: commits of a branch, newest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from omnigraph.engine.results.notebook import html_rows
from omnigraph.txn.log import LogPage
from omnigraph.txn.manifest.rows import Commit
from omnigraph.values.temporal import format_datetime


class Log(Sequence[Commit]):
    """A page of history. ``following`` gets the next page; None means that this was the last."""

    def __init__(self, branch: str, page: LogPage) -> None:
        self._branch = branch
        self._page = page

    @property
    def following(self) -> str | None:
        """What ``after`` of the next call is."""
        return self._page.following

    @overload
    def __getitem__(self, index: int) -> Commit: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Commit, ...]: ...
    def __getitem__(self, index: int | slice) -> Commit | tuple[Commit, ...]:
        return self._page.commits[index]

    def __len__(self) -> int:
        return len(self._page.commits)

    def __iter__(self) -> Iterator[Commit]:
        return iter(self._page.commits)

    def __str__(self) -> str:
        return "\n".join("  ".join(filter(None, row)) for row in self._rows())

    def __repr__(self) -> str:
        return f"<Log of {self._branch}: {len(self)} commits{'' if self.following is None else ', more follow'}>"

    def _repr_html_(self) -> str:
        columns = ("commit", "published", "operation", "actor", "message", "types")
        return html_rows(repr(self)[1:-1], columns, self._rows())

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for commit in self:
            yield (
                str(commit.id),
                format_datetime(commit.published_at_ms),
                commit.operation,
                commit.actor or "",
                commit.message or "",
                ", ".join(commit.touched),
            )
