"""The parts that writing and recovering one branch have in common, wired once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from typing import TYPE_CHECKING

from omnigraph.errors import BadValue, GraphClosedError
from omnigraph.records import record
from omnigraph.runtime import Calls, Runtime, late_property
from omnigraph.store.control import ControlObjects
from omnigraph.store.datasets import DatasetStore
from omnigraph.store.tables.store import TableStore
from omnigraph.txn.branches.incarnation import BranchLife
from omnigraph.txn.claims.identity import WriterIdentity
from omnigraph.txn.claims.watch import ClaimWatch
from omnigraph.txn.manifest.codec import FormatChain
from omnigraph.txn.manifest.file import LoadedManifest, ManifestFile
from omnigraph.txn.manifest.lineage import CommitCache
from omnigraph.txn.manifest.requests import KeyedCommits
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.settings import Syncing, TxnSettings
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.values import BranchName

if TYPE_CHECKING:
    from omnigraph.txn.claims.store import ClaimStore
    from omnigraph.txn.offers.line import MachineLine
    from omnigraph.txn.offers.store import OfferStore
    from omnigraph.txn.publish.phases import Phases
    from omnigraph.txn.publish.stage import Stager
    from omnigraph.txn.recovery.audit import AuditLog
    from omnigraph.txn.transaction import SchemaRules


@record(frozen=False, slots=False)
class GraphStores:
    """The stores of one open graph; every branch shares them, and so the session and handle cache inside."""

    datasets: DatasetStore
    tables: TableStore
    control: ControlObjects
    syncing: Syncing
    pool: ThreadPoolExecutor
    runtime: Runtime
    settings: TxnSettings
    commits: CommitCache = field(default_factory=CommitCache)
    watch: ClaimWatch = field(default_factory=ClaimWatch)
    # Told of every commit of this process, on the thread that published it: whoever listens must be quick.
    listeners: list[Callable[[BranchName, Sequence[Commit]], None]] = field(default_factory=list)
    # Gives what the schema says of changes of rows; None where nobody knows schemas.
    rules: Callable[[], SchemaRules] | None = None
    # What is asked of the graph at this moment: it is closed when the last of it has ended.
    calls: Calls = field(default_factory=lambda: Calls(graph_closed))

    def close(self) -> None:
        """Let the threads go; harmless when that was done already."""
        self.pool.shutdown()
        self.syncing.disk.close()


def graph_closed() -> GraphClosedError:
    """Return the error of a call that came too late."""
    return GraphClosedError("the graph is closed", details=BadValue(what="graph", value="closed", expected="open"))


class BranchServices:
    """Everything that acts on one branch incarnation; what only writes need is loaded by the first of them."""

    def __init__(self, stores: GraphStores, life: BranchLife, formats: FormatChain) -> None:
        self.stores = stores
        self.life = life
        self.line = life.line
        self.runtime = stores.runtime
        self.settings = stores.settings
        self.tables = stores.tables
        self.writer = WriterIdentity.of_this_process()
        self.manifest = ManifestFile(
            stores.datasets,
            life,
            formats,
            stores.commits,
            is_acknowledged=self._is_acknowledged,
        )
        self.keyed = KeyedCommits(self.manifest.commit_line, stores.runtime.clock, stores.settings.key_s)

    @late_property
    def claims(self) -> ClaimStore:
        """The claims on versions of the branch."""
        from omnigraph.txn.claims.store import ClaimStore  # noqa: PLC0415 - a read needs none of it

        stores = self.stores
        return ClaimStore(stores.control, self.line, stores.runtime, stores.settings, stores.watch)

    @property
    def rules(self) -> SchemaRules | None:
        """What the schema says of changes of rows, where somebody knows it."""
        return None if self.stores.rules is None else self.stores.rules()

    @late_property
    def offers(self) -> OfferStore:
        """The writes of other processes that wait."""
        from omnigraph.txn.offers.store import OfferStore  # noqa: PLC0415 - a read needs none of it

        return OfferStore(self.stores.control, self.line, self.runtime, self.stores.pool)

    def machine_line(self) -> MachineLine:
        """Return a place in the line of this machine's writers of the branch."""
        from omnigraph.txn.offers.line import MachineLine  # noqa: PLC0415 - a read needs none of it

        branch = f"{self.line.name}~{self.line.incarnation}"
        return MachineLine(self.stores.datasets.storage, branch, is_used=self.settings.line_up)

    @late_property
    def phases(self) -> Phases:
        """The steps of a publish."""
        from omnigraph.txn.publish.phases import Phases  # noqa: PLC0415 - a read needs none of it

        stores = self.stores
        return Phases(self.manifest, stores.tables, stores.syncing, stores.runtime, stores.pool)

    @late_property
    def stager(self) -> Stager:
        """What writes files that no version names yet."""
        from omnigraph.txn.publish.stage import Stager  # noqa: PLC0415 - a read needs none of it

        stores = self.stores
        return Stager(stores.tables, self.line, stores.syncing, stores.runtime, stores.settings, stores.pool)

    @late_property
    def audit(self) -> AuditLog:
        """What recovery did on the branch."""
        from omnigraph.txn.recovery.audit import AuditLog  # noqa: PLC0415 - a read needs none of it

        return AuditLog(self.stores.datasets, self.stores.syncing)

    def _is_acknowledged(self, version: int) -> bool:
        return self.claims.is_acknowledged(version)

    def snapshot(self, loaded: LoadedManifest) -> GraphSnapshot:
        """Return the snapshot of a loaded manifest."""
        return GraphSnapshot(loaded, self.tables)

    def load(self, known: LoadedManifest | None = None) -> LoadedManifest:
        """Return the newest manifest of the branch; one probe when ``known`` still is it."""
        return self.manifest.load_latest(known)
