"""The calls of a transaction that write. Each can be run again on another state, with the ids that it made up."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, assert_never

import pyarrow as pa

from omnigraph.catalog import Catalog
from omnigraph.engine.comparison import one_array
from omnigraph.engine.load.change import LoadChange, build_change, build_patch, last_of_each
from omnigraph.engine.load.load_files import SpooledRows
from omnigraph.engine.load.options import LoadMode, LoadResult
from omnigraph.engine.mutate.mutation import (
    MutationOutcome,
    MutationResult,
    MutationSurroundings,
    PreparedMutation,
)
from omnigraph.engine.mutate.staging import MutationStaging
from omnigraph.engine.view import TypeChange
from omnigraph.records import record
from omnigraph.runtime import Counters, IdSource
from omnigraph.store.tables.pinned import KEY
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

    def run(self, within: MutationSurroundings) -> None:
        """Put the rows on top of what is staged.

        Raises:
            KeyExistsError: an id exists already, or stands twice in the input.
            BadRowsError: a patch leaves out what no stored row has.
        """
        staging = within.staging
        change = self._change(staging)
        repeated = change.repeated_id(with_keys=True)
        if repeated is not None:
            raise repeated
        for part in change.graph.types.values():
            if part.rows is not None:
                _put(staging, part, part.rows, change.mode)

    def receipt(self, outcome: None) -> dict[str, Any]:
        """Return what a repeated request is told of it."""
        del outcome
        return self.rows.receipt()

    def result(
        self, outcome: None, done: CommitResult, *, branch: str, actor: str | None, counters: Counters
    ) -> LoadResult:
        """Return what is told of it."""
        del outcome, counters
        return self.rows.result(done, branch=branch, actor=actor)

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
        case _:
            assert_never(mode)
