"""Optimizing a branch: fewer and larger fragments, indexes and projections of all rows; no answer changes by it.

The work is done beside writers: files are written first, on the state that was planned upon, and only their publish
needs the branch. A table whose fragments were changed meanwhile is planned again; what was done for the others stands.
All tables are published in one commit: each step is worked out on a detached version that the steps before it lead to.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from omnigraph.catalog import Catalog
from omnigraph.engine.maintenance.building import (
    BuildStopped,
    ProjectionBounds,
    plan_projections,
    stopping,
)
from omnigraph.engine.maintenance.outcomes import ProjectionOutcome
from omnigraph.engine.maintenance.planning import (
    IndexJob,
    IndexOutcome,
    MaintenanceRunner,
    SkipReason,
    is_conflict,
    plan_table_compaction,
    plan_table_indexes,
    reason_to_skip,
    tables_of,
    unused_indexes,
    wanted_indexes,
)
from omnigraph.errors import (
    ExpectedVersionMismatchError,
    OmnigraphError,
    SchemaMovedError,
    TableMovedError,
    WriteSweptError,
)
from omnigraph.records import record
from omnigraph.store.staging import CompactedFragments, TableStep
from omnigraph.store.staging.compaction import CompactionPolicy, is_worth_compacting, number_compacted
from omnigraph.store.staging.indexes import dropped_segments, segments_of
from omnigraph.store.staging.steps import DetachedVersion, check_unmoved, detach, discard
from omnigraph.store.tables.table import Table
from omnigraph.txn.changes import TableSteps
from omnigraph.txn.manifest.rows import AcceptedSchema, Commit
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.publish.writer import BranchWriter
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.values import BranchName
from omnigraph.values.counts import counted
from omnigraph.values.printable import Printable

_log = logging.getLogger(__name__)

MANIFEST_KEY = "__manifest"
# An index that covers every row, be there none, is nothing that anybody waits for.
_SETTLED = frozenset({"current", "no rows", "few vectors"})
# How often one table is planned again because writers changed it meanwhile.
_ATTEMPTS = 5
# Compacting can make work for the indexes and the other way round; both shrink what is left by a factor.
_MAX_ROUNDS = 6

Stopped = Callable[[], bool]


@record
class OptimizedTable:
    """What optimizing did to one table. ``skipped`` says why it was left alone, if it was."""

    table_key: str
    fragments_before: int
    fragments_after: int
    fragments_removed: int = 0
    fragments_added: int = 0
    indexes: tuple[IndexOutcome, ...] = ()
    projections: tuple[ProjectionOutcome, ...] = ()
    skipped: SkipReason | None = None
    published_version: int
    head_version: int
    has_committed: bool = False

    @property
    def pending_indexes(self) -> tuple[IndexOutcome, ...]:
        """The indexes that still do not cover every row, each with the reason why it was left alone."""
        return tuple(item for item in self.indexes if item.action == "skipped" and item.reason not in _SETTLED)

    def to_json(self) -> dict[str, Any]:
        """Return the table as every result shows it."""
        return {
            "type_key": self.table_key,
            "fragments_before": self.fragments_before,
            "fragments_after": self.fragments_after,
            "fragments_removed": self.fragments_removed,
            "fragments_added": self.fragments_added,
            "committed": self.has_committed,
            "skipped": self.skipped,
            "published_dataset_version": self.published_version,
            "lance_head_version": self.head_version,
            "indexes": [
                {"name": item.name, "property": item.column, "kind": item.kind, "action": item.action}
                for item in self.indexes
                if item.action != "skipped"
            ],
            "pending_indexes": [{"property": item.column, "reason": item.reason} for item in self.pending_indexes],
            "projections": [item.to_json() for item in self.projections],
        }

    def __str__(self) -> str:
        return f"{self.table_key}: {', '.join(self._done())}"

    def _done(self) -> Iterator[str]:
        if self.skipped is not None:
            yield f"skipped ({self.skipped})"
            return
        if self.fragments_removed:
            before = counted(self.fragments_before, "fragment")
            same = self.fragments_before == self.fragments_after
            yield f"{before} rewritten" if same else f"{before} became {self.fragments_after}"
        made = [index for index in self.indexes if index.action != "skipped"]
        for action in ("built", "extended", "rebuilt"):
            columns = [index.column for index in made if index.action == action]
            if columns:
                indexes = counted(len(columns), "index", "indexes")
                yield f"{action} {indexes} on {', '.join(dict.fromkeys(columns))}"
        unused = [index.column for index in made if index.action == "removed"]
        if unused:
            indexes = counted(len(unused), "unused index", "unused indexes")
            yield f"removed {indexes} on {', '.join(dict.fromkeys(unused))}"
        for index in self.pending_indexes:
            yield f"index on {index.column} pending ({index.reason})"
        yield from map(str, self.projections)
        if not self.fragments_removed and not made and not self.pending_indexes and not self.projections:
            yield "up to date"


@record
class OptimizeResult(Printable):
    """What optimizing a branch did. There are no commits when there was nothing to do."""

    branch: BranchName
    tables: tuple[OptimizedTable, ...]
    commits: tuple[Commit, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the result as every face shows it."""
        return {
            "branch": self.branch,
            "datasets": [table.to_json() for table in self.tables],
            "commits": [commit.to_brief_json() for commit in self.commits],
        }

    def lines(self) -> Iterator[str]:
        """Yield what was done to each table, and how many commits that took."""
        yield from (str(table) for table in self.tables if table.table_key != MANIFEST_KEY)
        if self.commits:
            yield counted(len(self.commits), "commit")
        else:
            # Projections are derived from what is published, and so belong to no commit.
            yield "no commit" if any(table.projections for table in self.tables) else "nothing to do"


@record(frozen=False, kw_only=False)
class _Work:
    """What was worked out for one table and waits to be published: steps upon ``base``, and what they lead to."""

    base: Table
    made_on: int
    table: Table
    steps: list[TableStep] = field(default_factory=list)
    indexes: dict[str, IndexOutcome] = field(default_factory=dict)
    is_done: bool = False
    has_caught_up: bool = False


@record(frozen=False, kw_only=False)
class _Progress:
    """What has happened to a table so far."""

    before: int
    removed: int = 0
    added: int = 0
    indexes: dict[str, IndexOutcome] = field(default_factory=dict)
    projections: list[ProjectionOutcome] = field(default_factory=list)
    skipped: SkipReason | None = None
    attempts: int = 0
    has_committed: bool = False


class Optimization:
    """One run over the tables of a branch.

    ``projections`` says which tables get projections once all else is published; none of them when it is None.
    """

    def __init__(
        self,
        branch_writer: BranchWriter,
        catalog_of: Callable[[AcceptedSchema], Catalog],
        runner: MaintenanceRunner,
        *,
        policy: CompactionPolicy | None = None,
        actor: str | None = None,
        message: str | None = None,
        projections: ProjectionBounds | None = None,
        is_stopped: Stopped = lambda: False,
    ) -> None:
        self._authority = branch_writer
        self._catalog_of = catalog_of
        self._runner = runner
        self._policy = policy or CompactionPolicy()
        self._actor = actor
        self._message = message
        self._projections = projections
        self._is_stopped = is_stopped
        self._tables: dict[str, _Progress] = {}
        self._detached: list[DetachedVersion] = []
        self._commits: list[Commit] = []

    def run(self, types: Sequence[str] | None = None, *, compacts: bool = True) -> OptimizeResult:
        """Optimize the named types, or all of them; without ``compacts`` only their indexes are brought up to date.

        Raises:
            TypeMissingError: there is no type of such a name.
            BranchMissingError: the branch was deleted.
        """
        self._authority.recover()
        snapshot = self._newest()
        manifest_before = len(snapshot.manifest.dataset.fragments)
        for table_key in tables_of(snapshot, types):
            fragments = len(snapshot.table(table_key).fragments)
            skipped = reason_to_skip(self._authority.services, snapshot, table_key)
            self._tables[table_key] = _Progress(before=fragments, skipped=skipped)
        with self._authority.services.life.reading():
            try:
                self._run(compacts=compacts)
            finally:
                discard(self._authority.services.tables.control, self._detached)
            if self._projections is not None:
                self._project(self._projections)
        return OptimizeResult(
            branch=snapshot.state.head.branch, tables=self._reports(manifest_before), commits=tuple(self._commits)
        )

    def _run(self, *, compacts: bool) -> None:
        """Work out what every table needs and publish it as one commit.

        Tables that writers changed meanwhile are worked out again first; what was done for the others is kept.
        """
        ready: dict[str, _Work] = {}
        missing: Sequence[str] = [key for key, table in self._tables.items() if table.skipped is None]
        while True:
            ready |= self._work_out(missing, compacts=compacts)
            works = {key: work for key, work in ready.items() if work.steps}
            moved = self._catch_up(works) or self._publish(works)
            if not moved:
                break
            for table_key in moved:
                del ready[table_key]
                table = self._tables[table_key]
                table.attempts += 1
                if table.attempts >= _ATTEMPTS:
                    table.skipped = "busy"
            missing = [key for key in moved if self._tables[key].skipped is None]
        for table_key, work in ready.items():
            self._note(table_key, work)

    def _work_out(self, keys: Sequence[str], *, compacts: bool) -> dict[str, _Work]:
        """Take steps for every table until there is nothing left to do; they are on storage and visible to none."""
        snapshot = self._newest()
        catalog = self._catalog_of(snapshot.state.schema)
        works = {
            key: _Work(base=snapshot.table(key), made_on=snapshot.state.version, table=snapshot.table(key))
            for key in keys
            if snapshot.state.table(key) is not None
        }
        self._drop_unused(works, catalog)
        for _ in range(_MAX_ROUNDS):
            active = {key: work for key, work in works.items() if not work.is_done}
            if not active or self._is_stopped():
                break
            if compacts:
                self._compact(active)
            self._index(active, catalog, compacts=compacts)
        return works

    def _drop_unused(self, works: Mapping[str, _Work], catalog: Catalog) -> None:
        """Take away indexes that nothing asks for; first, as fragments are kept apart by what covers them."""
        for key, work in works.items():
            unused = unused_indexes(work.table, wanted_indexes(catalog, key, work.table))
            if unused:
                work.indexes |= {outcome.name: outcome for outcome in unused}
                self._take(work, dropped_segments(work.table, {outcome.name for outcome in unused}))

    def _compact(self, works: Mapping[str, _Work]) -> None:
        planned = (plan_table_compaction(key, work.table, self._policy) for key, work in works.items())
        jobs = [job for job in planned if job is not None]
        for job, results in zip(jobs, self._runner.compact(jobs) if jobs else (), strict=True):
            work = works[job.table_key]
            self._take(work, number_compacted(work.table, results))

    def _index(self, works: Mapping[str, _Work], catalog: Catalog, *, compacts: bool) -> None:
        """Build what is missing; a table is done when that leaves nothing to compact."""
        jobs: list[IndexJob] = []
        for key, work in works.items():
            plan = plan_table_indexes(
                key,
                work.table,
                wanted_indexes(catalog, key, work.table),
                group_rows=self._runner.group_rows,
                max_rows=self._policy.max_rows,
            )
            for outcome in plan.outcomes:
                # A later round finds what an earlier one has built, which is not what there is to tell.
                if outcome.action != "skipped" or outcome.name not in work.indexes:
                    work.indexes[outcome.name] = outcome
            work.is_done = plan.job is None
            if plan.job is not None:
                jobs.append(plan.job)
        for job, built in zip(jobs, self._runner.build(jobs) if jobs else (), strict=True):
            work = works[job.table_key]
            step = segments_of(work.table, built, built_on=work.base.pin.version)
            # Fragments that only an index kept apart can be merged now.
            work.is_done = not compacts or not is_worth_compacting(work.table, self._policy)
            if work.is_done:
                work.steps.append(step)
            else:
                self._take(work, step)

    def _take(self, work: _Work, step: TableStep) -> None:
        services = self._authority.services
        detached = detach(work.table, step, services.runtime)
        self._detached.append(detached)
        work.steps.append(step)
        work.table = services.tables.open(detached.pin)

    def _catch_up(self, works: Mapping[str, _Work]) -> Sequence[str]:
        """Fold rows into the indexes that were added while the work was done; return the tables that it is in vain for.

        Done once, because writers need not pause for it to end.
        """
        snapshot = self._newest()
        moved, grown = [], {}
        for key, work in works.items():
            entry = snapshot.state.table(key)
            if work.has_caught_up or (entry is not None and entry.pin == work.base.pin):
                continue
            work.has_caught_up = True
            if entry is None:
                moved.append(key)
                continue
            newest = snapshot.table(key)
            try:
                check_unmoved(newest, work.base, work.steps)
            except TableMovedError:
                moved.append(key)
                continue
            steps, work.base, work.table, work.steps = work.steps, newest, newest, []
            for step in steps:
                self._take(work, step)
            grown[key] = work
        if grown:
            self._index(grown, self._catalog_of(snapshot.state.schema), compacts=False)
        return moved

    def _publish(self, works: Mapping[str, _Work]) -> Sequence[str]:
        """Publish what was worked out, as one commit; return the tables that stand in its way, if any do."""
        if not works:
            return ()
        compacted = any(isinstance(step, CompactedFragments) for work in works.values() for step in work.steps)
        kind = WriteKind.OPTIMIZE if compacted else WriteKind.ENSURE_INDICES
        txn = self._authority.begin(kind, actor=self._actor, message=self._message)
        floor = txn.snapshot.state.head.orphan_floor
        # A cleanup may have removed what was written, which nothing names yet.
        swept = [key for key, work in works.items() if work.made_on < floor]
        if swept:
            return swept
        for key, work in works.items():
            txn.change(TableSteps(table_key=key, base=work.base.pin, steps=tuple(work.steps)))
        try:
            done = self._authority.commit(txn)
        except (ExpectedVersionMismatchError, TableMovedError) as error:
            table_key = is_conflict(error)
            return list(works) if table_key is None or table_key not in works else [table_key]
        except (SchemaMovedError, WriteSweptError):
            return list(works)
        if done.commit is not None:
            self._commits.append(done.commit)
            for key in works:
                self._tables[key].has_committed = True
        return ()

    def _note(self, table_key: str, work: _Work) -> None:
        table = self._tables[table_key]
        table.indexes = work.indexes
        old, new = _fragment_files(work.base), _fragment_files(work.table)
        table.removed, table.added = len(old - new), len(new - old)

    def _project(self, bounds: ProjectionBounds) -> None:
        """Build the projections that what is published by now lacks. Nothing that fails here undoes what was done."""
        services = self._authority.services
        keys = [key for key, table in self._tables.items() if table.skipped is None]
        try:
            snapshot = self._newest()
            catalog = self._catalog_of(snapshot.state.schema)
            jobs = plan_projections(catalog, snapshot, keys, services.tables.datasets.projections, bounds)
            for outcomes in self._runner.project(jobs, services.tables.open, stopping(self._is_stopped)):
                for outcome in outcomes:
                    self._tables[outcome.table_key].projections.append(outcome)
        except BuildStopped:
            return
        except OmnigraphError as error:
            _log.warning("projections were not built: %s", error)

    def _newest(self) -> GraphSnapshot:
        return self._authority.snapshot()

    def _reports(self, manifest_before: int) -> tuple[OptimizedTable, ...]:
        snapshot = self._newest()
        found = []
        for table_key, table in self._tables.items():
            entry = snapshot.state.table(table_key)
            if entry is None:
                continue
            pin = entry.pin
            found.append(
                OptimizedTable(
                    table_key=table_key,
                    fragments_before=table.before,
                    fragments_after=len(snapshot.table(table_key).fragments),
                    fragments_removed=table.removed,
                    fragments_added=table.added,
                    indexes=tuple(table.indexes.values()),
                    projections=tuple(table.projections),
                    skipped=table.skipped,
                    published_version=pin.version,
                    head_version=self._authority.services.tables.head(pin.location, pin.branch),
                    has_committed=table.has_committed,
                )
            )
        return (*found, self._manifest_report(snapshot, manifest_before))

    def _manifest_report(self, snapshot: GraphSnapshot, before: int) -> OptimizedTable:
        """The manifest folds its lineage with every publish, so that there is nothing left to do for it."""
        after = len(snapshot.manifest.dataset.fragments)
        version = snapshot.state.version
        return OptimizedTable(
            table_key=MANIFEST_KEY,
            fragments_before=before,
            fragments_after=after,
            fragments_removed=max(0, before - after),
            fragments_added=max(0, after - before),
            published_version=version,
            head_version=version,
            has_committed=bool(self._commits),
        )


def _fragment_files(table: Table) -> set[tuple[str, ...]]:
    # A compacted fragment may have got the number of one that it replaced.
    return {fragment.files for fragment in table.fragments}
