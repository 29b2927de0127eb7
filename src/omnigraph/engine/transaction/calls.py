"""The calls of a transaction that write. Each can be run again on another state, with the ids that it made up."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, assert_never

import pyarrow as pa

from omnigraph.catalog import Catalog
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.comparison import one_array
from omnigraph.engine.load.apply import LogState
from omnigraph.engine.load.change import LoadChange, build_change, build_patch, last_of_each
from omnigraph.engine.load.load_files import SpooledRows
from omnigraph.engine.load.options import ChangeCounts, LoadMode, LoadResult
from omnigraph.engine.mutate.mutation import (
    MutationOutcome,
    MutationResult,
    MutationSurroundings,
    PreparedMutation,
)
from omnigraph.engine.mutate.staging import MutationStaging
from omnigraph.engine.view import TypeChange
from omnigraph.errors import InternalError
from omnigraph.records import record
from omnigraph.runtime import Counters, IdSource
from omnigraph.store.tables.pinned import KEY
from omnigraph.txn.changes import as_id_array
from omnigraph.txn.publish.publisher import CommitResult
from omnigraph.txn.transaction import key_exists
from omnigraph.values import Ulid

_Outcome = TypeVar("_Outcome")


class RepeatableIds(IdSource):
    """Makes up ids, and gives the same ones again when the calls that asked for them are run again.

    Whoever was shown an id of a first run finds the entity under it, whichever run was published.
    """

    def __init__(self, source: IdSource) -> None:
        self._source = source
        self._given: list[tuple[int, Ulid]] = []
        self._place = 0

    def rewind(self) -> None:
        """Start over: what follows gets the ids that were given before, as long as it asks for the same."""
        self._place = 0

    def ulid(self) -> Ulid:
        """Return an id that no other source gives."""
        return self.reserve(1)

    def reserve(self, count: int) -> Ulid:
        """Return the first of ``count`` ids with consecutive numbers."""
        while self._place < len(self._given):
            known, first = self._given[self._place]
            self._place += 1
            if known == count:
                return first
        first = self._source.reserve(count)
        self._given.append((count, first))
        self._place = len(self._given)
        return first

    def uuid(self) -> str:
        """Return a random UUID."""
        return self._source.uuid()


class Call(Protocol[_Outcome]):
    """A call that writes."""

    @property
    def is_insert_only(self) -> bool:
        """Whether its net effect is the same on every state."""

    def run(self, within: MutationSurroundings) -> _Outcome:
        """Run it on what is staged."""

    def receipt(self, outcome: _Outcome) -> dict[str, Any]:
        """Return what a repeated request is told of it."""

    def result(
        self, outcome: _Outcome, done: CommitResult, *, branch: str, actor: str | None, counters: Counters
    ) -> MutationResult | LoadResult:
        """Return what is told of it."""


AnyCall = Call[Any]


@record
class MutationCall:
    """A mutation, once or for each row of parameters."""

    mutation: PreparedMutation

    @property
    def is_insert_only(self) -> bool:
        """Whether its net effect is the same on every state."""
        return self.mutation.is_insert_only

    def run(self, within: MutationSurroundings) -> MutationOutcome:
        """Run it on what is staged."""
        return self.mutation.run(within)

    def receipt(self, outcome: MutationOutcome) -> dict[str, Any]:
        """Return what a repeated request is told of it."""
        return self.mutation.receipt(outcome)

    def result(
        self, outcome: MutationOutcome, done: CommitResult, *, branch: str, actor: str | None, counters: Counters
    ) -> MutationResult:
        """Return what is told of it."""
        return self.mutation.result(outcome, done, branch=branch, actor=actor, counters=counters)


@record
class LoadCall:
    """A load whose rows are read; temporary files hold them as long as the transaction is open."""

    catalog: Catalog
    rows: SpooledRows

    @property
    def is_insert_only(self) -> bool:
        """Whether its net effect is the same on every state: only rows that replace or join others as a whole."""
        return self.rows.mode == "merge" and not self.rows.is_patch

    def run(self, within: MutationSurroundings) -> ChangeCounts | None:
        """Put the rows on top of what is staged, and return what became of those of a change log.

        Raises:
            KeyExistsError: an id exists already, or stands twice in the input.
            BadRowsError: a patch leaves out what no stored row has.
        """
        staging = within.staging
        if self.rows.mode == "apply":
            return self._apply(within)
        change = self._change(staging)
        repeated = change.repeated_id(with_keys=True)
        if repeated is not None:
            raise repeated
        for part in change.graph.types.values():
            if part.rows is not None:
                _put(staging, part, part.rows, change.mode)
        return None

    def receipt(self, outcome: ChangeCounts | None) -> dict[str, Any]:
        """Return what a repeated request is told of it."""
        return self.rows.receipt(outcome)

    def result(
        self, outcome: ChangeCounts | None, done: CommitResult, *, branch: str, actor: str | None, counters: Counters
    ) -> LoadResult:
        """Return what is told of it."""
        del counters
        return self.rows.result(done, outcome, branch=branch, actor=actor)

    def _apply(self, within: MutationSurroundings) -> ChangeCounts:
        staging = within.staging

        def stored_edges(edge: EdgeType, node: NodeType, ids: pa.Array) -> pa.Table:
            return pa.table({KEY: pa.array(sorted(staging.find_edges(edge, node, ids)), pa.string())})

        assert within.log_memory is not None  # noqa: S101 - for the type checker: transactions of several calls have it
        state = LogState(stored_rows=staging.rows_with_ids, stored_edges=stored_edges, memory=within.log_memory)
        applied = self.rows.apply(self.catalog, state)
        for part in applied.change.graph.types.values():
            pending = staging.pending(part.type)
            if part.rows is not None:
                pending.insert_rows(part.rows, is_made=False)
            if len(part.deletes):
                pending.remove(as_id_array(part.deletes).to_pylist())
        applied.remember()
        return applied.counts

    def _change(self, staging: MutationStaging) -> LoadChange:
        rows = self.rows
        if not rows.is_patch:
            return build_change(rows.spool, rows.files, rows.mode)

        def rows_of(table_key: str, ids: pa.ChunkedArray, columns: Any) -> pa.Table:
            return staging.rows_with_ids(rows.spool.owners[table_key], one_array(ids), columns)

        change = build_patch(rows.spool, rows.files, rows_of, rows.problems)
        rows.problems.fail()
        return change


def _put(staging: MutationStaging, part: TypeChange, rows: pa.Table, mode: LoadMode) -> None:
    pending = staging.pending(part.type)
    match mode:
        case "overwrite":
            pending.replace_all(rows)
        case "append":
            if not part.has_fresh_ids:
                taken = staging.rows_with_ids(part.type, one_array(rows.column(KEY)), ())
                if taken.num_rows:
                    raise key_exists(part.table_key, taken.column(KEY).to_pylist())
            pending.insert_rows(rows, is_made=part.has_fresh_ids)
        case "merge":
            pending.insert_rows(last_of_each(rows), is_made=part.has_fresh_ids)
        case "apply":
            raise InternalError("a change log is not put as rows")
        case _:
            assert_never(mode)
