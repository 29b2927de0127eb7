"""The branches of an open graph: each opened once, forgotten when it turns out to be gone."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from omnigraph.errors import BranchMissingError
from omnigraph.runtime import late_property
from omnigraph.store.tables.store import TableStore
from omnigraph.txn.branches.incarnation import MAIN_INCARNATION, BranchIncarnation, BranchLife, branch_missing
from omnigraph.txn.manifest.codec import FormatChain
from omnigraph.txn.manifest.file import LoadedManifest, ManifestFile
from omnigraph.txn.manifest.lineage import CommitLine
from omnigraph.txn.publish.writer import BranchWriter
from omnigraph.txn.services import BranchServices, GraphStores, graph_closed
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.values import BranchName

if TYPE_CHECKING:
    from omnigraph.txn.branches.refs import BranchRecord, BranchRefs


class OpenBranches:
    """What acts on each branch that was asked for. Threads may share it."""

    def __init__(self, stores: GraphStores, formats: FormatChain, *, group_commit: bool) -> None:
        self._stores = stores
        self._formats = formats
        self._group_commit = group_commit
        self._lock = threading.Lock()
        self._refs: dict[str, BranchRecord] = {}
        self._is_closed = False
        self.authorities: dict[str, BranchWriter] = {}

    @late_property
    def refs(self) -> BranchRefs:
        """The records of the branches other than main."""
        from omnigraph.txn.branches.refs import BranchRefs  # noqa: PLC0415 - reads of main need none of it

        return BranchRefs(self._stores)

    def branch_writer(self, branch: BranchName) -> BranchWriter:
        """Return what acts on a branch.

        Raises:
            BranchMissingError: there is no such branch.
            GraphClosedError: the graph was closed.
        """
        with self._lock:
            if self._is_closed:
                raise graph_closed()
            known = self.authorities.get(branch)
        if known is not None:
            return known
        ref = None if branch.is_main else self.refs.get(branch)
        services = self.services(MAIN_INCARNATION if ref is None else ref.line)
        made = BranchWriter(services, group_commit=self._group_commit)
        with self._lock:
            if self._is_closed:
                raise graph_closed()
            if branch not in self.authorities and ref is not None:
                self._refs[branch] = ref
            return self.authorities.setdefault(branch, made)

    @property
    def waiting(self) -> int:
        """How many writes of this process wait for their turn to be published, on all branches."""
        with self._lock:
            return sum(branch_writer.waiting for branch_writer in self.authorities.values())

    def services(self, line: BranchIncarnation) -> BranchServices:
        """Return what acts on one incarnation of a branch, live or not."""
        return BranchServices(self._stores, BranchLife(line, self._is_live), self._formats)

    def _is_live(self, line: BranchIncarnation) -> bool:
        return self.refs.is_live(line)

    @property
    def tables(self) -> TableStore:
        """The tables of the graph."""
        return self._stores.tables

    def commit_line(self, loaded: LoadedManifest) -> CommitLine:
        """Return the history that a manifest version ends, on whatever branch."""
        return CommitLine(self._stores.datasets, loaded, self._stores.commits)

    def snapshot(self, branch: BranchName) -> GraphSnapshot:
        """Return the newest state of a branch; a branch that was deleted and made again is opened again.

        Raises:
            BranchMissingError: there is no such branch.
        """
        return self.current(branch)[1]

    def current(self, branch: BranchName) -> tuple[BranchWriter, GraphSnapshot]:
        """Return what acts on a branch together with its newest state.

        Raises:
            BranchMissingError: there is no such branch.
        """
        branch_writer = self.branch_writer(branch)
        try:
            return branch_writer, branch_writer.snapshot()
        except BranchMissingError:
            self.forget(branch, branch_writer)
        branch_writer = self.branch_writer(branch)
        return branch_writer, branch_writer.snapshot()

    def load_version(self, branch: BranchName, version: int) -> LoadedManifest:
        """Return one version of a branch's manifest.

        Raises:
            BranchMissingError: there is no such branch.
            VersionMissingError: there is no such version.
        """
        branch_writer = self.branch_writer(branch)
        try:
            return branch_writer.load_version(version)
        except BranchMissingError:
            self.forget(branch, branch_writer)
        return self.branch_writer(branch).load_version(version)

    def load_ended(self, line: BranchIncarnation, version: int) -> LoadedManifest:
        """Return one version of a line whose branch may have been deleted.

        Raises:
            StorageCorruptError, TableMissingError, VersionMissingError: it was reclaimed.
        """
        life = BranchLife(line, lambda _: True)
        return ManifestFile(self._stores.datasets, life, self._formats, self._stores.commits).load_version(version)

    def ref(self, branch: BranchName) -> BranchRecord:
        """Return the ref that an open branch other than main was opened by.

        Raises:
            BranchMissingError: it is not open any more.
        """
        with self._lock:
            found = self._refs.get(branch)
        if found is None:
            raise branch_missing(branch)
        return found

    def forget(self, branch: BranchName, branch_writer: BranchWriter) -> None:
        """Let go of a branch, if it is still the one that ``branch_writer`` acts on."""
        with self._lock:
            if self.authorities.get(branch) is not branch_writer:
                return
            del self.authorities[branch]
            self._refs.pop(branch, None)
        branch_writer.forget()

    def close(self) -> None:
        """Finish what runs behind acknowledged writes; nothing can be opened afterwards."""
        with self._lock:
            self._is_closed = True
            authorities = list(self.authorities.items())
        for branch, branch_writer in authorities:
            # Forgotten when it is closed: an interrupt leaves the rest to the next call.
            branch_writer.close()
            self.authorities.pop(branch, None)
