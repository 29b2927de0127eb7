"""The entities of one type at the snapshot, asked by row id.

Few rows are fetched from storage and kept until the read ends; many are taken from columns held in memory for all
reads. Which of the two happens changes the cost, never the values.

Costs are estimates in microseconds from row counts alone: the choice depends on what was asked, never on the clock.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.model import EdgeType, InterfaceType, NodeType
from omnigraph.engine.columns import take_from, take_scattered, taken_bytes
from omnigraph.engine.comparison import one_array
from omnigraph.engine.query.frame import Mask, Positions, RowIds, distinct, untagged
from omnigraph.engine.query.limits import Limits
from omnigraph.engine.query.options import ExpandMode
from omnigraph.engine.query.topology import TableImage, TopologyCache
from omnigraph.engine.query.topology.image import ranks_of
from omnigraph.errors import QueryMemoryError
from omnigraph.store.tables.pinned import KEY, ROW_ID
from omnigraph.store.tables.table import Table

# What is walked a few times is walked many times, so memory is bought when a tenth of its price has been spent.
_SHARE = 10
# Versions of tables that are counted; a version that nobody reads any more leaves.
_REMEMBERED = 4096


class Demand:
    """Sums up what fetching has cost so far. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spent: OrderedDict[Hashable, int] = OrderedDict()

    def spend(self, what: Hashable, cost: int) -> None:
        """Add the cost of one more fetch."""
        with self._lock:
            self._spent[what] = self._spent.pop(what, 0) + cost
            while len(self._spent) > _REMEMBERED:
                self._spent.popitem(last=False)

    def is_worth(self, what: Hashable, price: int) -> bool:
        """Whether so much was spent on something that bringing it into memory at a price pays."""
        return self._spent.get(what, 0) * _SHARE > price


def rows_cost(row_count: int) -> int:
    """Return what fetching some rows by row id or id costs."""
    return 2_000 + 20 * row_count


def edges_cost(edge_count: int) -> int:
    """Return what fetching some edges by an end costs."""
    return 4_000 + 10 * edge_count


def column_price(row_count: int) -> int:
    """Return what bringing a whole column into memory costs."""
    return 5_000 + row_count // 8


def adjacency_price(edge_count: int, unknown_count: int) -> int:
    """Return what adjacency costs: all edges are copied, those that no other version has in memory are read as well."""
    return 10_000 + edge_count // 30 + unknown_count * 2 // 5


# Up to so many rows, and so small a share of the table, fetching them beats reading whole columns.
_FETCHED_ROWS = 2048
_FETCHED_SHARE = 8
# Beyond this, listing rows to storage costs more than any column.
_LISTED_ROWS = 20_000
# For more rows, or a larger share of them, putting the chunks of a column side by side costs no more than looking into
# each of them.
_SCATTERED_ROWS = 8192
_SCATTERED_SHARE = 8
# What making the keys of a table takes: memory per row, and rows in a millisecond on a slow machine.
_KEY_BYTES = 40
_KEYS_PER_MS = 250
# A number, and whether there is one.
_NUMBER_BYTES = 9
_NO_ROWS: RowIds = np.zeros(0, dtype=np.int64)


class Entities:
    """One table of the snapshot.

    Args:
        owner: the type.
        table: its table, pinned.
        columns: the properties that the read wants of it; a fetch brings all of them at once.
        topology: the memory that reads share.
        demand: what reads fetched before.
        mode: whether to prefer storage or memory.
        limits: what may be held; rows that are fetched and columns that are made stay until the read ends.
    """

    def __init__(
        self,
        owner: NodeType | EdgeType,
        table: Table,
        columns: Sequence[str],
        topology: TopologyCache,
        demand: Demand,
        mode: ExpandMode,
        limits: Limits,
    ) -> None:
        self.owner = owner
        self.table = table
        self.columns = tuple(dict.fromkeys((KEY, *columns)))
        self._topology = topology
        self._demand = demand
        self._mode = mode
        self._limits = limits
        # Versions of a table share most of what is in memory, so what was spent on one counts for the next.
        self._demanded = (table.pin.location, table.pin.branch)
        self._image: TableImage | None = None
        # Columns that this read has asked for, as they are in memory, and in one piece.
        self._columns: dict[str, pa.ChunkedArray] = {}
        self._combined: dict[str, pa.Array] = {}
        # The rows that were last asked for, and where they stand: reads want several columns of the same rows.
        self._placed: tuple[RowIds, Positions] | None = None
        self._indices: tuple[Positions, pa.Array] | None = None
        self._numbers: dict[str, tuple[npt.NDArray[np.float64], Mask]] = {}
        self._fetched_ids: RowIds = _NO_ROWS
        self._fetched: pa.Table | None = None

    @property
    def image(self) -> TableImage:
        """The table in memory."""
        if self._image is None:
            self._image = self._topology.image(self.table)
        return self._image

    @property
    def all_ids(self) -> RowIds:
        """The row ids of every entity, in table order."""
        return self.image.row_ids.view(np.int64)

    def codes(self, row_ids: RowIds) -> Positions:
        """Return where entities stand in the image."""
        first = self.image.first_row_id
        if first is not None:
            return row_ids - first if first else row_ids
        return self.image.codes_of(row_ids.view(np.uint64))

    def row_ids_of(self, codes: Positions) -> RowIds:
        """Return the row ids of entities by where they stand in the image."""
        first = self.image.first_row_id
        if first is not None:
            return codes + first if first else codes
        return self.image.row_ids_of(codes).view(np.int64)

    def id_ranks(self, codes: Positions) -> Positions:
        """Return numbers that order entities as their ids do; the ids of few are fetched."""
        if self.has_in_memory((KEY,)) or self.prefers_memory(len(codes)):
            return self.image.id_ranks(codes)
        return ranks_of(pa.chunked_array([self.values(self.row_ids_of(codes), KEY)]))

    def distinct_codes(self, codes: Positions) -> Positions:
        """Return every code once, ascending."""
        seen = np.zeros(self.image.row_count, dtype=np.bool_)
        seen[codes] = True
        return np.flatnonzero(seen)

    def whole_column(self, name: str) -> pa.Array:
        """Return a property of every entity, in the image's order."""
        found = self._combined.get(name)
        if found is None:
            column = self._column(name)
            if column.num_chunks > 1:
                # One piece is the one that all reads share; several are copied for this read.
                self._limits.hold(column.nbytes)
            found = self._combined[name] = one_array(column)
        return found

    def prefers_memory(self, count: int) -> bool:
        """Whether so many entities are better taken from memory than fetched."""
        if self._mode == "indexed":
            return count > _LISTED_ROWS
        if self._mode == "csr":
            return True
        if count > _FETCHED_ROWS or count * _FETCHED_SHARE > self.table.row_count:
            return True
        return self._demand.is_worth(self._demanded, len(self.columns) * column_price(self.table.row_count))

    def has_in_memory(self, names: Sequence[str]) -> bool:
        """Whether these columns can be asked without a call."""
        return all(self._known_column(name) is not None for name in names)

    def _known_column(self, name: str) -> pa.ChunkedArray | None:
        """Return a column if it can be asked without a call."""
        if self._mode == "indexed":
            return None
        found = self._columns.get(name)
        if found is None:
            if self._image is None:
                self._image = self._topology.known_image(self.table)
            found = None if self._image is None else self._image.known_column(name)
            if found is not None:
                self._columns[name] = found
        return found

    def _column(self, name: str) -> pa.ChunkedArray:
        found = self._columns.get(name)
        if found is None:
            found = self._columns[name] = self.image.column(name)
        return found

    def values(self, row_ids: RowIds, name: str) -> pa.Array:
        """Return a property, one value per row id."""
        if name in self._combined or self._known_column(name) is not None:
            return self._from_memory(row_ids, name)
        if self._fetched is not None and name in self._fetched.column_names:
            positions, is_known = self._locate(row_ids)
            if is_known.all():
                return self._take(one_array(self._fetched.column(name)), positions)
        if len(row_ids) > _LISTED_ROWS * 4:
            return self._from_memory(row_ids, name)
        unique = distinct(row_ids)
        if self.prefers_memory(len(unique)) and not self._is_fetched(unique, name):
            return self._from_memory(row_ids, name)
        return self._from_storage(row_ids, unique, name)

    def add(self, rows: pa.Table) -> RowIds:
        """Keep rows that were read with their row ids and :attr:`columns`; return the row ids."""
        row_ids: RowIds = np.asarray(rows.column(ROW_ID).to_numpy(), dtype=np.int64)
        known = rows.select(self.columns)
        if self._fetched is not None:
            known = pa.concat_tables([self._fetched, known])
            every = np.concatenate([self._fetched_ids, row_ids])
        else:
            every = row_ids
        before_bytes = 0 if self._fetched is None else self._fetched.nbytes
        # For a moment there are the rows of before, those that come, and all of them in order.
        self._limits.check(known.nbytes)
        self._fetched_ids, at = np.unique(every, return_index=True)
        self._fetched = known.take(pa.array(at)).combine_chunks()
        self._limits.hold(self._fetched.nbytes - before_bytes)
        return row_ids

    def fetch(self, row_ids: RowIds) -> None:
        """Bring the wanted columns of entities here that are not here yet."""
        _, is_known = self._locate(row_ids)
        missing = row_ids[~is_known]
        if len(missing):
            self._demand.spend(self._demanded, rows_cost(len(missing)))
            self.add(self.table.take(missing.tolist(), self.columns))

    def find(self, entity_id: str) -> RowIds:
        """Return the row id of the entity with an id; none when there is none."""
        if self.has_in_memory((KEY,)) or self.prefers_memory(1):
            return self._find_in_memory(entity_id)
        self._demand.spend(self._demanded, rows_cost(1))
        return self.add(self.table.lookup([entity_id], self.columns))

    def _find_in_memory(self, entity_id: str) -> RowIds:
        learn = (lambda: self._column(KEY)) if self._may_learn_keys() else None
        found = self.table.key_candidates(entity_id, learn)
        if found is None:
            at = pc.index(self.whole_column(KEY), entity_id).as_py()
            return self.all_ids[at : at + 1] if at >= 0 else _NO_ROWS
        row_ids = found.view(np.int64)
        codes, ids = self.codes(row_ids).tolist(), self._column(KEY)
        for at, code in enumerate(codes):
            # Row ids of deleted rows are nowhere in the image.
            if 0 <= code < self.image.row_count and ids[code].as_py() == entity_id:
                return row_ids[at : at + 1]
        return _NO_ROWS

    def _may_learn_keys(self) -> bool:
        """Whether the read may take the time and the memory that making the keys of its table costs."""
        remaining_ms = self._limits.remaining_ms
        if remaining_ms is not None and remaining_ms * _KEYS_PER_MS < self.table.row_count:
            return False
        try:
            self._limits.check(_KEY_BYTES * self.table.row_count)
        except QueryMemoryError:
            return False
        return True

    def numbers(self, name: str) -> tuple[npt.NDArray[np.float64], Mask]:
        """Return a numeric property of every entity as doubles, in the image's order, and where it is not NULL."""
        found = self._numbers.get(name)
        if found is None:
            column = self.whole_column(name)
            self._limits.hold(_NUMBER_BYTES * len(column))
            plain = pc.fill_null(column.cast(pa.float64(), safe=False), 0.0)
            found = plain.to_numpy(zero_copy_only=False), np.asarray(column.is_valid())
            self._numbers[name] = found
        return found

    def _is_fetched(self, row_ids: RowIds, name: str) -> bool:
        if self._fetched is None or name not in self._fetched.column_names:
            return False
        return bool(self._locate(row_ids)[1].all())

    def _locate(self, row_ids: RowIds) -> tuple[Positions, Mask]:
        if not len(self._fetched_ids):
            return np.zeros(len(row_ids), dtype=np.int64), np.zeros(len(row_ids), dtype=np.bool_)
        positions = np.searchsorted(self._fetched_ids, row_ids)
        positions[positions == len(self._fetched_ids)] = 0
        return positions, self._fetched_ids[positions] == row_ids

    def _from_memory(self, row_ids: RowIds, name: str) -> pa.Array:
        placed = self._placed
        if placed is None or placed[0] is not row_ids:
            placed = self._placed = (row_ids, self.codes(row_ids))
        whole = self._combined.get(name)
        if whole is None:
            column = self._column(name)
            if column.num_chunks > 1 and len(row_ids) <= min(_SCATTERED_ROWS, len(column) // _SCATTERED_SHARE):
                # Putting the chunks side by side would cost the whole column.
                return take_scattered(column, placed[1], self._take)
            whole = self.whole_column(name)
        return self._take(whole, placed[1])

    def _take(self, column: pa.Array, places: Positions) -> pa.Array:
        # A few long texts that many rows repeat take far more than the column that they are in. If even
        # that many copies of the whole column would fit, the exact size need not be computed.
        if not self._limits.fits_column(len(places) * column.get_total_buffer_size()):
            self._limits.check_column(taken_bytes(column, places))
        if len(places) == 1:
            # Copied, as a view would keep the column for as long as the result is kept.
            return pa.concat_arrays([column.slice(int(places[0]), 1)])
        indices = self._indices
        if indices is None or indices[0] is not places:
            indices = self._indices = (places, pa.array(places))
        return take_from(column, indices[1])

    def _from_storage(self, row_ids: RowIds, unique: RowIds, name: str) -> pa.Array:
        if name not in self.columns:
            self.columns = (*self.columns, name)
            self._limits.hold(0 if self._fetched is None else -self._fetched.nbytes)
            self._fetched, self._fetched_ids = None, _NO_ROWS
        self.fetch(unique)
        positions, _ = self._locate(row_ids)
        if self._fetched is None:
            return pa.array([], self.table.schema.field(name).type)
        return self._take(one_array(self._fetched.column(name)), positions)


class EntityUnion:
    """The entities of several tables that one variable ranges over, asked by tagged row ids.

    Args:
        parts: the tables in the order of their numbers.
    """

    def __init__(self, parts: Sequence[Entities]) -> None:
        self._parts = tuple(parts)
        first, *others = self._parts
        self.columns = tuple(
            name for name in first.columns if all(_is_alike(first.owner, part.owner, name) for part in others)
        )

    @property
    def type_names(self) -> tuple[str, ...]:
        """The types by number."""
        return tuple(part.owner.name for part in self._parts)

    def values(self, row_ids: RowIds, name: str) -> pa.Array:
        """Return a property, one value per row id."""
        numbers, plain = untagged(row_ids)
        pieces, places = [self._parts[0].values(plain[:0], name)], [_NO_ROWS]
        for number, part in enumerate(self._parts):
            at = np.flatnonzero(numbers == number)
            if len(at):
                pieces.append(part.values(plain[at], name).cast(pieces[0].type))
                places.append(at)
        order = np.empty(len(row_ids), dtype=np.int64)
        order[np.concatenate(places)] = np.arange(len(row_ids))
        return pa.concat_arrays(pieces).take(pa.array(order))


class NoEntities:
    """What a variable of an interface ranges over that no type implements: nothing, of the interface's properties."""

    def __init__(self, interface: InterfaceType) -> None:
        self._types = {prop.name: prop.type for prop in interface.properties}
        self.columns: tuple[str, ...] = ()

    def values(self, row_ids: RowIds, name: str) -> pa.Array:
        """Return a property, one value per row id, of which there is none."""
        return pa.nulls(len(row_ids), pa.string() if name == KEY else arrow_type(self._types[name]))


def _is_alike(first: NodeType | EdgeType, other: NodeType | EdgeType, name: str) -> bool:
    if name == KEY:
        return True
    one, two = first.get(name), other.get(name)
    return one is not None and two is not None and replace(one.type, nullable=True) == replace(two.type, nullable=True)
