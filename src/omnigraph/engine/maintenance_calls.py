"""What may be asked of a session about maintenance, in the words of a caller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from omnigraph.engine.maintenance.auto import MaintenanceSettings
from omnigraph.engine.schema.accepted import CatalogCache
from omnigraph.runtime import Calls, Counters, World, counted
from omnigraph.txn.graph_store import GraphStore
from omnigraph.values import MAIN, BranchName, check_flag

if TYPE_CHECKING:
    from omnigraph.engine.maintenance.cleanup import CleanupResult
    from omnigraph.engine.maintenance.optimize import OptimizeResult
    from omnigraph.engine.maintenance.planning import MaintenanceRunner
    from omnigraph.engine.maintenance.repair import RepairResult
    from omnigraph.engine.maintenance.status import GraphStatus
    from omnigraph.store.staging.compaction import CompactionPolicy


class MaintenanceCalls:
    """The calls of a session that tidy up, or say how the graph fares. None of them changes an answer."""

    store: GraphStore
    _calls: Calls
    maintenance: MaintenanceSettings
    _catalogs: CatalogCache
    _world: World

    @counted
    def optimize(
        self,
        branch: str = MAIN,
        types: Sequence[str] | None = None,
        *,
        actor: str | None = None,
        policy: CompactionPolicy | None = None,
        runner: MaintenanceRunner | None = None,
    ) -> OptimizeResult:
        """Compact the tables of a branch and bring their indexes up to date, beside whoever writes to it.

        Args:
            branch: whose tables; those that it inherits are left to the branch that owns them.
            types: only these, ``Person`` or ``node:Person``.
            actor: who asks for it.
            policy: when fragments are merged.
            runner: who does the work; threads of this process when None.

        Raises:
            BranchMissingError, TypeMissingError: there is no such branch or type.
            ReadOnlyError: the graph is open for reading only.
        """
        from omnigraph.engine.maintenance.optimize import Optimization, check_policy  # noqa: PLC0415 - a read needs none of it
        from omnigraph.engine.maintenance.planning import LocalRunner  # noqa: PLC0415 - a read needs none of it

        check_policy(policy)
        authority = self.store.current(BranchName.parse(branch), Counters())[0]
        chosen = runner or LocalRunner(self.store.storage, self.maintenance.threads)
        return Optimization(authority, self._catalogs.get, chosen, policy=policy, actor=actor).run(types)

    def _tidy(self, branch: BranchName, is_stopped: Callable[[], bool]) -> None:
        """Do what little a background thread may do about a branch."""
        from omnigraph.engine.maintenance.optimize import Optimization  # noqa: PLC0415 - a read needs none of it
        from omnigraph.engine.maintenance.planning import LocalRunner  # noqa: PLC0415 - a read needs none of it
        from omnigraph.store.staging.compaction import CompactionPolicy  # noqa: PLC0415 - a read needs none of it

        authority = self.store.current(branch, Counters())[0]
        Optimization(
            authority,
            self._catalogs.get,
            LocalRunner(self.store.storage, 1),
            policy=CompactionPolicy(max_rows=self.maintenance.auto_max_rows),
            is_stopped=is_stopped,
        ).run()

    @counted
    def cleanup(
        self, *, keep: int | None = None, older_than_s: float | None = None, confirm: bool = False
    ) -> CleanupResult:
        """Give back the storage of old states, on every branch; without ``confirm`` only say what would go.

        Args:
            keep: how many of the newest states of each branch stay.
            older_than_s: how long a state stays after it was current.
            confirm: do it; states that go can never be read again.

        Raises:
            UsageError: neither ``keep`` nor ``older_than_s`` is given.
            TableDriftError: a table was changed by something else, and has to be repaired first.
            ClaimBusyError: writers kept a branch busy for too long; nothing was removed.
            ReadOnlyError: the graph is open for reading only.
        """
        from omnigraph.engine.maintenance.cleanup import Cleanup  # noqa: PLC0415 - a read needs none of it
        from omnigraph.engine.maintenance.retention import Retention  # noqa: PLC0415 - a read needs none of it

        check_flag("confirm", confirm)
        retention = Retention(keep=keep, older_than_s=older_than_s)
        work = Cleanup(self.store, retention, self.maintenance, self._world)
        return work.run() if confirm else work.preview()

    @counted
    def status(self, branch: str = MAIN, *, storage: bool = False, counters: Counters | None = None) -> GraphStatus:
        """Say how the graph fares: rows, fragments, indexes, writes under way, and what to do about it.

        Args:
            branch: as which branch sees it.
            storage: look at every stored file, too: versions and bytes. That takes longer the more states are kept.
            counters: where the calls go.

        Raises:
            BranchMissingError: there is no such branch.
        """
        from omnigraph.engine.maintenance.status import read_status  # noqa: PLC0415 - a read needs none of it

        check_flag("storage", storage)
        name = BranchName.parse(branch)
        schema = self.store.snapshot(name, counters or Counters()).state.schema
        return read_status(
            self.store,
            name,
            self._catalogs.get(schema),
            self.maintenance,
            self._world,
            storage=storage,
            counters=counters,
        )

    @counted
    def repair(
        self, branch: str = MAIN, *, confirm: bool = False, force: bool = False, discard: bool = False
    ) -> RepairResult:
        """Show what something other than omnigraph has done to the tables of a branch, and settle it if asked to.

        Args:
            branch: whose tables.
            confirm: adopt compactions, which change no row; otherwise only look.
            force: adopt every other change too.
            discard: undo every change instead.

        Raises:
            UsageError: ``force`` or ``discard`` without ``confirm``, or both.
            ClaimBusyError: a write is under way, or waits to be recovered.
            ExpectedVersionMismatchError: a table moved meanwhile.
            ReadOnlyError: the graph is open for reading only.
        """
        from omnigraph.engine.maintenance.repair import RepairOrder, repair  # noqa: PLC0415 - a read needs none of it

        order = RepairOrder(confirm=confirm, force=force, discard=discard)
        return repair(self.store.current(BranchName.parse(branch), Counters())[0], order, Counters())
