"""Bringing a graph into being: its tables first, then the manifest, which is the graph."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from omnigraph.errors import AlreadyExistsError, BadValue, GraphExistsError, TableMissingError
from omnigraph.runtime import Counters, World
from omnigraph.store.control import ControlObjects
from omnigraph.store.datasets import DatasetStore
from omnigraph.store.durability import DiskSync
from omnigraph.store.location import Storage
from omnigraph.store.tables import TableStore
from omnigraph.txn.changes import TableRegister
from omnigraph.txn.formats import FormatChain
from omnigraph.txn.lines import MAIN_LIFE, MAIN_LINE
from omnigraph.txn.manifest.codec import encode_schema, encode_state, manifest_schema
from omnigraph.txn.manifest.file import LOCATION
from omnigraph.txn.manifest.rows import AcceptedSchema, BranchHead, Commit, ManifestState, freeze_tables
from omnigraph.txn.services import BranchServices, GraphStores
from omnigraph.txn.settings import TxnSettings
from omnigraph.txn.syncing import Syncing
from omnigraph.values import CommitId, OperationId


def wire_stores(storage: Storage, world: World, settings: TxnSettings) -> GraphStores:
    """Return the stores of a graph; touches nothing."""
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


def create_graph(
    stores: GraphStores, schema: AcceptedSchema, tables: Sequence[TableRegister], actor: str | None
) -> None:
    """Create the tables at places that only this call knows, then the manifest.

    Raises:
        GraphExistsError: there is a graph already.
    """
    # Only the manifest decides between two initialisers; looking first keeps a mistaken call from writing.
    if _has_graph(stores):
        raise _exists(stores)
    world, counters = stores.world, Counters()
    operation_id, commit_id = OperationId(world.ids.ulid()), CommitId(world.ids.ulid())
    services = BranchServices(stores, MAIN_LIFE, FormatChain())
    staged = services.stager.register(tables, operation_id, counters)
    commit = Commit(
        id=commit_id,
        parent=None,
        actor=actor,
        created_at_ms=commit_id.timestamp_ms,
        manifest_version=1,
        operation="init",
        branch=MAIN_LINE.name,
        published_at_ms=world.clock.now_ms(),
        touched=tuple(sorted(table.table_key for table in tables)),
    )
    state = ManifestState(
        version=1,
        graph_id=world.ids.ulid(),
        head=BranchHead(branch=MAIN_LINE.name, incarnation=MAIN_LINE.incarnation, commit=commit_id),
        tables=freeze_tables(table.entry for table in staged if table.entry is not None),
        tombstones=(),
        schema=schema,
        recent=(commit,),
    )
    world.failpoints.hit("txn.init.before_manifest")
    rows = [encode_state(state), encode_schema(schema)]
    try:
        created = stores.datasets.create(
            LOCATION, manifest_schema(), rows, {}, counters, before_landing=stores.syncing.before_publish
        )
    except AlreadyExistsError as error:
        raise _exists(stores) from error
    stores.syncing.after_publish(created, None)
    stores.syncing.disk.sync_way_to_root()


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
