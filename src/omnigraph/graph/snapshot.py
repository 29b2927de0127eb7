"""``Snapshot``: one state of a graph for good."""

from __future__ import annotations

from omnigraph.graph.state import Handle, State
from omnigraph.txn.manifest.rows import Commit


class Snapshot(State):
    """The state that a commit made visible. Later writes do not change it; a cleanup may reclaim it."""

    def __init__(self, handle: Handle, commit: Commit) -> None:
        super().__init__(handle, str(commit.branch), str(commit.id))
        self._commit = commit

    @property
    def commit(self) -> Commit:
        """The commit."""
        return self._commit

    def __repr__(self) -> str:
        return f"<Snapshot {self._commit.id} of {self._commit.branch} in {self._handle.uri!r}>"
