"""``Diff``, ``Log`` and ``Baseline``: differences, commits of a branch, and where a feed starts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NoReturn, overload

from omnigraph.engine.accepted import catalog_of
from omnigraph.engine.results.table import MAX_ROWS, html_problem, html_rows
from omnigraph.errors import BadValue, OmnigraphError, UsageError
from omnigraph.graph.waiting import computed, drawn
from omnigraph.history.commit_graph import draw_commits
from omnigraph.history.diff.change import EntityChange, EntityImage
from omnigraph.history.diff.compare import DiffStats, GraphDiff
from omnigraph.history.diff.lines import change_lines, counts_line
from omnigraph.operations.history import LogRequest
from omnigraph.operations.request import Backend
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.refs import LogPage
from omnigraph.values.counts import counted
from omnigraph.values.printable import Printable


class Diff:
    """The difference between two pinned states. Iterating gives the changes, edges first, types by name, then by id."""

    def __init__(self, found: GraphDiff) -> None:
        self._found = found

    @property
    def before(self) -> str:
        """The commit of the earlier state."""
        return str(self._found.before.state.head.commit)

    @property
    def after(self) -> str:
        """The commit of the later state."""
        return str(self._found.after.state.head.commit)

    def __iter__(self) -> Iterator[EntityChange]:
        yield from drawn(self._found)

    def __str__(self) -> str:
        """The counts, then a line for each of the first changes, for ``print``."""
        stats = self.stats()
        lines = change_lines(islice(self, MAX_ROWS), catalog_of(self._found.after.state.schema))
        rest = _total(stats) - MAX_ROWS
        more = [f"… and {rest} more changes"] if rest > 0 else []
        return "\n".join([counts_line(stats), *lines, *more])

    def __reduce__(self) -> NoReturn:
        details = BadValue(what="difference", value=repr(self), expected="the result of to_json()")
        raise UsageError(
            "a difference cannot be sent to another process", details=details, hint="send the result of to_json()"
        )

    def __repr__(self) -> str:
        return f"<Diff from {self.before} to {self.after}>"

    def stats(self) -> DiffStats:
        """Return how many entities differ, by type; no row becomes a Python value.

        Raises:
            ChangeSchemaBoundaryError: a type that both states have differs in its columns.
        """
        return computed(self._found.stats)

    def to_json(self) -> dict[str, Any]:
        """Return the whole difference as JSON values.

        Raises:
            ChangeSchemaBoundaryError: a type that both states have differs in its columns.
        """
        return computed(self._found.to_json)

    def _repr_html_(self) -> str:
        try:
            stats = self.stats()
        except OmnigraphError as problem:
            return html_problem(self, problem)
        rows = (
            (change.op, f"{change.kind} {change.type.name}", change.id, _told(change))
            for change in islice(self, MAX_ROWS)
        )
        return html_rows(counts_line(stats), ("op", "type", "id", "values"), rows, more=_total(stats) - MAX_ROWS)


def _total(stats: DiffStats) -> int:
    return stats.inserts + stats.updates + stats.deletes


def _told(change: EntityChange) -> str:
    before, after = _fields(change.before), _fields(change.after)
    if change.op == "update":
        return ", ".join(f"{name}: {_json(before.get(name))} → {_json(after.get(name))}" for name in change.changed)
    return ", ".join(f"{name}: {_json(value)}" for name, value in {**before, **after}.items() if value is not None)


def _fields(image: EntityImage | None) -> dict[str, Any]:
    if image is None:
        return {}
    ends = {} if image.endpoints is None else image.endpoints.to_json()
    return {**ends, **image.properties}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


class Log(Sequence[Commit]):
    """A page of history; :meth:`next_page` gets the page behind it."""

    def __init__(self, backend: Backend, request: LogRequest, page: LogPage) -> None:
        self._backend: Backend | None = backend
        self._request = request
        self._page = page

    def next_page(self) -> Log | None:
        """Return the commits behind these, None if these were the last.

        Raises:
            UsageError: this page was sent from another process, and knows no graph.
        """
        following = self._page.following
        if following is None:
            return None
        if self._backend is None:
            details = BadValue(what="log", value=repr(self), expected="a log of a graph that is open here")
            raise UsageError("this log came from another process and has no graph", details=details)
        request = replace(self._request, after=following)
        return Log(self._backend, request, self._backend.execute(request))

    def draw(self) -> str:
        """Return a text drawing of the commits and how they follow from each other; useful with ``full``."""
        return "\n".join(draw_commits(self._page.commits))

    def __getstate__(self) -> dict[str, Any]:
        return {"_backend": None, "_request": self._request, "_page": self._page}

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
        return "\n".join(map(str, self))

    def __repr__(self) -> str:
        more = "" if self._page.following is None else ", more follow"
        return f"<Log of {self._request.branch}: {counted(len(self), 'commit')}{more}>"

    def _repr_html_(self) -> str:
        columns = ("commit", "published", "operation", "actor", "message", "types")
        return html_rows(repr(self)[1:-1], columns, (commit.columns() for commit in self))


class Baseline(Printable):
    """Every entity of one state, and where a feed goes on behind it.

    Iterating gives the entities, once: edges first, types by name, then by id. The cursor is known when all of them
    were given, so that whoever stores it has the whole state.
    """

    def __init__(self, records: Iterator[dict[str, Any]]) -> None:
        self._records = records
        self._end: dict[str, str] | None = None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for one in drawn(self._records):
            if "baseline" in one:
                self._end = one["baseline"]
                return
            yield one

    def lines(self) -> Iterator[str]:
        """Yield which state it is."""
        yield "not read to its end" if self._end is None else f"of commit {self.commit_id}"

    @property
    def commit_id(self) -> str:
        """The commit of the state.

        Raises:
            UsageError: some entities were not read yet.
        """
        return self._whole()["snapshot_commit_id"]

    @property
    def cursor(self) -> str:
        """What a feed with the same filters goes on from; raises what :attr:`commit_id` does."""
        return self._whole()["resume_cursor"]

    def _whole(self) -> dict[str, str]:
        if self._end is None:
            details = BadValue(what="baseline", value="not read to its end", expected="all entities read")
            raise UsageError(
                "a baseline has no cursor until all of its entities have been read",
                details=details,
                hint="iterate over the baseline first",
            )
        return self._end
