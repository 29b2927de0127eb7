"""Keys files: of every row that a distributed write brings, what the rules about sets of rows ask for.

A keys file is Arrow data of one type. Its columns are ``row`` (the place of the row in the input, ascending with the
order in which rows count), ``id``, for edges ``src`` and ``dst``, then one text per ``@key`` and ``@unique`` tuple,
null where the row lacks one of the tuple's values. Texts are those that ``engine.constraints`` compares.

Workers load this and little else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.catalog.model import ENDPOINTS, EdgeType, NodeType
from omnigraph.engine.constraints.evaluation import tuples_of
from omnigraph.errors import GoneState, HistoryGoneError, VersionMissingError
from omnigraph.records import record
from omnigraph.store.location import Storage
from omnigraph.store.tables.portable import TableTicket, read_fragments

if TYPE_CHECKING:
    from omnigraph.txn.snapshot import GraphSnapshot


Numbers = npt.NDArray[np.int64]
ROW = "row"
KEY = "key"
_LINE_BITS = 40
_LINE_MASK = (1 << _LINE_BITS) - 1


@record
class KeysFile:
    """One keys file by its name in the run's scratch place, and how many rows it has."""

    table_key: str
    name: str
    rows: int


@record
class Places:
    """What the numbers in ``row`` stand for.

    Args:
        names: what messages call each source.
        offsets: how many rows come before those of a source that is only a part of what its name says; empty when
            every source is a whole.
    """

    names: tuple[str, ...]
    offsets: tuple[int, ...] = ()

    def of(self, row: int) -> tuple[str, int]:
        """Return the source and the line of a row.

        >>> Places(names=("a.jsonl", "b.jsonl")).of(row_number(1, 7))
        ('b.jsonl', 7)
        """
        return self.at(row >> _LINE_BITS, row & _LINE_MASK)

    def at(self, source: int, line: int) -> tuple[str, int]:
        """Return what messages call a source, and the line of a row of it as they do."""
        return self.names[source], line + (self.offsets[source] if self.offsets else 0)


def row_number(source: int, line: int) -> int:
    """Return the place of a row as one number; numbers are ordered as the rows are."""
    return source << _LINE_BITS | line


def row_numbers(source: int, lines: pa.Array) -> pa.Array:
    """Return the places of the rows of one source."""
    return pa.array(lines.to_numpy() + (source << _LINE_BITS), pa.int64())


def row_places(sources: Numbers, lines: Numbers) -> Numbers:
    """Return the places of rows of several sources, each as one number."""
    places: Numbers = (sources.astype(np.int64) << _LINE_BITS) | lines.astype(np.int64)
    return places


def row_sources(places: Numbers) -> tuple[Numbers, Numbers]:
    """Return the sources and the lines that numbers stand for."""
    return places >> _LINE_BITS, places & _LINE_MASK


def tuple_columns(owner: NodeType | EdgeType) -> Mapping[str, tuple[str, ...]]:
    """Return the tuples that a keys file has a text for, by the name of its column, in the order they are judged.

    ``key`` stands for the key when the type has one, with its columns in the order messages show them; a ``@unique``
    over the same columns has no text of its own.
    """
    columns: dict[str, tuple[str, ...]] = {}
    if owner.key is not None:
        columns[KEY] = tuple(sorted(owner.key))
    for unique in owner.uniques:
        if owner.key is None or set(unique) != set(owner.key):
            columns[f"unique{len(columns)}"] = unique
    return columns


def keys_schema(owner: NodeType | EdgeType) -> pa.Schema:
    """Return the columns of a type's keys files."""
    names = ["id", *(ENDPOINTS if isinstance(owner, EdgeType) else ()), *tuple_columns(owner)]
    return pa.schema([pa.field(ROW, pa.int64()), *(pa.field(name, pa.string()) for name in names)])


def keys_of(owner: NodeType | EdgeType, rows: pa.Table, numbers: pa.Array) -> pa.Table:
    """Return the keys of rows in the layout of their table, whose places are ``numbers``."""
    schema = keys_schema(owner)
    columns = [key_column(owner, rows, name) for name in schema.names if name != ROW]
    return pa.table([numbers, *columns], schema=schema)


def key_column(owner: NodeType | EdgeType, rows: pa.Table, name: str) -> pa.Array | pa.ChunkedArray:
    """Return one column of the keys of rows, which have at least the columns that it is made of."""
    names = tuple_columns(owner).get(name)
    return rows.column(name) if names is None else _texts(owner, rows, names)


def columns_read(owner: NodeType | EdgeType, names: Iterable[str]) -> tuple[str, ...]:
    """Return the columns of a table that columns of keys are made of."""
    tuples = tuple_columns(owner)
    return tuple(dict.fromkeys(column for name in names for column in tuples.get(name, (name,))))


def _texts(owner: NodeType | EdgeType, rows: pa.Table, columns: Sequence[str]) -> pa.ChunkedArray:
    whole = tuples_of(owner, rows, columns)
    texts: pa.ChunkedArray = whole.column("value")
    if whole.num_rows == rows.num_rows:
        return texts
    at = np.full(rows.num_rows, -1, dtype=np.int64)
    at[whole.column("row").to_numpy()] = np.arange(whole.num_rows)
    return texts.take(pa.array(at, mask=at < 0))


@record
class StateTable:
    """A table at the version that a state pins, and what there is to say when a cleanup has reclaimed that state.

    It can be pickled.
    """

    ticket: TableTicket
    state: GoneState

    @classmethod
    def of(cls, storage: Storage, snapshot: GraphSnapshot, table_key: str) -> StateTable:
        """Return a table of a snapshot."""
        head = snapshot.state.head
        return cls(
            ticket=TableTicket(storage=storage, pin=snapshot.entry(table_key).pin),
            state=GoneState(commit_id=head.commit, branch=head.branch, table_key=table_key),
        )

    def read(
        self,
        fragment_ids: Sequence[int],
        columns: Sequence[str] | None,
        *,
        filter: str | None = None,  # noqa: A002 - the word that Arrow and Lance use for it
        batch_rows: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Stream rows of some fragments; see :func:`omnigraph.store.tables.portable.read_fragments`.

        Raises:
            HistoryGoneError: the state was reclaimed, at the latest while it was read.
        """
        try:
            yield from read_fragments(self.ticket, fragment_ids, columns, filter=filter, batch_rows=batch_rows)
        except VersionMissingError as error:
            gone = self.state
            raise HistoryGoneError(
                f"the state of commit '{gone.commit_id}' was reclaimed: table '{gone.table_key}'", details=gone
            ) from error
