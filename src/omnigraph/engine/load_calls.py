"""What may be asked of an open graph about rows in files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.engine.embedding import Embedder
from omnigraph.engine.schema.accepted import CatalogCache
from omnigraph.runtime import Calls, Counters, counted
from omnigraph.txn.graph_store import GraphStore
from omnigraph.values import MAIN, BranchName, CommitId, Ulid

if TYPE_CHECKING:
    from omnigraph.engine.load import LoadMode, LoadProgress, LoadResult, LoadSettings, Source


class LoadCalls:
    """The part of a session that loads."""

    store: GraphStore
    _calls: Calls
    embedder: Embedder
    _catalogs: CatalogCache

    @counted
    def load(  # noqa: PLR0913 - keyword-only, one for each thing a caller may ask for
        self,
        sources: Sequence[Source | str],
        mode: LoadMode = "append",
        *,
        patch: bool = False,
        branch: str = MAIN,
        actor: str | None = None,
        message: str | None = None,
        expected_head: str | None = None,
        errors_to: str | Path | None = None,
        progress: Callable[[LoadProgress], None] | None = None,
        limit: int = 100,
        settings: LoadSettings | None = None,
    ) -> LoadResult:
        """Read every row of the sources and publish all of them as one commit, or nothing.

        Takes and raises what :func:`omnigraph.engine.load.load` does.
        """
        from omnigraph.engine.load import load  # noqa: PLC0415 - a read needs none of it

        authority, newest = self.store.current(BranchName.parse(branch), Counters())
        schema = newest.state.schema
        return load(
            authority,
            self._catalogs.get(schema),
            sources,
            mode,
            patch=patch,
            actor=actor,
            message=message,
            expected_head=None if expected_head is None else CommitId(Ulid.parse(expected_head)),
            schema_hash=schema.hash,
            errors_to=errors_to,
            progress=progress,
            limit=limit,
            settings=settings,
            embedder=self.embedder,
        )
