"""What streams of change logs have applied before, so that a row that comes late does not count.

Of each entity a stream remembers the highest sequence, of each node also the highest one at which it was deleted. Both
only rise, so that it does not matter in which order, or into how many calls, the rows of a log come. Calls that bring
no sequence neither read nor write any of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.comparison import one_array
from omnigraph.engine.load.intake import LINE, MARK, SOURCE
from omnigraph.engine.rows import RowProblem
from omnigraph.engine.rows.changes import DELETE, NO_SEQUENCE, SEQUENCE_KINDS
from omnigraph.records import record
from omnigraph.runtime import IdSource
from omnigraph.store.sequence_runs import RUN_COLUMNS, SequencePlace, highest
from omnigraph.txn.manifest.rows import BatchMark, ManifestState
from omnigraph.txn.manifest.sequences import SequenceMark, SequenceRun, StreamSequences
from omnigraph.txn.services import BranchServices
from omnigraph.txn.transaction import WriteTxn

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
# Writes one run in the place of several.
MergeRuns = Callable[[tuple[SequenceRun, ...]], SequenceRun]

# Before every sequence that is remembered.
NEVER = np.iinfo(np.int64).min
# The stream of calls that name none.
UNNAMED = ""

_MAX_RUNS = 6
# Runs that would be larger stay apart: the process that writes one holds it in memory.
MAX_RUN_ROWS = 8_000_000


def stream_of(batch: BatchMark | None) -> str:
    """Return the stream that a call belongs to."""
    return UNNAMED if batch is None else batch.app


@record
class Known:
    """What is remembered of some entities, one item for each; ``NEVER`` where there is nothing."""

    seqs: Numbers
    died: Numbers

    @classmethod
    def nothing(cls, count: int) -> Known:
        """Return what is remembered of entities that no call has named."""
        return cls(seqs=np.full(count, NEVER, dtype=np.int64), died=np.full(count, NEVER, dtype=np.int64))


@record
class SequenceReader:
    """Looks up what a stream remembers. It can be pickled.

    Args:
        place: where the runs are.
        runs: those that hold.
        tables: what runs call each table.
        pending: what calls of the same write have added; in the columns of a run.
    """

    place: SequencePlace
    runs: tuple[SequenceRun, ...] = ()
    tables: Mapping[str, str] = field(default_factory=dict)
    pending: pa.Table = field(default_factory=RUN_COLUMNS.empty_table)

    @classmethod
    def of(cls, place: SequencePlace, known: StreamSequences | None, state: ManifestState) -> SequenceReader:
        """Return what looks up the sequences of a stream; types that are renamed keep theirs."""
        tables = {key: entry.object_id for key, entry in state.tables.items()}
        return cls(place=place, runs=() if known is None else known.runs, tables=tables)

    def known(self, table_key: str, kind: int, ids: pa.Array) -> Known:
        """Return what is remembered of entities of a type, their sequences being of a kind.

        Raises:
            StorageCorruptError: a run is missing.
        """
        found = Known.nothing(len(ids))
        table = self.tables.get(table_key)
        asked = pc.unique(ids).drop_null()
        if kind == NO_SEQUENCE or table is None or not len(asked):
            return found
        for rows in self._rows(table, asked):
            mine = rows.filter(pc.and_(pc.equal(rows.column("table"), table), pc.equal(rows.column("kind"), kind)))
            if not mine.num_rows:
                continue
            places = pc.index_in(ids, value_set=one_array(mine.column("id")))
            at = np.flatnonzero(places.is_valid().to_numpy(zero_copy_only=False))
            taken = places.drop_null().to_numpy()
            died = pc.fill_null(mine.column("died"), NEVER).to_numpy()
            found.seqs[at] = np.maximum(found.seqs[at], mine.column("seq").to_numpy()[taken])
            found.died[at] = np.maximum(found.died[at], died[taken])
        return found

    def _rows(self, table: str, ids: pa.Array) -> Iterator[pa.Table]:
        for run in self.runs:
            yield from self.place.find(run.name, run.rows, table, ids)
        if self.pending.num_rows:
            yield self.pending


@record
class FreshRows:
    """The rows of a log that are not late, and how many are.

    ``known`` is what was remembered of each entity of ``ids``, ``added`` what a run has to say of them.
    """

    rows: pa.Table
    late: int
    ids: pa.Array
    known: Known
    added: pa.Table

    def known_of(self, ids: pa.Array) -> Numbers:
        """Return the sequence that was remembered of some of the entities; ``NEVER`` where there was none."""
        places = pc.index_in(ids, value_set=self.ids)
        at = np.flatnonzero(places.is_valid().to_numpy(zero_copy_only=False))
        found = np.full(len(ids), NEVER, dtype=np.int64)
        found[at] = self.known.seqs[places.drop_null().to_numpy()]
        return found


def fresh_rows(
    reader: SequenceReader,
    table_key: str,
    rows: pa.Table,
    *,
    takes_edges: bool = False,
    is_ordered: Mask | None = None,
) -> FreshRows:
    """Tell late rows of a type from others; those of a sequence that is remembered come again, and are not late.

    Args:
        reader: what is remembered.
        table_key: the type.
        rows: its rows in a log, whose sequences are of one kind.
        takes_edges: deletes of its nodes take edges with them, also late ones.
        is_ordered: which rows have a sequence of their own; the others are not remembered.
    """
    kind = int(rows.column(f"{MARK}kind")[0].as_py())
    encoded = one_array(rows.column("id")).dictionary_encode()
    ids, codes = encoded.dictionary, encoded.indices.to_numpy()
    known = reader.known(table_key, kind, ids)
    seqs = rows.column(f"{MARK}seq").to_numpy()
    is_late = seqs < known.seqs[codes]
    newest, died = known.seqs.copy(), known.died.copy()
    told = np.ones(len(seqs), dtype=bool) if is_ordered is None else is_ordered
    np.maximum.at(newest, codes[told], seqs[told])
    if takes_edges:
        dies = told & (rows.column(f"{MARK}op").to_numpy() == DELETE)
        np.maximum.at(died, codes[dies], seqs[dies])
    is_new = np.flatnonzero((newest > known.seqs) | (died > known.died))
    added = pa.table(
        [
            pa.repeat(reader.tables[table_key], len(is_new)),
            pa.repeat(pa.scalar(kind, pa.int8()), len(is_new)),
            ids.take(pa.array(is_new)),
            pa.array(newest[is_new]),
            pa.array(died[is_new], mask=died[is_new] == NEVER),
        ],
        RUN_COLUMNS,
    )
    late = int(is_late.sum())
    left = rows.filter(pa.array(~is_late)) if late else rows
    return FreshRows(rows=left, late=late, ids=ids, known=known, added=added)


def other_kind(
    known: StreamSequences | None, reader: SequenceReader, table_key: str, name: str, first: tuple[int, int]
) -> RowProblem | None:
    """Return what is wrong with sequences of another kind than those that a stream has of a type.

    Args:
        known: the stream.
        reader: what tells how it calls the table.
        table_key: the table.
        name: the type.
        first: the kind of the sequences of a call, and the line of its first row.
    """
    kind, line = first
    usual = None if known is None else known.kinds.get(reader.tables.get(table_key, ""))
    if usual is None or kind in {usual, NO_SEQUENCE}:
        return None
    assert known is not None  # noqa: S101 - for the type checker: it has a kind
    stream = f"stream '{known.stream}'" if known.stream else "calls without a batch name"
    text = (
        f"the row has {SEQUENCE_KINDS[kind]}, rows of {name} in earlier calls {SEQUENCE_KINDS[usual]} ({stream});"
        " a sequence of another kind needs another name of the batch, or of the pipeline"
    )
    return RowProblem(line=line, rule="sequence", message=text, type_name=name, property="_seq")


def first_row(rows: pa.Table) -> tuple[int, int, int]:
    """Return the kind of the sequences of a type's rows, and the line and the source of the first one."""
    kind, line, source = (rows.column(name)[0].as_py() for name in (f"{MARK}kind", LINE, SOURCE))
    return int(kind), int(line), int(source)


def open_memory(services: BranchServices, txn: WriteTxn, stream: str) -> StreamMemory:
    """Return what a stream remembers where a write was begun; the write is decided again if that moves."""
    place = SequencePlace(storage=services.stores.datasets.storage, is_durable=services.settings.is_durable)
    return StreamMemory(txn, place, stream)


class StreamMemory:
    """What one stream remembers, and what the calls of a write add to it."""

    def __init__(self, txn: WriteTxn, place: SequencePlace, stream: str) -> None:
        self._stream = stream
        self.known = txn.read_sequences(stream)
        self.reader = SequenceReader.of(place, self.known, txn.snapshot.state)

    def add(self, parts: Sequence[pa.Table]) -> None:
        """Remember what a call has applied; the next call of the write sees it."""
        new = [part for part in parts if part.num_rows]
        if new:
            self.reader = replace(self.reader, pending=highest([self.reader.pending, *new]))

    def write(self, ids: IdSource) -> tuple[SequenceMark, ...]:
        """Write the run of what was added, and return what the commit says of it; nothing when nothing was."""
        rows = self.reader.pending
        if not rows.num_rows:
            return ()
        own = SequenceRun(name=str(ids.ulid()), rows=rows.num_rows)
        self.reader.place.write(own.name, rows)
        place = self.reader.place
        return (self.settled((own,), kinds_of(rows), lambda runs: merge_runs(place, str(ids.ulid()), runs)),)

    def settled(self, own: tuple[SequenceRun, ...], kinds: Mapping[str, int], merge: MergeRuns) -> SequenceMark:
        """Return what a commit says of the runs that it adds; when there are too many, the smaller ones become one."""
        merged = runs_to_merge([*(() if self.known is None else self.known.runs), *own])
        puts = (merge(merged),) if merged else ()
        drops = tuple(run.name for run in merged)
        return SequenceMark(stream=self._stream, own=own, puts=puts, drops=drops, kinds=dict(kinds))


def kinds_of(rows: pa.Table) -> dict[str, int]:
    """Return the kind of the sequences of each table that rows of a run tell of."""
    found = rows.group_by(["table", "kind"]).aggregate([])
    return dict(zip(found.column("table").to_pylist(), found.column("kind").to_pylist(), strict=True))


def merge_runs(place: SequencePlace, name: str, runs: Sequence[SequenceRun]) -> SequenceRun:
    """Write a run of that name that says what several say together."""
    rows = highest([place.read(run.name) for run in runs])
    place.write(name, rows)
    return SequenceRun(name=name, rows=rows.num_rows)


def runs_to_merge(runs: Sequence[SequenceRun]) -> tuple[SequenceRun, ...]:
    """Return the runs that become one: none while there are few, else the smaller ones of about the same size.

    What is merged grows with what was added: a row is written again a few times only, however many calls follow.

    >>> runs_to_merge([SequenceRun(name=str(n), rows=n) for n in (900, 1, 1, 1, 2, 5, 30)])
    (SequenceRun(name='1', rows=1), SequenceRun(name='1', rows=1), SequenceRun(name='1', rows=1), \
SequenceRun(name='2', rows=2), SequenceRun(name='5', rows=5))
    """
    if len(runs) <= _MAX_RUNS:
        return ()
    taken: list[SequenceRun] = []
    total = 0
    for run in sorted(runs, key=lambda one: one.rows):
        is_enough = len(runs) - len(taken) + 1 <= _MAX_RUNS
        if (is_enough and run.rows > 2 * total) or total + run.rows > MAX_RUN_ROWS:
            break
        taken.append(run)
        total += run.rows
    return tuple(taken) if len(taken) > 1 else ()
