"""A snapshot: one published state of a branch, and the tables exactly as it pins them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager

from omnigraph.errors import (
    GoneState,
    HistoryGoneError,
    MissingThing,
    OmnigraphError,
    TableMissingError,
    TableRef,
    TypeMissingError,
    VersionMissingError,
)
from omnigraph.store.tables.store import TableStore
from omnigraph.store.tables.table import Table
from omnigraph.txn.branches.incarnation import Explaining
from omnigraph.txn.manifest.file import LoadedManifest
from omnigraph.txn.manifest.rows import ManifestState, TableEntry
from omnigraph.values.checks import meant


def unknown_type(name: str, table_keys: Iterable[str], *, with_kind: bool | None = None) -> TypeMissingError:
    """Return the error for a name that is none of the types.

    Args:
        name: what was given.
        table_keys: the tables of the types that there are.
        with_kind: whether the names to suggest are written ``node:Person``; as ``name`` is written when None.
    """
    is_kept = ":" in name if with_kind is None else with_kind
    names = table_keys if is_kept else (key.partition(":")[2] for key in table_keys)
    near = tuple(dict.fromkeys(names))
    details = MissingThing(what="type", name=name, near=near)
    return TypeMissingError(f"type '{name}' was not found", details=details, hint=meant(name, near))


class GraphSnapshot:
    """A stable view. It never looks at what is newest, so it cannot change under its reader.

    ``is_past``: it was asked for as an earlier state, whose tables may have been reclaimed.
    """

    def __init__(self, manifest: LoadedManifest, tables: TableStore, *, is_past: bool = False) -> None:
        self.manifest = manifest
        self.is_past = is_past
        self._tables = tables

    @property
    def state(self) -> ManifestState:
        """What the manifest says at this version."""
        return self.manifest.state

    def entry(self, table_key: str) -> TableEntry:
        """Return the entry of a live table.

        Raises:
            TypeMissingError: the graph has no such type at this snapshot.
        """
        entry = self.state.table(table_key)
        if entry is None:
            raise unknown_type(table_key, self.state.tables)
        return entry

    def table(self, table_key: str) -> Table:
        """Open a table at its pinned version.

        Raises:
            BranchMissingError: the branch was deleted.
            HistoryGoneError: this is an earlier state, and the version was reclaimed.
        """
        entry = self.entry(table_key)
        try:
            return self._tables.open(entry.pin)
        except OmnigraphError as error:
            self.manifest.life.explain(error)
            if not self.is_past or not isinstance(error, VersionMissingError | TableMissingError):
                raise
            raise self._gone(table_key) from error

    def reading(self) -> AbstractContextManager[None]:
        """Let the block read tables of this state, and say so when the state or its branch goes meanwhile.

        Raises:
            BranchMissingError: the branch was deleted.
            HistoryGoneError: this is not the newest state any more, and was reclaimed.
        """
        return Explaining(self.explain)

    def explain(self, error: BaseException) -> None:
        """Raise that the branch was deleted or the state reclaimed, if that is why something is missing.

        Raises:
            BranchMissingError: the branch was deleted.
            HistoryGoneError: the state was reclaimed.
        """
        self.manifest.life.explain(error)
        if not isinstance(error, VersionMissingError):
            return
        for table_key, entry in self.state.tables.items():
            pin = entry.pin
            if error.details == TableRef(location=pin.location, branch=pin.branch, version=pin.version):
                raise self._gone(table_key) from error

    def existing_ids(self, table_key: str, ids: Sequence[str]) -> set[str]:
        """Return those of ``ids`` that the table holds."""
        return set(self.table(table_key).lookup(ids, ())["id"].to_pylist())

    def _gone(self, table_key: str) -> HistoryGoneError:
        head = self.state.head
        details = GoneState(commit_id=head.commit, branch=head.branch, table_key=table_key)
        return HistoryGoneError(
            f"the state of commit '{head.commit}' was reclaimed: table '{table_key}'", details=details
        )
