"""The life of a graph: creating it once, opening it for reading or for reading and writing, closing it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, Self

from omnigraph.errors import (
    AlreadyExistsError,
    BadValue,
    BranchMissingError,
    CommitMissingError,
    GraphClosedError,
    GraphExistsError,
    GraphMissingError,
    MissingThing,
    ReadOnlyError,
    TableMissingError,
)
from omnigraph.runtime import Counters, World
from omnigraph.store.control import ControlObjects
from omnigraph.store.datasets import DatasetStore
from omnigraph.store.durability import DiskSync
from omnigraph.store.location import Storage
from omnigraph.store.pins import TablePin
from omnigraph.store.tables import TableStore
from omnigraph.txn.authority import GraphPublishAuthority
from omnigraph.txn.branches import BranchRef, BranchRefs
from omnigraph.txn.changes import TableRegister
from omnigraph.txn.claims import RECOVERY_PREFIX, branch_of_key
from omnigraph.txn.formats import FormatChain
from omnigraph.txn.manifest.codec import encode_schema, encode_state, manifest_schema
from omnigraph.txn.manifest.file import LOCATION, BranchLine
from omnigraph.txn.manifest.rows import AcceptedSchema, BranchHead, Commit, ManifestState, freeze_tables
from omnigraph.txn.plan import WriteKind
from omnigraph.txn.services import BranchServices, GraphStores
from omnigraph.txn.settings import TxnSettings
from omnigraph.txn.snapshot import Snapshot
from omnigraph.txn.syncing import Syncing
from omnigraph.values import MAIN, BranchName, CommitId, OperationId

OpenMode = Literal["read_write", "read_only"]


class GraphStore:
    """An open graph. One per process and graph is enough; threads may share it."""

    def __init__(self, stores: GraphStores, formats: FormatChain, mode: OpenMode, *, group_commit: bool) -> None:
        self._stores = stores
        self._formats = formats
        self._mode = mode
        self._group_commit = group_commit
        self._refs = BranchRefs(stores)
        self._lock = threading.Lock()
        self._authorities: dict[str, GraphPublishAuthority] = {}
        self._is_closed = False

    @classmethod
    def init(
        cls,
        storage: Storage,
        *,
        schema: AcceptedSchema,
        tables: Sequence[TableRegister] = (),
        actor: str | None = None,
        world: World | None = None,
        settings: TxnSettings | None = None,
    ) -> None:
        """Create a graph.

        Its tables come first, at places that only this call knows, then the manifest, which is the graph. Of two
        initialisers one creates the manifest; the other has created nothing that anybody can see.

        Raises:
            GraphExistsError: there is a graph already.
        """
        stores = _wire(storage, world or World.system(), settings or TxnSettings())
        try:
            # Only the manifest decides between two initialisers; looking first keeps a mistaken call from writing.
            if _has_graph(stores):
                raise _exists(stores)
            _create(stores, schema, tables, actor)
        finally:
            stores.close()

    @classmethod
    def open(
        cls,
        storage: Storage,
        *,
        mode: OpenMode = "read_write",
        world: World | None = None,
        settings: TxnSettings | None = None,
        formats: FormatChain | None = None,
        group_commit: bool = False,
        counters: Counters | None = None,
    ) -> Self:
        """Open a graph. Opening for writing first ends the publishes of writers that are gone.

        Raises:
            GraphMissingError: there is no graph.
            FormatUnsupportedError: its storage format is outside the range of this version.
        """
        stores = _wire(storage, world or World.system(), settings or TxnSettings())
        graph = cls(stores, formats or FormatChain(), mode, group_commit=group_commit)
        try:
            graph.refresh(counters)
        except TableMissingError as error:
            graph.close()
            details = MissingThing(what="graph", name=storage.root)
            raise GraphMissingError(f"there is no graph at {storage.root}", details=details) from error
        except BaseException:
            graph.close()
            raise
        return graph

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def tables(self) -> TableStore:
        """The tables of this graph, by pin."""
        return self._stores.tables

    def refresh(self, counters: Counters | None = None) -> None:
        """Look at the newest state of main and, when open for writing, recover what dead writers left."""
        count = counters or Counters()
        self.snapshot(BranchName(MAIN), count)
        if self._mode == "read_write":
            self._recover_all(count)
            self._upgrade(self.authority(BranchName(MAIN), count), count)

    def close(self) -> None:
        """Finish background work and let go of everything; harmless when closed already."""
        with self._lock:
            authorities, self._authorities = list(self._authorities.values()), {}
            self._is_closed = True
        for authority in authorities:
            authority.close()
        self._stores.close()

    def snapshot(self, branch: BranchName, counters: Counters) -> Snapshot:
        """Return the newest published state of a branch."""
        return self._authority(branch, counters).snapshot(counters)

    def snapshot_at(self, branch: BranchName, commit_id: CommitId, counters: Counters) -> Snapshot:
        """Return the state that a commit made visible: looked for in the history of ``branch``, then of all others.

        Raises:
            CommitMissingError: no live branch's history has such a commit.
            VersionMissingError: that state was reclaimed.
        """
        newest = self.snapshot(branch, counters)
        if newest.state.head.commit == commit_id:
            return newest
        others = (name for name in self.branch_names(counters) if name != branch)
        for name in (branch, *others):
            commit = self._find_commit(name, commit_id, counters)
            if commit is not None:
                return self._reopen(commit, counters)
        raise _no_commit(commit_id)

    def _find_commit(self, branch: BranchName, commit_id: CommitId, counters: Counters) -> Commit | None:
        authority = self._authority(branch, counters)
        newest = authority.snapshot(counters).manifest
        history = authority.services.manifest.iter_commits(newest, counters)
        return next((commit for commit in history if commit.id == commit_id), None)

    def _reopen(self, commit: Commit, counters: Counters) -> Snapshot:
        """Open the version that a commit names; a later branch of the same name is not taken for its own."""
        try:
            services = self._authority(commit.branch, counters).services
        except BranchMissingError:
            raise _no_commit(commit.id) from None
        loaded = services.manifest.load_version(commit.manifest_version, counters)
        # Commits that were published together share a version, of which only the last is the head.
        if commit.id != loaded.state.head.commit and loaded.state.recent_commit(commit.id) is None:
            raise _no_commit(commit.id)
        return services.snapshot(loaded)

    def authority(self, branch: BranchName, counters: Counters) -> GraphPublishAuthority:
        """Return what writes to a branch go through.

        Raises:
            ReadOnlyError: the graph was opened for reading only.
            BranchMissingError: there is no such branch.
        """
        if self._mode == "read_only":
            details = BadValue(what="open mode", value="read_only", expected="read_write")
            raise ReadOnlyError("the graph is open for reading only", details=details)
        return self._authority(branch, counters)

    def create_branch(
        self,
        name: BranchName,
        *,
        source: BranchName | None = None,
        actor: str | None = None,
        counters: Counters | None = None,
    ) -> BranchRef:
        """Create a branch at the newest state of ``source`` (main unless given).

        Raises:
            BranchExistsError: the name, or one that overlaps with it, is taken.
        """
        count = counters or Counters()
        parent = self.authority(source or BranchName(MAIN), count)
        base = parent.snapshot(count).manifest
        return self._refs.create(name, parent.services.line, base, actor, count)

    def branch_names(self, counters: Counters) -> list[BranchName]:
        """Return the live branches, main first, then by name."""
        return self._refs.names(counters)

    def reclaim_older(self, pins: Sequence[TablePin], counters: Counters) -> int:
        """Remove the versions of tables before ``pins`` for good; return how many.

        What the newest state of any branch names stays. Earlier states that need a version that goes can no longer
        be read.
        """
        named = {
            entry.pin
            for branch in self.branch_names(counters)
            for entry in self.snapshot(branch, counters).state.tables.values()
        }
        count = 0
        for pin in pins:
            spared = {other.version for other in named if (other.location, other.branch) == (pin.location, pin.branch)}
            count += self.tables.reclaim_older(pin, spared, counters)
        return count

    def _authority(self, branch: BranchName, counters: Counters) -> GraphPublishAuthority:
        with self._lock:
            if self._is_closed:
                details = BadValue(what="graph", value="closed", expected="open")
                raise GraphClosedError("the graph is closed", details=details)
            known = self._authorities.get(branch)
        if known is not None:
            return known
        line = self._line(branch, counters)
        services = BranchServices(self._stores, line, self._formats)
        made = GraphPublishAuthority(services, group_commit=self._group_commit)
        with self._lock:
            return self._authorities.setdefault(branch, made)

    def _line(self, branch: BranchName, counters: Counters) -> BranchLine:
        if branch.is_main:
            return BranchLine(name=branch, incarnation=MAIN, line=None)
        return self._refs.get(branch, counters).line

    def _recover_all(self, counters: Counters) -> None:
        """One listing tells every branch that has something in flight."""
        keys = self._stores.control.list_keys(RECOVERY_PREFIX, counters)
        pending = {branch_of_key(key) for key in keys}
        live = set(self._refs.names(counters)) if pending - {(MAIN, MAIN)} else {BranchName(MAIN)}
        for name, incarnation in sorted(pending):
            if name in live:
                authority = self.authority(BranchName(name), counters)
                if authority.services.line.incarnation == incarnation:
                    authority.recover(counters)

    def _upgrade(self, authority: GraphPublishAuthority, counters: Counters) -> None:
        if authority.services.manifest.is_outdated(authority.snapshot(counters).manifest):
            txn = authority.begin(WriteKind.UPGRADE, message=f"storage format {self._formats.newest}")
            txn.is_upgrade = True
            authority.commit(txn)


def _no_commit(commit_id: CommitId) -> CommitMissingError:
    details = MissingThing(what="commit", name=str(commit_id))
    return CommitMissingError(f"commit '{commit_id}' not found", details=details)


def _wire(storage: Storage, world: World, settings: TxnSettings) -> GraphStores:
    datasets = DatasetStore(storage, world)
    control = ControlObjects(storage)
    return GraphStores(
        datasets=datasets,
        tables=TableStore(datasets, control),
        control=control,
        syncing=Syncing(disk=DiskSync(storage, settings.durability)),
        pool=ThreadPoolExecutor(max_workers=settings.threads, thread_name_prefix="omnigraph"),
        world=world,
        settings=settings,
    )


def _create(stores: GraphStores, schema: AcceptedSchema, tables: Sequence[TableRegister], actor: str | None) -> None:
    world, counters = stores.world, Counters()
    operation_id, commit_id = OperationId(world.ids.ulid()), CommitId(world.ids.ulid())
    line = BranchLine(name=BranchName(MAIN), incarnation=MAIN, line=None)
    services = BranchServices(stores, line, FormatChain())
    staged = services.stager.register(tables, operation_id, counters)
    commit = Commit(
        id=commit_id,
        parent=None,
        actor=actor,
        created_at_ms=world.clock.now_ms(),
        manifest_version=1,
        operation="init",
        branch=line.name,
    )
    state = ManifestState(
        version=1,
        graph_id=world.ids.ulid(),
        head=BranchHead(branch=line.name, incarnation=line.incarnation, commit=commit_id),
        tables=freeze_tables(table.entry for table in staged if table.entry is not None),
        tombstones=(),
        schema=schema,
        recent=(commit,),
    )
    world.failpoints.hit("txn.init.before_manifest")
    rows = [encode_state(state), encode_schema(schema)]
    try:
        created = stores.datasets.create(LOCATION, manifest_schema(), rows, {}, counters)
    except AlreadyExistsError as error:
        raise _exists(stores) from error
    stores.syncing.after_publish(created, created.fragments, None)


def _has_graph(stores: GraphStores) -> bool:
    try:
        stores.datasets.latest_version(LOCATION, None, Counters())
    except TableMissingError:
        return False
    return True


def _exists(stores: GraphStores) -> GraphExistsError:
    root = stores.datasets.storage.root
    details = BadValue(what="graph", value=root, expected="a place without a graph")
    return GraphExistsError(f"there is a graph already at {root}", details=details)
