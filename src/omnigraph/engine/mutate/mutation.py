"""A mutation that is ready to run: its plan and calls, what running them gives, and what is told of that."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.catalog import Catalog
from omnigraph.engine.embedding import Embedder
from omnigraph.engine.mutate.calls import CallRunner
from omnigraph.engine.mutate.embedding import embed_inserts
from omnigraph.engine.mutate.matching import Matcher
from omnigraph.engine.mutate.overlay import PendingCopies
from omnigraph.engine.mutate.staging import MutationStaging
from omnigraph.engine.mutate.statements import Affected, returned_schema
from omnigraph.engine.mutate.values import decode_blobs
from omnigraph.engine.query.context import ReadMemory
from omnigraph.engine.results import ReadInfo, Result
from omnigraph.engine.versions import EntityVersions, SupportsHistory, known_versions
from omnigraph.errors import AffectedLimitError, LimitExceeded
from omnigraph.ir.model import InsertPlan, MutationPlan
from omnigraph.ir.parameters import ParameterRows
from omnigraph.records import record
from omnigraph.runtime import Cost, Counters, IdSource, Runtime, current_call, smallest
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.publish.publisher import CommitResult
from omnigraph.values.counts import counted
from omnigraph.values.printable import Printable

if TYPE_CHECKING:
    from omnigraph.engine.load.sequences import StreamMemory

_COUNTED = ("inserted", "updated", "deleted", "unchanged")


@record
class MutationResult(Printable):
    """What a mutation did, where and for whom. ``commit`` is None when the graph was left as it was.

    ``warnings`` are sentences about parameters that are legal and probably not meant.
    """

    branch: str
    actor: str | None
    query_name: str
    affected_nodes: int
    affected_edges: int
    commit: Commit | None
    manifest_version: int
    cost: Cost
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    unchanged: int = 0
    rows: Result | None = None
    warnings: tuple[str, ...] = ()

    @classmethod
    def repeated(cls, commit: Commit, receipt: Mapping[str, Any]) -> MutationResult:
        """Return what a repeated request is told: commit and counts of the first; returned rows are not kept."""
        return cls(
            branch=commit.branch,
            actor=commit.actor,
            query_name=receipt.get("query", ""),
            affected_nodes=receipt.get("nodes", 0),
            affected_edges=receipt.get("edges", 0),
            commit=commit,
            manifest_version=commit.manifest_version,
            cost=Counters().cost(),
            **{name: receipt.get(name, 0) for name in _COUNTED},
        )

    def lines(self) -> Iterator[str]:
        """Yield what changed, by whom, and the rows that came back."""
        counts = f"{counted(self.affected_nodes, 'node')}, {counted(self.affected_edges, 'edge')}"
        yield f"changed {self.branch} via {self.query_name}: {counts}"
        if self.actor is not None:
            yield f"actor_id: {self.actor}"
        if self.rows is not None:
            # Where the rows come from stands in the first line already.
            yield from (line.rstrip() for line in self.rows.to_table().splitlines()[1:])

    def to_json(self) -> dict[str, Any]:
        """Return the result with the field names of the public contract; rows and warnings only if there are some."""
        rows = {} if self.rows is None else {"rows": json.loads(self.rows.to_json())["rows"]}
        warnings = {"warnings": list(self.warnings)} if self.warnings else {}
        return {
            "branch": self.branch,
            "query_name": self.query_name,
            "affected_nodes": self.affected_nodes,
            "affected_edges": self.affected_edges,
            "actor_id": self.actor,
            "commit": None if self.commit is None else self.commit.to_brief_json(),
            "inserted": self.inserted,
            "updated": self.updated,
            "deleted": self.deleted,
            "unchanged": self.unchanged,
            **rows,
            **warnings,
        }


@record
class MutationSurroundings:
    """What a run of statements reads and changes, and what it makes ids and times of.

    Args:
        staging: the state with what came before on top.
        copies: the tables of it that matches read.
        runtime: the runtime.
        ids: makes up the ids of entities without a key.
        now_ms: what ``now()`` is.
        memory: what matches share with the reads of the graph.
        history: the commits of the graph, which versions of entities are ids of.
        log_memory: what is remembered of change logs, what calls before have added to it too.
    """

    staging: MutationStaging
    copies: PendingCopies
    runtime: Runtime
    ids: IdSource
    now_ms: int
    memory: ReadMemory | None = None
    history: SupportsHistory | None = None
    log_memory: Callable[[], StreamMemory] | None = None


@record
class MutationOutcome:
    """What one run of a mutation did: how many entities it affected, and the rows that it returned."""

    affected: Affected
    rows: tuple[pa.Table, ...]


@record
class PreparedMutation:
    """The statements of a mutation and its calls, which may be run several times.

    ``max_affected`` is how many entities may be affected; a run that affects more fails. ``warnings`` are sentences
    about parameters that are legal and probably not meant.
    """

    catalog: Catalog
    plan: MutationPlan
    calls: ParameterRows
    max_affected: int | None = None
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        catalog: Catalog,
        plan: MutationPlan,
        parameters: Mapping[str, Any] | ParameterRows,
        *,
        now_ms: int,
        embedder: Embedder | None = None,
        max_affected: int | None = None,
    ) -> PreparedMutation:
        """Compute what does not depend on the state: required ``@embed`` vectors that inserts leave out, and Blobs.

        Raises:
            QueryMeaningError: nothing computes a vector.
            ExternalBlobError: a Blob is given as an address outside the graph.
        """
        calls = parameters if isinstance(parameters, ParameterRows) else ParameterRows.of_one(parameters)
        if embedder is not None:
            plan, calls = embed_inserts(plan, calls, catalog, embedder, now_ms)
        plan, calls = decode_blobs(plan, calls)
        return cls(catalog=catalog, plan=plan, calls=calls, max_affected=max_affected)

    @property
    def is_insert_only(self) -> bool:
        """Whether no statement depends on stored rows, so that the net effect is the same on every state."""
        return all(
            isinstance(statement, InsertPlan)
            and statement.mode is None
            and statement.for_each is None
            and not statement.blocks
            for statement in self.plan.statements
        )

    def run(self, within: MutationSurroundings) -> MutationOutcome:
        """Run every call in order on what is staged.

        Raises:
            AffectedLimitError: it affects more entities than it may.
            OmnigraphError: whatever :meth:`Statements.run` does.
        """
        snapshot, memory = within.staging.snapshot, within.memory
        known = known_versions() if memory is None else memory.versions
        runner = CallRunner(
            catalog=self.catalog,
            staging=within.staging,
            now_ms=within.now_ms,
            ids=within.ids,
            matcher=Matcher(
                catalog=self.catalog,
                staging=within.staging,
                copies=within.copies,
                runtime=within.runtime,
                versions=EntityVersions(within.history, snapshot, known),
                memory=memory,
            ),
        )
        affected = runner.run(self.plan, self.calls)
        self._check_affected(affected)
        return MutationOutcome(affected=affected, rows=tuple(runner.rows))

    def result(
        self, outcome: MutationOutcome, done: CommitResult, *, branch: str, actor: str | None, counters: Counters
    ) -> MutationResult:
        """Return what is told of a run that was published."""
        affected = outcome.affected
        return MutationResult(
            branch=branch,
            actor=actor,
            query_name=self.plan.name,
            affected_nodes=affected.nodes,
            affected_edges=affected.edges,
            commit=done.commit,
            manifest_version=done.manifest_version,
            cost=done.cost,
            inserted=affected.inserted,
            updated=affected.updated,
            deleted=affected.deleted,
            unchanged=affected.unchanged,
            rows=self._returned(outcome, branch, done.commit, counters),
            warnings=self.warnings,
        )

    def receipt(self, outcome: MutationOutcome) -> dict[str, Any]:
        """Return what :meth:`MutationResult.repeated` needs beside the commit."""
        counts = {name: getattr(outcome.affected, name) for name in ("nodes", "edges", *_COUNTED)}
        return {"query": self.plan.name, **{name: count for name, count in counts.items() if count}}

    def _returned(
        self, outcome: MutationOutcome, branch: str, commit: Commit | None, counters: Counters
    ) -> Result | None:
        if self.plan.returned is None:
            return None
        schema = returned_schema(self.plan.returned)
        info = ReadInfo(query_name=self.plan.name, branch=branch, commit_id=None if commit is None else str(commit.id))
        return Result(schema, pa.concat_tables([schema.empty_table(), *outcome.rows]), info, counters)

    def _check_affected(self, affected: Affected) -> None:
        count, most = affected.nodes + affected.edges, smallest(self.max_affected, current_call().max_affected)
        if most is not None and count > most:
            details = LimitExceeded(resource="affected entities", limit=most, actual=count)
            raise AffectedLimitError(
                f"{counted(count, 'entity', 'entities')} would change, and at most {most} may", details=details
            )
