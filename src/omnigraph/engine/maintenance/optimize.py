"""Optimizing a branch: fewer and larger fragments, indexes that cover every row; no answer changes by it.

The work is done beside writers: files are written first, on the state that was planned upon, and only their publish
needs the branch. A table whose fragments were changed meanwhile is planned again; what was done for the others stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from omnigraph.catalog import Catalog
from omnigraph.engine.maintenance.planning import (
    CompactionJob,
    IndexJob,
    IndexOutcome,
    MaintenanceRunner,
    SkipReason,
    is_conflict,
    plan_table_compaction,
    plan_table_indexes,
    reason_to_skip,
    tables_of,
    wanted_indexes,
)
from omnigraph.errors import ExpectedVersionMismatchError, SchemaMovedError, TableMovedError, WriteSweptError
from omnigraph.records import record
from omnigraph.store.staging.compaction import CompactionPolicy
from omnigraph.txn.changes import BuiltIndexes, CompactedTable
from omnigraph.txn.manifest.rows import AcceptedSchema, Commit
from omnigraph.txn.publish.plan import WriteKind
from omnigraph.txn.publish.writer import BranchWriter
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.values import BranchName, check_instance, check_number, check_whole
from omnigraph.values.counts import counted
from omnigraph.values.printable import Printable

MANIFEST_KEY = "__manifest"
# An index that covers every row, be there none, is nothing that anybody waits for.
_SETTLED = frozenset({"current", "no rows"})
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
        for index in self.pending_indexes:
            yield f"index on {index.column} pending ({index.reason})"
        if not self.fragments_removed and not made and not self.pending_indexes:
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
        yield counted(len(self.commits), "commit") if self.commits else "nothing to do"


@dataclass
class _Progress:
    """What has happened to a table so far."""

    before: int
    removed: int = 0
    added: int = 0
    indexes: dict[str, IndexOutcome] = field(default_factory=dict)
    skipped: SkipReason | None = None
    attempts: int = 0
    has_committed: bool = False


def check_policy(policy: object) -> None:
    """Refuse a policy by which no sensible compaction could be planned; None passes, as it stands for the default.

    Raises:
        UsageError: it is something else, or holds a value of another type or out of bounds.
    """
    check_instance("policy", policy, CompactionPolicy)
    if isinstance(policy, CompactionPolicy):
        check_whole("target_rows", policy.target_rows, least=1)
        check_number("fair_share", policy.fair_share)
        check_number("deleted_share", policy.deleted_share, most=1)
        check_whole("max_rows", policy.max_rows, optional=True)


class Optimization:
    """One run over the tables of a branch."""

    def __init__(
        self,
        branch_writer: BranchWriter,
        catalog_of: Callable[[AcceptedSchema], Catalog],
        runner: MaintenanceRunner,
        *,
        policy: CompactionPolicy | None = None,
        actor: str | None = None,
        message: str | None = None,
        is_stopped: Stopped = lambda: False,
    ) -> None:
        self._authority = branch_writer
        self._catalog_of = catalog_of
        self._runner = runner
        self._policy = policy or CompactionPolicy()
        self._actor = actor
        self._message = message
        self._is_stopped = is_stopped
        self._tables: dict[str, _Progress] = {}
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
            for _ in range(_MAX_ROUNDS):
                has_compacted = compacts and self._until_done(self._compact)
                if not self._until_done(self._index) and not has_compacted:
                    break
        return OptimizeResult(
            branch=snapshot.state.head.branch, tables=self._reports(manifest_before), commits=tuple(self._commits)
        )

    def _until_done(self, step: Callable[[GraphSnapshot, Sequence[str]], Sequence[str] | None]) -> bool:
        """Take a step for every table, again for those that writers changed meanwhile; whether it did anything."""
        waiting: Sequence[str] = [key for key, table in self._tables.items() if table.skipped is None]
        known = len(self._commits)
        while waiting and not self._is_stopped():
            snapshot = self._newest()
            again = step(snapshot, [key for key in waiting if snapshot.state.table(key) is not None])
            if again is None:
                break
            for table_key in again:
                table = self._tables[table_key]
                table.attempts += 1
                if table.attempts >= _ATTEMPTS:
                    table.skipped = "busy"
            waiting = [key for key in again if self._tables[key].skipped is None]
        return len(self._commits) > known

    def _compact(self, snapshot: GraphSnapshot, keys: Sequence[str]) -> Sequence[str] | None:
        planned = (plan_table_compaction(snapshot, key, self._policy) for key in keys)
        jobs = [job for job in planned if job is not None]
        if not jobs:
            return None
        made = {
            job.table_key: CompactedTable(table_key=job.table_key, base=job.base, results=results)
            for job, results in zip(jobs, self._runner.compact(jobs), strict=True)
        }
        again = self._publish(WriteKind.OPTIMIZE, made, snapshot)
        self._count_fragments(snapshot, [job for job in jobs if job.table_key not in again])
        return again

    def _index(self, snapshot: GraphSnapshot, keys: Sequence[str]) -> Sequence[str] | None:
        catalog = self._catalog_of(snapshot.state.schema)
        jobs: list[IndexJob] = []
        outcomes: dict[str, tuple[IndexOutcome, ...]] = {}
        for key in keys:
            builds = wanted_indexes(catalog, key)
            plan = plan_table_indexes(
                snapshot, key, builds, group_rows=self._runner.group_rows, max_rows=self._policy.max_rows
            )
            outcomes[key] = plan.outcomes
            if plan.job is not None:
                jobs.append(plan.job)
        again: Sequence[str] = ()
        if jobs:
            made = {
                job.table_key: BuiltIndexes(table_key=job.table_key, base=job.base, indexes=tuple(indexes))
                for job, indexes in zip(jobs, self._runner.build(jobs), strict=True)
            }
            again = self._publish(WriteKind.ENSURE_INDICES, made, snapshot)
        for key in set(outcomes) - set(again):
            self._note_indexes(key, outcomes[key])
        return again if jobs else None

    def _publish(
        self, kind: WriteKind, made: dict[str, CompactedTable] | dict[str, BuiltIndexes], base: GraphSnapshot
    ) -> Sequence[str]:
        """Publish what was made upon ``base``, without the tables that were changed meanwhile; return those."""
        again: list[str] = []
        waiting: dict[str, CompactedTable | BuiltIndexes] = dict(made)
        while waiting:
            txn = self._authority.begin(kind, actor=self._actor, message=self._message)
            if base.state.version < txn.snapshot.state.head.orphan_floor:
                # A cleanup may have removed what was written, which nothing names yet.
                return [*again, *waiting]
            for change in waiting.values():
                txn.change(change)
            try:
                done = self._authority.commit(txn)
            except (ExpectedVersionMismatchError, TableMovedError) as error:
                table_key = is_conflict(error)
                if table_key not in waiting:
                    return [*again, *waiting]
                again.append(table_key)
                del waiting[table_key]
                continue
            except (SchemaMovedError, WriteSweptError):
                return [*again, *waiting]
            if done.commit is not None:
                self._commits.append(done.commit)
                for table_key in waiting:
                    self._tables[table_key].has_committed = True
            break
        return again

    def _count_fragments(self, before: GraphSnapshot, jobs: Sequence[CompactionJob]) -> None:
        after = self._newest()
        for job in jobs:
            old = _fragment_files(before, job.table_key)
            new = _fragment_files(after, job.table_key)
            table = self._tables[job.table_key]
            table.removed += len(old - new)
            table.added += len(new - old)

    def _note_indexes(self, table_key: str, outcomes: Sequence[IndexOutcome]) -> None:
        known = self._tables[table_key].indexes
        for outcome in outcomes:
            # A later round finds what an earlier one has built, which is not what there is to tell.
            if outcome.action != "skipped" or outcome.name not in known:
                known[outcome.name] = outcome

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


def _fragment_files(snapshot: GraphSnapshot, table_key: str) -> set[tuple[str, ...]]:
    # A compacted fragment may have got the number of one that it replaced.
    return {fragment.files for fragment in snapshot.table(table_key).fragments}
