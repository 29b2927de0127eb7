"""The life of a graph: creating it once, opening it for reading or for reading and writing, closing it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, Self

from omnigraph.errors import (
    AlreadyExistsError,
    BadValue,
    BranchMissingError,
    GraphExistsError,
    GraphMissingError,
    ManifestCorruptError,
    MissingThing,
    ReadOnlyError,
    SidecarCorruptError,
    StorageDeniedError,
    TableMissingError,
    TagMissingError,
    UsageError,
    ValueFormatError,
)
from omnigraph.runtime import Runtime, counted, late_property
from omnigraph.store.control import ControlObjects
from omnigraph.store.datasets import DatasetStore
from omnigraph.store.durability import DiskSync
from omnigraph.store.location import Storage
from omnigraph.store.tables.pins import TablePin
from omnigraph.store.tables.store import TableStore
from omnigraph.txn.branches.incarnation import MAIN_INCARNATION, MAIN_LIFE, BranchIncarnation, lance_branch_name
from omnigraph.txn.branches.open import OpenBranches
from omnigraph.txn.claims.watch import RECOVERY_PREFIX, branch_of_key
from omnigraph.txn.manifest.codec import FormatChain, encode_schema, encode_state, manifest_schema
from omnigraph.txn.manifest.file import LOCATION
from omnigraph.txn.manifest.rows import AcceptedSchema, BranchHead, Commit, ManifestState, freeze_tables
from omnigraph.txn.services import BranchServices, GraphStores
from omnigraph.txn.settings import SETTLE_S, Syncing, TxnSettings
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.values import MAIN, BranchName, CommitId, OperationId, TagName, checked_text

if TYPE_CHECKING:
    from omnigraph.txn.branches.delete import BranchDeletion
    from omnigraph.txn.branches.refs import BranchRecord, BranchRefs
    from omnigraph.txn.branches.status import BranchStatus, ProtectedVersion
    from omnigraph.txn.branches.tags import Tag, Tags
    from omnigraph.txn.changes import TableRegister
    from omnigraph.txn.manifest.lineage import CommitLine
    from omnigraph.txn.manifest.merged import MergeRecords
    from omnigraph.txn.proposals import ProposalEvents
    from omnigraph.txn.publish.writer import BranchWriter
    from omnigraph.txn.refs import RefResolver, ResolvedState
    from omnigraph.values.damage import DamagedRecord


_log = logging.getLogger(__name__)


def wire_stores(storage: Storage, runtime: Runtime, settings: TxnSettings) -> GraphStores:
    """Return the stores of a graph; touches nothing.

    Raises:
        ValueFormatError: a file is where a graph would be a folder.
    """
    if storage.is_local and storage.path().is_file():
        details = BadValue(what="graph root", value=storage.root, expected="the folder of a graph")
        hint = "pass the folder of the graph; use --schema and --query for schemas and queries"
        raise ValueFormatError(f"{storage.root} is a file, not a graph", details=details, hint=hint)
    datasets = DatasetStore(storage, runtime)
    control = ControlObjects(storage)
    return GraphStores(
        datasets=datasets,
        tables=TableStore(datasets, control),
        control=control,
        syncing=Syncing(disk=DiskSync(storage, settings.durability)),
        pool=ThreadPoolExecutor(max_workers=settings.threads, thread_name_prefix="omnigraph"),
        runtime=runtime,
        settings=settings,
    )


def create_graph(
    stores: GraphStores,
    schema: AcceptedSchema,
    tables: Sequence[TableRegister],
    *,
    actor: str | None,
    message: str | None = None,
) -> None:
    """Create the tables at places that only this call knows, then the manifest.

    Raises:
        GraphExistsError: there is a graph already.
    """
    # Only the manifest decides between two initialisers; looking first keeps a mistaken call from writing.
    if _has_graph(stores):
        raise _exists(stores)
    runtime = stores.runtime
    operation_id, commit_id = OperationId(runtime.ids.ulid()), CommitId(runtime.ids.ulid())
    services = BranchServices(stores, MAIN_LIFE, FormatChain())
    staged = services.stager.register(tables, operation_id)
    commit = Commit(
        id=commit_id,
        parent=None,
        actor=actor,
        created_at_ms=commit_id.timestamp_ms,
        manifest_version=1,
        operation="init",
        branch=MAIN_INCARNATION.name,
        merged_parent=None,
        message=message,
        published_at_ms=runtime.clock.now_ms(),
        touched=tuple(sorted(table.table_key for table in tables)),
    )
    state = ManifestState(
        version=1,
        graph_id=runtime.ids.ulid(),
        head=BranchHead(branch=MAIN_INCARNATION.name, incarnation=MAIN_INCARNATION.incarnation, commit=commit_id),
        tables=freeze_tables(table.entry for table in staged if table.entry is not None),
        tombstones=(),
        schema=schema,
        recent=(commit,),
    )
    runtime.failpoints.hit("txn.init.before_manifest")
    rows = [encode_state(state), encode_schema(schema)]
    try:
        created = stores.datasets.create(
            LOCATION, manifest_schema(), rows, {}, before_landing=stores.syncing.before_publish
        )
    except AlreadyExistsError as error:
        raise _exists(stores) from error
    stores.syncing.after_publish(created)
    stores.syncing.disk.sync_way_to_root()


def _has_graph(stores: GraphStores) -> bool:
    try:
        stores.datasets.latest_version(LOCATION, None)
    except TableMissingError:
        return False
    return True


def _exists(stores: GraphStores) -> GraphExistsError:
    root = stores.datasets.storage.root
    details = BadValue(what="graph", value=root, expected="a location without a graph")
    return GraphExistsError(f"{root} already has a graph", details=details)


OpenMode = Literal["read_write", "read_only"]


class GraphStore:
    """An open graph. One per process and graph is enough; threads may share it."""

    def __init__(self, stores: GraphStores, formats: FormatChain, mode: OpenMode, *, group_commit: bool) -> None:
        self._stores = stores
        self._formats = formats
        self._mode = mode
        self._calls = stores.calls
        self._branches = OpenBranches(stores, formats, group_commit=group_commit)

    # Reads of main need none of what follows.

    @property
    def _refs(self) -> BranchRefs:
        return self._branches.refs

    @late_property
    def _deletion(self) -> BranchDeletion:
        from omnigraph.txn.branches.delete import BranchDeletion  # noqa: PLC0415 - see above

        return BranchDeletion(self._stores)

    @late_property
    def tags(self) -> Tags:
        """The tags of this graph."""
        from omnigraph.txn.branches.tags import Tags  # noqa: PLC0415 - see above

        return Tags(self._stores, self._refs)

    @late_property
    def merges(self) -> MergeRecords:
        """What is known of merged branches."""
        from omnigraph.txn.manifest.merged import MergeRecords  # noqa: PLC0415 - see above

        return MergeRecords(self._stores)

    @late_property
    def proposals(self) -> ProposalEvents:
        """The proposals to merge."""
        from omnigraph.txn.proposals import ProposalEvents  # noqa: PLC0415 - see above

        return ProposalEvents(self._stores)

    @late_property
    def refs(self) -> RefResolver:
        """What finds the state that a reference names."""
        from omnigraph.txn.refs import RefResolver  # noqa: PLC0415 - see above

        return RefResolver(self._branches, self.tags, self.merges)

    @classmethod
    def init(
        cls,
        storage: Storage,
        *,
        schema: AcceptedSchema,
        tables: Sequence[TableRegister] = (),
        actor: str | None = None,
        message: str | None = None,
        runtime: Runtime | None = None,
        settings: TxnSettings | None = None,
    ) -> None:
        """Create a graph.

        Its tables come first, at places that only this call knows, then the manifest, which is the graph. Of two
        initialisers one creates the manifest; the other has created nothing that anybody can see.

        Raises:
            GraphExistsError: there is a graph already.
        """
        stores = wire_stores(storage, runtime or Runtime.system(), settings or TxnSettings())
        try:
            create_graph(
                stores,
                schema,
                tables,
                actor=checked_text("actor", actor),
                message=checked_text("message", message),
            )
        finally:
            stores.close()

    @classmethod
    def open(
        cls,
        storage: Storage,
        *,
        mode: OpenMode = "read_write",
        runtime: Runtime | None = None,
        settings: TxnSettings | None = None,
        formats: FormatChain | None = None,
        group_commit: bool = True,
    ) -> Self:
        """Open a graph. Opening for writing first ends the publishes of writers that are gone.

        Raises:
            GraphMissingError: there is no graph.
            FormatUnsupportedError: its storage format is outside the range of this version.
        """
        stores = wire_stores(storage, runtime or Runtime.system(), settings or TxnSettings())
        graph = cls(stores, formats or FormatChain(), mode, group_commit=group_commit)
        try:
            graph.refresh()
        except TableMissingError as error:
            graph.close()
            details = MissingThing(what="graph", name=storage.root)
            raise GraphMissingError(f"no graph at {storage.root}", details=details) from error
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

    @property
    def stores(self) -> GraphStores:
        """What every branch of this graph shares."""
        return self._stores

    @property
    def formats(self) -> FormatChain:
        """The storage formats that are served."""
        return self._formats

    @property
    def open_branches(self) -> OpenBranches:
        """The branches of this graph, as whoever looks after them needs them."""
        return self._branches

    @property
    def storage(self) -> Storage:
        """Where the graph lives."""
        return self._stores.datasets.storage

    @counted
    def refresh(self) -> None:
        """Look at the newest state of main and, when open for writing, recover what dead writers left."""
        self.snapshot(BranchName(MAIN))
        if self._mode == "read_write":
            self._recover_all()

    def close(self) -> None:
        """Refuse further calls, finish those under way and let go of everything; harmless when closed already."""
        self._calls.close()
        self._branches.close()
        self._stores.close()

    def snapshot(self, branch: BranchName) -> GraphSnapshot:
        """Return the newest published state of a branch."""
        return self._branches.snapshot(branch)

    def snapshot_at(self, branch: BranchName, commit_id: CommitId) -> GraphSnapshot:
        """Return the state that a commit made visible: looked for in the history of ``branch``, then of all others.

        Raises:
            CommitMissingError: no live branch's history has such a commit.
            HistoryGoneError: that state was reclaimed.
        """
        return self.refs.snapshot_at(branch, commit_id)

    def snapshot_of(self, commit: Commit) -> GraphSnapshot:
        """Return the state that a commit made visible, without looking for the commit.

        Raises:
            CommitMissingError: its branch is gone, or another one has its name.
            HistoryGoneError: that state was reclaimed.
        """
        return self.refs.snapshot_of(commit)

    def line_of(self, snapshot: GraphSnapshot) -> CommitLine:
        """Return the history that a state ends, by position."""
        return self.refs.line_of(snapshot)

    def iter_commits(self, snapshot: GraphSnapshot) -> Iterator[Commit]:
        """Yield the history that a state ends, newest first, reading only as far as the caller goes."""
        return self.refs.iter_commits(snapshot)

    def branch_writer(self, branch: BranchName) -> BranchWriter:
        """Return what writes to a branch go through.

        Raises:
            ReadOnlyError: the graph was opened for reading only.
            BranchMissingError: there is no such branch.
        """
        self.refuse_reading()
        return self._branches.branch_writer(branch)

    def current(self, branch: BranchName) -> tuple[BranchWriter, GraphSnapshot]:
        """Return what writes to a branch go through, and the newest state; a branch made again is opened again.

        Raises:
            ReadOnlyError: the graph was opened for reading only.
            BranchMissingError: there is no such branch.
        """
        self.refuse_reading()
        return self._branches.current(branch)

    @property
    def waiting(self) -> int:
        """How many writes of this process wait for their turn to be published."""
        return self._branches.waiting

    @counted
    def create_branch(
        self, name: BranchName, *, source: BranchName | None = None, at: str | None = None, actor: str | None = None
    ) -> BranchRecord:
        """Create a branch at the newest state of ``source`` (main unless given), or at what the reference ``at`` names.

        Raises:
            UsageError: it is main, which always exists.
            BranchExistsError: the name, or one that overlaps with it, is taken.
            BranchMissingError, BranchClosingError: the source was deleted, or is about to be.
            TagMissingError, CommitMissingError, HistoryGoneError: there is no state of that reference to start from.
        """
        self.refuse_reading()
        if name.casefold() == MAIN:
            details = BadValue(what="branch", value=name, expected="a name other than main, in any letter case")
            raise UsageError("branch 'main' exists already", details=details, hint="every graph has it; choose another")
        branch = source or BranchName(MAIN)
        started_s = self._stores.runtime.clock.monotonic_s()
        actor = checked_text("actor", actor)
        state = self.refs.resolve_ref(branch if at is None else at, branch)
        _refuse_ended(state, "a branch cannot start there")
        if state.snapshot.is_past:
            # A branch must be able to read all of what it inherits.
            for table_key in state.snapshot.state.tables:
                state.snapshot.table(table_key)

        def is_whole() -> bool:
            # A cleanup records its floor, waits, and looks for lines then; this looks at the floor behind the line.
            is_quick = self._stores.runtime.clock.monotonic_s() - started_s < SETTLE_S
            if is_quick and not state.snapshot.is_past:
                return True
            return self._is_whole(state.line, state.snapshot.state.version, name)

        return self._refs.create(name, state.line, state.snapshot.manifest, state.depth, is_whole, actor)

    def _is_whole(self, line: BranchIncarnation, version: int, asker: str) -> bool:
        """Whether a version is one that cleanup leaves alone: not below the floor, or needed by more than ``asker``."""
        if version >= self.refs.floor_of(line.name):
            return True
        others = (other for other in self.protected_versions() if other.name != asker)
        return any((other.line, other.version) == (line, version) for other in others)

    @counted
    def delete_branch(
        self, name: BranchName, *, actor: str | None = None, expected_head: CommitId | None = None
    ) -> None:
        """Delete a branch for good, with its own commits and what it alone holds; harmless when that was done before.

        What was merged stays in the history of the target, and readable until cleanup removes it.

        Raises:
            PreconditionFailedError: it is not at ``expected_head``.
            UsageError: it is main.
            BranchMissingError: there never was such a branch.
            BranchInUseError: a branch or a tag depends on it.
            ClaimBusyError: writers kept it busy for too long.
        """
        self.refuse_reading()
        if name.is_main:
            details = BadValue(what="branch", value=name, expected="a branch other than main")
            raise UsageError("cannot delete branch 'main'", details=details)
        actor = checked_text("actor", actor)
        try:
            self._delete_known(name, actor, expected_head)
        except BranchMissingError:
            # Nobody was ever told that an orphan exists.
            if self._refs.end_orphan(name):
                raise
        else:
            return
        try:
            # What was known of it may be a branch that others deleted and made again.
            self._delete_known(name, actor, expected_head)
        except BranchMissingError:
            # A deletion that died may have been finished by the recovery of this process, or of another one.
            if not self._refs.has_ended(name):
                raise

    def branch_names(self) -> list[BranchName]:
        """Return the live branches, main first, then by name."""
        return self._refs.names()

    def branches(self) -> tuple[BranchStatus | DamagedRecord, ...]:
        """Return the live branches, main first, then by name; one whose ref cannot be understood as damaged."""
        from omnigraph.txn.branches.status import list_branches  # noqa: PLC0415 - see above

        return list_branches(self._branches)

    def branch_status(self, ref: BranchRecord) -> BranchStatus:
        """Return how one branch stands to the one it came from."""
        from omnigraph.txn.branches.status import branch_status  # noqa: PLC0415 - see above

        return branch_status(self._branches, ref.name, ref)

    def protected_versions(self) -> tuple[ProtectedVersion, ...]:
        """Return the manifest versions below the floors that cleanup must leave whole: fork points and tags."""
        from omnigraph.txn.branches.status import protected_versions  # noqa: PLC0415 - see above

        return protected_versions(self._branches, self.tags)

    @counted
    def create_tag(self, name: TagName, at: str = MAIN, *, actor: str | None = None, message: str | None = None) -> Tag:
        """Name the state that the reference ``at`` means at this moment.

        Raises:
            TagExistsError: the name is taken.
            BranchMissingError, CommitMissingError, HistoryGoneError: there is no such state.
        """
        self.refuse_reading()
        actor, message = checked_text("actor", actor), checked_text("message", message)
        state = self.refs.resolve_ref(at, BranchName(MAIN))
        _refuse_ended(state, "it cannot be tagged")
        commit = state.commit
        # A branch without commits of its own shows a head that landed elsewhere, and that is where it stays readable.
        line = state.line if commit.branch == state.line.name else self.branch_incarnation(commit.branch)
        version = commit.manifest_version
        return self.tags.create(name, commit, line, lambda: self._is_whole(line, version, name), actor, message)

    @counted
    def delete_tag(self, name: TagName) -> Tag:
        """Remove a tag and return it; its commit may be reclaimed from here on.

        Raises:
            TagMissingError: there is none of that name.
        """
        self.refuse_reading()
        return self.tags.delete(name)

    def _delete_known(self, name: BranchName, actor: str | None, expected_head: CommitId | None) -> None:
        branch_writer = self._branches.branch_writer(name)
        ref = self._branches.ref(name)
        try:
            branch_writer.delete(self._deletion, ref, actor, expected_head)
        except BranchMissingError:
            self._branches.forget(name, branch_writer)
            raise
        self._branches.forget(name, branch_writer)

    def refuse_reading(self) -> None:
        """Refuse what would write.

        Raises:
            ReadOnlyError: the graph was opened for reading only.
        """
        if self._mode == "read_only":
            details = BadValue(what="open mode", value="read_only", expected="read_write")
            raise ReadOnlyError("the graph is open read-only", details=details)

    @counted
    def reclaim_older(self, pins: Sequence[TablePin]) -> int:
        """Remove the versions of tables before ``pins`` for good; return how many.

        What the newest state of any branch and the state of any tag names stays. Earlier states that need a version
        that goes can no longer be read.
        """
        from omnigraph.txn.branches.status import live_branches  # noqa: PLC0415 - see above

        kept = [newest for _, _, newest in live_branches(self._branches)]
        for tag in self.tags.list():
            # One that is removed meanwhile keeps nothing any more.
            with suppress(TagMissingError):
                kept.append(self.refs.resolve_ref(f"tag:{tag.name}", BranchName(MAIN)).snapshot)
        named = {entry.pin for snapshot in kept for entry in snapshot.state.tables.values()}
        count = 0
        for pin in pins:
            spared = {other.version for other in named if (other.location, other.branch) == (pin.location, pin.branch)}
            count += self.tables.reclaim_older(pin, spared)
        return count

    def branch_incarnation(self, branch: BranchName) -> BranchIncarnation:
        """Return the line that a branch is at this moment, whatever it was when it was first used.

        Raises:
            BranchMissingError: there is no such branch.
        """
        return self._line(branch)

    def _line(self, branch: BranchName) -> BranchIncarnation:
        return MAIN_INCARNATION if branch.is_main else self._refs.get(branch).line

    def gone_lines(self) -> tuple[BranchServices, ...]:
        """Return what acts on each branch that was deleted and has something in flight all the same."""
        return tuple(
            self._branches.services(_gone_line(branch, incarnation))
            for branch, incarnation in self._lines_in_flight()
            if not self._refs.may_be_live(branch, incarnation)
        )

    def _lines_in_flight(self) -> list[tuple[BranchName, str]]:
        keys = self._stores.control.list_keys(RECOVERY_PREFIX)
        return [(BranchName(name), incarnation) for name, incarnation in sorted({branch_of_key(key) for key in keys})]

    def _recover_all(self) -> None:
        """One listing tells every branch that has something in flight, be it live or gone.

        What cannot be understood blocks its own branch, whose writers say so, and not the graph.
        """
        for branch, incarnation in self._lines_in_flight():
            try:
                self._recover_line(branch, incarnation)
            except (ManifestCorruptError, SidecarCorruptError, StorageDeniedError) as error:
                _log.warning("branch '%s' cannot be written to: %s; run repair on it", branch, error.message)

    def _recover_line(self, branch: BranchName, incarnation: str) -> None:
        if self._refs.may_be_live(branch, incarnation):
            try:
                branch_writer = self.branch_writer(branch)
            except BranchMissingError:
                # Deleted since it was looked up.
                pass
            else:
                branch_writer.recover()
                if not branch.is_main and self._refs.find(branch) is None:
                    self._branches.forget(branch, branch_writer)
                return
        from omnigraph.txn.recovery.recoverer import Recoverer  # noqa: PLC0415 - hardly ever is there anything

        Recoverer(self._branches.services(_gone_line(branch, incarnation))).recover_abandoned()


def _gone_line(branch: BranchName, incarnation: str) -> BranchIncarnation:
    return BranchIncarnation(name=branch, incarnation=incarnation, lance_branch=lance_branch_name(branch, incarnation))


def _refuse_ended(state: ResolvedState, consequence: str) -> None:
    """Refuse to make something depend on a state that stays only until cleanup removes it."""
    if state.is_ended:
        name = state.line.name
        raise BranchMissingError(
            f"commit '{state.commit.id}' is on branch '{name}', which was deleted: {consequence}",
            details=MissingThing(what="branch", name=name),
            hint="use the commit that merged it",
        )
