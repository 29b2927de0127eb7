"""``MutationStaging``: the snapshot as a mutation sees it, its own earlier statements on top."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from sys import getsizeof
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import Catalog
from omnigraph.catalog.arrow import arrow_schema, empty_rows
from omnigraph.catalog.entity_ids import entity_id
from omnigraph.catalog.model import ENDPOINTS, EdgeType, NodeType, Scalar
from omnigraph.engine.comparison import Comparison, one_array, one_of
from omnigraph.engine.mutate.rows import ConditionTest
from omnigraph.engine.mutate.values import rows_of
from omnigraph.engine.view import GraphChange, GraphView, TypeChange
from omnigraph.errors import InternalError, OmnigraphError
from omnigraph.ir.model import BoundEntity
from omnigraph.store.tables.layouts import with_schema
from omnigraph.store.tables.pinned import KEY
from omnigraph.txn.changes import RowChange
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.txn.transaction import WriteTxn

# Single rows that are weighed one by one; more of them are made a table first.
_MOST_WAITING = 128


class PendingTable:
    """Pending rows and removed ids of one table. Per id only the last version exists.

    Inserted rows wait as plain values until somebody wants to see them, so that many inserts cost one conversion.
    """

    def __init__(self, owner: NodeType | EdgeType) -> None:
        self.owner = owner
        self.schema = arrow_schema(owner)
        # Rises with every change.
        self.revision = 0
        # Whether no stored row is left but those that are pending.
        self.replaces_all = False
        self._rows = empty_rows(owner)
        self._waiting: dict[str, Mapping[str, Any]] = {}
        self._removed: set[str] = set()
        # Ids that were made up here: no stored row can have them.
        self._made: set[str] = set()
        # Ids that follow from values: a stored row may have them or not, nobody has looked.
        self._derived: set[str] = set()

    def copy(self) -> PendingTable:
        """Return a table that later changes of this one leave as it is."""
        made = PendingTable(self.owner)
        made.revision, made.replaces_all = self.revision, self.replaces_all
        made._rows, made._waiting = self._rows, dict(self._waiting)
        made._removed, made._made, made._derived = set(self._removed), set(self._made), set(self._derived)
        return made

    @property
    def made(self) -> frozenset[str]:
        """The ids that this mutation made up."""
        return frozenset(self._made)

    @property
    def inserted(self) -> frozenset[str]:
        """The ids of rows that were put whatever is stored under them."""
        return frozenset(self._made | self._derived)

    @property
    def removed(self) -> frozenset[str]:
        """Ids that must not be stored in the end; of those in :attr:`uncertain` there may be no stored row."""
        return frozenset(self._removed)

    @property
    def uncertain(self) -> frozenset[str]:
        """Removed ids of which nobody knows whether a row was stored under them."""
        return frozenset(self._removed & self._derived)

    @property
    def size_bytes(self) -> int:
        """How much memory the rows take."""
        if len(self._waiting) > _MOST_WAITING:
            self.rows()
        waiting = sum(getsizeof(value) for row in self._waiting.values() for value in row.values())
        return waiting + int(self._rows.nbytes)

    def insert(self, entity_id: str, values: Mapping[str, Any], *, is_made: bool) -> None:
        """Put a whole row, in place of any earlier version."""
        self.revision += 1
        (self._made if is_made else self._derived).add(entity_id)
        self._removed.discard(entity_id)
        # The last version also takes the last place.
        self._waiting.pop(entity_id, None)
        self._waiting[entity_id] = {KEY: entity_id, **values}

    def insert_rows(self, rows: pa.Table, *, is_made: bool) -> None:
        """Put whole rows as so many inserts after each other: of several with one id the last counts."""
        self.revision += 1
        ids = rows.column(KEY).to_pylist()
        (self._made if is_made else self._derived).update(ids)
        self._removed.difference_update(ids)
        last = dict(zip(ids, range(len(ids)), strict=True))
        if len(last) < len(ids):
            rows = rows.take(pa.array(sorted(last.values()), pa.int64()))
        self._rows = pa.concat_tables([_without(self.rows(), rows.column(KEY)), rows])

    def put(self, rows: pa.Table) -> None:
        """Put whole rows with distinct ids, in place of any earlier versions."""
        self.revision += 1
        self._rows = pa.concat_tables([_without(self.rows(), rows.column(KEY)), with_schema(rows, self.schema)])

    def replace_all(self, rows: pa.Table) -> None:
        """Put whole rows with distinct ids in place of everything that is there."""
        self.revision += 1
        self.replaces_all, self._rows = True, rows.cast(self.schema)
        for known in (self._waiting, self._removed, self._made, self._derived):
            known.clear()

    def remove(self, ids: Collection[str]) -> None:
        """Remove entities, stored or pending."""
        self.revision += 1
        gone = pa.array(sorted(ids), pa.string())
        self._rows = _without(self.rows(), gone)
        self._removed.update(set(ids) - self._made)

    def with_ids(self, ids: pa.Array) -> pa.Table:
        """Return the pending rows with these ids; rows that wait and are not asked for go on waiting."""
        is_waiting = bool(self._waiting) and any(name in self._waiting for name in ids.to_pylist())
        rows = self.rows() if is_waiting else self._rows
        if not rows.num_rows:
            return rows
        return rows.filter(pc.is_in(rows.column(KEY), value_set=ids))

    def rows(self) -> pa.Table:
        """Return the pending rows, each id once."""
        if self._waiting:
            fresh = rows_of(self.owner, list(self._waiting.values()))
            self._waiting.clear()
            kept = _without(self._rows, fresh.column(KEY))
            self._rows = pa.concat_tables([kept, fresh]) if kept.num_rows else fresh
        return self._rows

    def visible(self, stored: pa.Table) -> pa.Table:
        """Return those stored rows that no pending version hides and no removal took."""
        if self.replaces_all:
            return stored.slice(0, 0)
        if not self.rows().num_rows and not self._removed:
            return stored
        hidden = pa.concat_arrays([*self.rows().column(KEY).chunks, pa.array(sorted(self._removed), pa.string())])
        return _without(stored, hidden)


def _without(rows: pa.Table, ids: pa.Array | pa.ChunkedArray) -> pa.Table:
    if not rows.num_rows or not len(ids):
        return rows
    return rows.filter(pc.invert(pc.is_in(rows.column(KEY), value_set=ids)))


class RefusedValues:
    """Values that cannot be stored, in the order they were assigned. A later statement may still replace them."""

    def __init__(self) -> None:
        # By table, id and property.
        self._errors: dict[tuple[str, str, str], OmnigraphError] = {}

    def __bool__(self) -> bool:
        return bool(self._errors)

    def assign(
        self, table_key: str, ids: Sequence[str], names: Iterable[str], errors: Mapping[str, OmnigraphError]
    ) -> None:
        """Take down that rows got new values for some properties, and which of the values cannot be stored."""
        if not self._errors and not errors:
            return
        for name in names:
            for row_id in ids:
                self._errors.pop((table_key, row_id, name), None)
                if name in errors:
                    self._errors[table_key, row_id, name] = errors[name]

    def forget(self, table_key: str, ids: Collection[str]) -> None:
        """Take down that rows were replaced or removed as a whole."""
        if self._errors:
            self._errors = {
                key: error for key, error in self._errors.items() if key[0] != table_key or key[1] not in ids
            }

    def check(self) -> None:
        """Raise the first error of a value that is still there.

        Raises:
            QueryMeaningError, ExternalBlobError: as the statement would have.
        """
        for error in self._errors.values():
            raise error


class MutationStaging:
    """Collects the effects of statements and answers what each of them may see."""

    def __init__(self, txn: WriteTxn, catalog: Catalog) -> None:
        self._txn = txn
        self._catalog = catalog
        self._view = GraphView(txn.snapshot, catalog)
        self._tables: dict[str, PendingTable] = {}
        # What tables were like when the call began that is under way, of those that it has asked for.
        self._saved: dict[str, PendingTable | None] | None = None
        self.refused = RefusedValues()

    @contextmanager
    def call(self) -> Iterator[None]:
        """Let the block be one call: when it fails, or assigns what cannot be stored, nothing of it stays.

        Raises:
            QueryMeaningError, ExternalBlobError: a value that cannot be stored would be.
        """
        self._saved = {}
        try:
            yield
            self.refused.check()
        except BaseException:
            for table_key, before in self._saved.items():
                del self._tables[table_key]
                if before is not None:
                    self._tables[table_key] = before
            self.refused = RefusedValues()
            raise
        finally:
            self._saved = None

    @property
    def size_bytes(self) -> int:
        """How much memory the pending rows take."""
        return sum(table.size_bytes for table in self._tables.values())

    def pending(self, owner: NodeType | EdgeType) -> PendingTable:
        """Return what is pending for a type."""
        known = self._tables.get(owner.table_key)
        if self._saved is not None and owner.table_key not in self._saved:
            self._saved[owner.table_key] = None if known is None else known.copy()
        if known is None:
            known = self._tables[owner.table_key] = PendingTable(owner)
        return known

    def find(self, owner: NodeType | EdgeType, where: Comparison | ConditionTest, columns: Sequence[str]) -> pa.Table:
        """Return columns of every entity that matches at this point of the mutation.

        The write depends on the whole answer, so it is only published while every row that can match stays as it was.
        """
        pending = self.pending(owner)
        plain = pa.schema([pa.field(name, pending.schema.field(name).type) for name in columns])
        if where.is_never:
            self._txn.read_rows(owner.table_key, ())
            return plain.empty_table()
        needed = list(dict.fromkeys([*columns, KEY, *where.columns]))
        stored = pending.visible(self._stored(owner, where, needed))
        rows = pending.rows()
        matched = [stored, *([rows.filter(where.mask(rows))] if rows.num_rows else [])]
        return pa.concat_tables([with_schema(part, plain) for part in matched])

    @property
    def snapshot(self) -> GraphSnapshot:
        """The state that the mutation runs on."""
        return self._txn.snapshot

    def owner(self, bound: BoundEntity) -> NodeType | EdgeType:
        """Return the type of a variable."""
        name = bound.type_name
        return self._catalog.nodes[name] if bound.entity == "node" else self._catalog.edges[name]

    def depend_on(self, table_key: str) -> None:
        """Take down that the write is decided on every row of a table."""
        self._txn.read_table(table_key)

    def has_changed(self, owner: NodeType | EdgeType) -> bool:
        """Whether a statement has changed rows of a type."""
        pending = self._tables.get(owner.table_key)
        return pending is not None and bool(pending.replaces_all or pending.rows().num_rows or pending.removed)

    def readable_rows(self, owner: NodeType | EdgeType) -> pa.Table:
        """Return everything that can be read of all entities of a type at this point: no Blobs."""
        pending = self.pending(owner)
        blobs = {prop.name for prop in owner.properties if prop.type.scalar is Scalar.BLOB}
        schema = pa.schema([field for field in pending.schema if field.name not in blobs])
        stored = pending.visible(self._view.all_rows(owner.table_key, schema.names))
        return pa.concat_tables([part.select(schema.names).cast(schema) for part in (stored, pending.rows())])

    def revision(self, owner: NodeType | EdgeType) -> int:
        """Return how often rows of a type have changed."""
        return self.pending(owner).revision

    def readable_parts(self, owner: NodeType | EdgeType) -> list[pa.Table]:
        """Return :meth:`readable_rows` as the one part that they are."""
        return [self.readable_rows(owner)]

    def rows_with_ids(self, owner: NodeType | EdgeType, ids: pa.Array, columns: Sequence[str]) -> pa.Table:
        """Return columns of the entities with these ids that are there at this point, and their ids."""
        pending = self.pending(owner)
        wanted = pc.unique(ids).drop_null()
        self._txn.read_rows(owner.table_key, wanted.to_pylist())
        names = list(dict.fromkeys([KEY, *columns]))
        plain = pa.schema([pa.field(name, pending.schema.field(name).type) for name in names])
        stored = pending.visible(self._view.rows_of(owner.table_key, wanted, names))
        rows = pending.with_ids(wanted)
        return pa.concat_tables([with_schema(part, plain) for part in (stored, rows)])

    def aligned(self, owner: NodeType | EdgeType, ids: pa.Array, columns: Sequence[str]) -> pa.Table:
        """Return columns of entities as they are at this point, one row per id; NULL where there is none."""
        found = self.rows_with_ids(owner, ids, columns).combine_chunks()
        return found.take(pc.index_in(ids, value_set=one_array(found.column(KEY))))

    def find_edges(self, edge: EdgeType, node: NodeType, node_ids: pa.Array) -> set[str]:
        """Return the ids of all edges of a type that start or end at one of the nodes, as of this point."""
        types = zip(ENDPOINTS, (edge.from_type, edge.to_type), strict=True)
        sides = [column for column, end_type in types if end_type == node.name]
        ends = [(name, None) if side == "src" else (None, name) for side in sides for name in node_ids.to_pylist()]
        self._txn.read_ends(edge.table_key, ends)
        pending = self.pending(edge)
        rows = pending.rows()
        found: set[str] = set()
        for column in sides:
            stored = self._view.rows_where(edge.table_key, column, node_ids, [KEY])
            self._txn.read_rows(edge.table_key, stored.column(KEY).to_pylist())
            found.update(pending.visible(stored).column(KEY).to_pylist())
            touching = rows.filter(pc.is_in(rows.column(column), value_set=node_ids))
            found.update(touching.column(KEY).to_pylist())
        return found

    def net_change(self) -> GraphChange:
        """Return the net effect of all statements and hand it to the transaction.

        Raises:
            QueryMeaningError, ExternalBlobError: a value that cannot be stored would be.
        """
        self.refused.check()
        types: dict[str, TypeChange] = {}
        for table_key, pending in sorted(self._tables.items()):
            if pending.replaces_all:
                self._txn.replace_all(table_key, pending.rows())
                types[table_key] = TypeChange(type=pending.owner, rows=pending.rows(), replaces_all=True)
                continue
            change = self._row_change(pending)
            if change is None:
                continue
            self._txn.change(change)
            types[table_key] = TypeChange(
                type=pending.owner,
                rows=change.written,
                strict=change.inserts is not None and change.upserts is None,
                has_fresh_ids=change.has_fresh_ids and change.upserts is None,
                deletes=change.deletes,
            )
        return GraphChange(types=types)

    def _row_change(self, pending: PendingTable) -> RowChange | None:
        rows, table_key = pending.rows(), pending.owner.table_key
        removed = set(pending.removed)
        self._txn.read_rows(table_key, pending.uncertain)
        if pending.uncertain:
            asked = pa.array(sorted(pending.uncertain), pa.string())
            stored = self._view.existing_ids(table_key, asked).to_pylist()
            removed -= pending.uncertain - set(stored)
        if not rows.num_rows and not removed:
            return None
        self._check_read(pending, {*removed, *rows.column(KEY).to_pylist()})
        made, others = _split(rows, pending.made)
        return RowChange(
            table_key=table_key,
            inserts=made if made.num_rows else None,
            has_fresh_ids=bool(made.num_rows),
            upserts=others if others.num_rows else None,
            deletes=tuple(sorted(removed)),
        )

    def _check_read(self, pending: PendingTable, written: Collection[str]) -> None:
        """See that rows which replace or remove stored ones were read: they hold what these were like."""
        reads, table_key = self._txn.reads, pending.owner.table_key
        if table_key in reads.tables:
            return
        unread = set(written) - reads.rows[table_key] - pending.inserted
        if unread:
            raise InternalError(f"rows of '{table_key}' are replaced without having been read: {sorted(unread)[:5]}")

    def _stored(self, owner: NodeType | EdgeType, where: Comparison | ConditionTest, columns: list[str]) -> pa.Table:
        """Return columns of the stored rows that match, and take down which ones could."""
        table_key = owner.table_key
        ids = where.ids(owner) if isinstance(where, ConditionTest) else _compared_ids(owner, where)
        if ids is not None:
            # The id follows from the key, and looking an id up is cheaper than asking for a value.
            self._txn.read_rows(table_key, ids)
            found = self._view.rows_of(table_key, pa.array(ids, pa.string()), columns)
            return found.filter(where.mask(found))
        table = self._txn.snapshot.table(table_key)
        ends = _compared_ends(where) if isinstance(owner, EdgeType) else {}
        if ends:
            self._txn.read_ends(table_key, [(ends.get("src"), ends.get("dst"))])
            at_ends = [one_of(column, pa.array([node], pa.string())) for column, node in ends.items()]
            found = table.read(columns, " AND ".join(filter(None, at_ends)))
            self._txn.read_rows(table_key, found.column(KEY).to_pylist())
            return found.filter(where.mask(found))
        self._txn.read_table(table_key)
        predicate = where.sql()
        if predicate is not None:
            found = table.read(columns, predicate)
            return found.filter(where.mask(found))
        # Without a predicate every row passes by: only what decides is read of it, blobs least of all.
        narrow = table.read(list(dict.fromkeys([KEY, *where.columns])))
        matched = narrow.filter(where.mask(narrow)).column(KEY)
        return self._view.rows_of(table_key, matched, columns)


def _compared_ends(where: Comparison | ConditionTest) -> dict[str, str]:
    """Return the ends that every matching edge has; none where more than ends decides, which storage is asked first."""
    if not set(where.columns) <= set(ENDPOINTS):
        return {}
    if isinstance(where, Comparison):
        is_fixed = where.op == "=" and where.verdict is None and where.column in ENDPOINTS
        return {where.column: where.value} if is_fixed else {}
    return {column: node for column, node in zip(ENDPOINTS, where.ends(), strict=True) if node is not None}


def _compared_ids(owner: NodeType | EdgeType, where: Comparison) -> list[str] | None:
    if where.op != "=" or where.verdict is not None:
        return None
    if where.column == KEY:
        return [where.value]
    return [entity_id(owner, {where.column: where.value})] if owner.key == (where.column,) else None


def _split(rows: pa.Table, made: frozenset[str]) -> tuple[pa.Table, pa.Table]:
    """Return the rows with these ids, and the others."""
    none = rows.slice(0, 0)
    if not made:
        return none, rows
    if rows.num_rows <= len(made) and made.issuperset(rows.column(KEY).to_pylist()):
        return rows, none
    is_made = pc.is_in(rows.column(KEY), value_set=pa.array(sorted(made), pa.string()))
    return rows.filter(is_made), rows.filter(pc.invert(is_made))
