"""What a transaction wants to change, before anything is staged: logical, so that it can be staged again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.records import record
from omnigraph.store.staging import IndexBuild, TableStep
from omnigraph.store.tables.pins import TablePin
from omnigraph.txn.manifest.rows import AcceptedSchema, TableEntry
from omnigraph.txn.publish.plan import ActionKind


@record
class RowChange:
    """Rows of one table to insert or replace by id, and ids to remove.

    ``inserts`` must not exist yet; ``upserts`` replace whole rows. Ids are unique across all three.
    ``has_fresh_ids``: the ids of the inserts were generated for them, so nobody can have them already.
    ``outcome``: a table of main that already is the result; a branch that only inherits its own takes it over instead
    of writing the rows again. Many ids to remove are an Arrow array, as they would fill the memory one by one.
    """

    table_key: str
    inserts: pa.Table | None = None
    has_fresh_ids: bool = False
    upserts: pa.Table | None = None
    deletes: tuple[str, ...] | pa.Array = ()
    outcome: TableEntry | None = None

    @property
    def kind(self) -> ActionKind:
        """The action that this change is recorded as."""
        if len(self.deletes) and self.inserts is None and self.upserts is None:
            return ActionKind.DELETE
        return ActionKind.APPEND if self.upserts is None and not len(self.deletes) else ActionKind.UPSERT

    @property
    def written(self) -> pa.Table | None:
        """All rows to write, inserts first."""
        return _join(self.inserts, self.upserts)

    def then(self, later: RowChange) -> RowChange:
        """Return the net effect of this change followed by ``later`` on the same table: the last word per id wins."""
        written = pa.concat_arrays([id_array(later.inserts), id_array(later.upserts)])
        gone = pc.unique(pa.concat_arrays([as_id_array(self.deletes), as_id_array(later.deletes)]))
        touched = pa.concat_arrays([written, as_id_array(later.deletes)])
        deletes = gone.take(pc.sort_indices(gone))
        return replace(
            self,
            inserts=_join(_without(self.inserts, touched), later.inserts),
            has_fresh_ids=self._are_ids_fresh(later),
            upserts=_join(_without(self.upserts, touched), later.upserts),
            deletes=tuple(deletes.filter(pc.invert(pc.is_in(deletes, value_set=written))).to_pylist()),
            outcome=None,
        )

    def with_inserts(self, later: RowChange) -> RowChange:
        """Return the same as :meth:`then` for a change that only inserts rows whose ids this one does not have."""
        return replace(
            self, inserts=_join(self.inserts, later.inserts), has_fresh_ids=self._are_ids_fresh(later), outcome=None
        )

    def _are_ids_fresh(self, later: RowChange) -> bool:
        return all(change.inserts is None or change.has_fresh_ids for change in (self, later))


@record
class TableReplace:
    """Replace all rows of a table, possibly by none."""

    table_key: str
    rows: pa.Table


@record
class TableRegister:
    """Add a type's table, with its first rows if there are any.

    ``outcome``: a table of main that already has these rows; a branch names it instead of writing them again.
    """

    table_key: str
    object_id: str
    folder: str
    schema: pa.Schema
    rows: pa.Table | None = None
    outcome: TableEntry | None = None


@record
class TableDrop:
    """Remove a type's table from the graph; its files stay until cleanup."""

    table_key: str


@record
class TableAlter:
    """Give a type's table another name, other columns, or both; rows, row ids and place stay.

    Args:
        table_key: the table as it is called before.
        new_key: its name afterwards, when that changes; no table of the graph has it before.
        schema: its columns afterwards, when they change.
        origins: for every column of ``schema`` that goes on, its name before; the others are added. One whose type
            changes keeps its values, which the new type holds.
        fills: for columns of ``schema``, what rows without a value get; without it they hold null.
        rows: changes of rows in the columns afterwards, under the name before, that happen in the same commit.
    """

    table_key: str
    new_key: str | None = None
    schema: pa.Schema | None = None
    origins: Mapping[str, str] = field(default_factory=dict)
    fills: Mapping[str, pa.Scalar] = field(default_factory=dict)
    rows: RowChange | None = None

    @property
    def outcome(self) -> TableEntry | None:
        """A table of main that already is the result, columns and rows."""
        return None if self.rows is None else self.rows.outcome


@record
class IndexBuilds:
    """Build or extend indexes of a table."""

    table_key: str
    builds: tuple[IndexBuild, ...]


@record
class Compaction:
    """Merge small fragments of a table; the rows stay the same."""

    table_key: str


@record
class WrittenRows:
    """Rows of one table that other processes have uploaded already.

    Args:
        table_key: the table.
        base: where they were written to, and the version they were made for.
        fragments: the uploaded rows, as JSON texts of their fragments.
        shrunk: fragments of ``base`` that lose rows, with their longer deletion lists.
        removed: fragments of ``base`` that lose all of their rows.
        replaces_all: the table will hold the uploaded rows and no others.
    """

    table_key: str
    base: TablePin
    fragments: tuple[str, ...] = field(repr=False)
    shrunk: tuple[str, ...] = field(default=(), repr=False)
    removed: tuple[int, ...] = ()
    replaces_all: bool = False

    @property
    def is_append(self) -> bool:
        """Whether rows are only added, so that it does not matter which others the table has."""
        return not (self.shrunk or self.removed or self.replaces_all)

    @property
    def kind(self) -> ActionKind:
        """The action that this change is recorded as."""
        if self.replaces_all:
            return ActionKind.OVERWRITE
        return ActionKind.APPEND if self.is_append else ActionKind.UPSERT


@record
class TableSteps:
    """Compactions and index builds of a table, worked out one after the other on ``base``; the rows stay the same."""

    table_key: str
    base: TablePin
    steps: tuple[TableStep, ...]


# What was made elsewhere lies at a place that was chosen before, and can only land there.
ExternalChange = WrittenRows | TableSteps
TableChange = (
    RowChange | TableReplace | TableRegister | TableDrop | TableAlter | IndexBuilds | Compaction | ExternalChange
)


@record
class SchemaChange:
    """Accept another schema together with the table changes of the same transaction."""

    schema: AcceptedSchema


def ids_of(rows: pa.Table | None) -> Sequence[str]:
    """Return the ids of rows, in order."""
    ids: list[str] = [] if rows is None else rows.column("id").to_pylist()
    return ids


def id_array(rows: pa.Table | None) -> pa.Array:
    """Return the ids of rows as one array, in order; many rows never become Python objects."""
    none = pa.array([], pa.string())
    if rows is None:
        return none
    column = rows.column("id")
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays([none, *column.chunks])


def as_id_array(ids: Sequence[str] | pa.Array) -> pa.Array:
    """Return ids as an array, whichever form they have."""
    return ids if isinstance(ids, pa.Array) else pa.array(ids, pa.string())


def _without(rows: pa.Table | None, ids: pa.Array) -> pa.Table | None:
    if rows is None or not len(ids):
        return rows
    kept = rows.filter(pc.invert(pc.is_in(rows.column("id"), value_set=ids)))
    return kept if kept.num_rows else None


def _join(first: pa.Table | None, second: pa.Table | None) -> pa.Table | None:
    if first is None or second is None:
        return first if second is None else second
    return pa.concat_tables([first, second])
