"""Rows that cannot be taken for a reason that lies in other rows: a second row of a key, an edge without its node.

Tasks find them by their numbers; rows that are taken out are left out of files that are written anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import Catalog
from omnigraph.catalog.arrow import arrow_schema, arrow_type
from omnigraph.catalog.model import EdgeType, NodeType, PropertyType, Scalar
from omnigraph.engine.comparison import one_array
from omnigraph.engine.load.change_log import edge_ends
from omnigraph.engine.load.intake import GIVEN, MARK
from omnigraph.engine.load.sequences import NEVER, SequenceReader
from omnigraph.engine.rows.changes import DELETE, INSTANT, NO_SEQUENCE
from omnigraph.engine.rows.columns import default_scalar
from omnigraph.engine.view import GraphView
from omnigraph.records import record
from omnigraph.runtime import Runtime
from omnigraph.spark.keys import ROW as KEY_ROW
from omnigraph.spark.keys import KeysFile, keys_of, row_number
from omnigraph.spark.loads.written import ROW, LoadedType, RowsFile
from omnigraph.spark.pinned_state import PinnedState
from omnigraph.spark.runner import Runner
from omnigraph.spark.steps.reading import AT
from omnigraph.spark.steps.rejected import RejectedFile, RejectedWriter, row_texts
from omnigraph.store.scratch import ScratchPlace

_FOUND = pa.schema([("row", pa.int64()), ("side", pa.string()), ("missing", pa.string())])
_SIDES = (("src", "from"), ("dst", "to"))
_MOST = (1 << 63) - 1
_SHOWN = 100
_MS_NS = 1_000_000


@record
class FoundRows:
    """Rows that were found, in a file of the scratch place; ``first`` is the number of the first of them."""

    name: str
    rows: int
    first: int


@record
class ScreenOrder:
    """What all tasks have in common: the schema, where files are, the state that rows meet, and what is remembered."""

    catalog: Catalog
    scratch: ScratchPlace
    state: PinnedState
    reader: SequenceReader | None = None

    def owner(self, table_key: str) -> NodeType | EdgeType:
        """Return the type of a table."""
        kind, _, name = table_key.partition(":")
        return self.catalog.nodes[name] if kind == "node" else self.catalog.edges[name]

    def view(self) -> GraphView:
        """Return the state as it is asked about rows."""
        return GraphView(self.state.open(), self.catalog)


def find_repeated(order: ScreenOrder, files: Sequence[str]) -> FoundRows | None:
    """Find the rows whose id an earlier row has."""
    rows = _read(order.scratch, files, ("id",))
    ids, numbers = one_array(rows.column("id")), rows.column("row").to_numpy()
    codes = ids.dictionary_encode().indices.to_numpy()
    by = np.lexsort((numbers, codes))
    repeats = np.zeros(len(by), dtype=bool)
    repeats[by[1:]] = codes[by[1:]] == codes[by[:-1]]
    if not repeats.any():
        return None
    chosen = np.flatnonzero(repeats)
    return _put_found(order.scratch, numbers[chosen], "id", ids.take(pa.array(chosen)))


@record
class EndsTask:
    """The edges of a type, and by node type what a run does with nodes.

    Args:
        table_key: the edge type.
        files: its rows.
        coming: by node type the files of nodes that are there afterwards.
        going: by node type the files of nodes that are not.
    """

    table_key: str
    files: tuple[str, ...]
    coming: Mapping[str, tuple[str, ...]]
    going: Mapping[str, tuple[str, ...]]


def find_missing_ends(order: ScreenOrder, task: EndsTask) -> FoundRows | None:
    """Find the rows of an edge type with an end that does not exist."""
    edge = order.catalog.edges[task.table_key.partition(":")[2]]
    rows = _living(_read(order.scratch, task.files, ("src", "dst"), f"{MARK}op"))
    numbers = rows.column("row").to_numpy()
    found: list[pa.Table] = []
    for (column, _), name in zip(_SIDES, (edge.from_type, edge.to_type), strict=True):
        ends = one_array(rows.column(column))
        lost = _missing(order, task, order.catalog.nodes[name], pc.unique(ends).drop_null())
        at = np.flatnonzero(pc.is_in(ends, value_set=lost).to_numpy(zero_copy_only=False)) if len(lost) else ()
        if len(at):
            sides = pa.repeat(column, len(at))
            found.append(pa.table([pa.array(numbers[at]), sides, ends.take(pa.array(at))], schema=_FOUND))
    if not found:
        return None
    joined = pa.concat_tables(found)
    name = f"screened/{Runtime.system().ids.ulid()}"
    order.scratch.put(name, joined)
    places = joined.column("row")
    return FoundRows(name=name, rows=len(pc.unique(places)), first=pc.min(places).as_py())


def _living(rows: pa.Table) -> pa.Table:
    """Return rows but for those of a change log that delete: what they name need not be there."""
    name = f"{MARK}op"
    return rows.filter(pc.not_equal(rows.column(name), DELETE)) if name in rows.schema.names else rows


def _missing(order: ScreenOrder, task: EndsTask, node: NodeType, ends: pa.Array) -> pa.Array:
    coming = _ids(order.scratch, task.coming.get(node.name, ()))
    asked = ends.filter(pc.invert(pc.is_in(ends, value_set=coming)))
    if not len(asked):
        return asked
    stored = one_array(order.view().rows_of(node.table_key, asked, ["id"]).column("id"))
    going = _ids(order.scratch, task.going.get(node.name, ()))
    stays = stored.filter(pc.invert(pc.is_in(stored, value_set=going)))
    return asked.filter(pc.invert(pc.is_in(asked, value_set=stays)))


@record
class TakenIds:
    """Ids that are stored already: how many, and some of them."""

    count: int
    ids: tuple[str, ...]


def find_taken(order: ScreenOrder, task: tuple[str, tuple[str, ...]]) -> TakenIds:
    """Find the rows of a type whose ids are stored."""
    table_key, files = task
    stored = one_array(order.view().rows_of(table_key, _ids(order.scratch, files), ["id"]).column("id"))
    return TakenIds(count=len(stored), ids=tuple(sorted(stored.to_pylist())[:_SHOWN]))


@record
class LateTask:
    """Rows of a type that may be late.

    Of entities that no earlier run has applied a row to, the stored value of ``property`` tells how far they have come.
    """

    table_key: str
    files: tuple[str, ...]
    property: str | None
    keeps_edges: frozenset[str] = frozenset()


def find_late(order: ScreenOrder, task: LateTask) -> FoundRows | None:
    """Find the rows that are older than what was applied to their entity, or than a delete of a node of an edge.

    Of nodes that are remembered none is found: the fold leaves out late ones itself, and needs their deletes.
    """
    owner = order.owner(task.table_key)
    ends = edge_ends(owner) if isinstance(owner, EdgeType) else ()
    rows = _read(order.scratch, task.files, ("id", f"{MARK}seq", f"{MARK}kind", *(column for column, _ in ends)))
    if not rows.num_rows:
        return None
    ids, kind = one_array(rows.column("id")), int(rows.column(f"{MARK}kind")[0].as_py())
    seqs = rows.column(f"{MARK}seq").to_numpy()
    if kind == NO_SEQUENCE:
        return None
    late = np.zeros(len(seqs), dtype=bool)
    is_known = late
    if order.reader is not None:
        applied = order.reader.known(task.table_key, kind, ids).seqs
        is_known = applied != NEVER
        if isinstance(owner, EdgeType):
            late = seqs < applied
        for column, name in ends:
            if f"node:{name}" not in task.keeps_edges:
                late |= seqs < order.reader.known(f"node:{name}", kind, one_array(rows.column(column))).died
    if task.property is not None:
        late |= _is_behind(order, task, ids, seqs, kind) & ~is_known
    places = np.flatnonzero(late)
    if not len(places):
        return None
    return _put_found(order.scratch, rows.column("row").to_numpy()[places], "id", ids.take(pa.array(places)))


def _is_behind(order: ScreenOrder, task: LateTask, ids: pa.Array, seqs: Any, kind: int) -> Any:
    """Return which rows are older than the stored value of a property."""
    assert task.property is not None  # noqa: S101 - for the type checker: asked only where there is one
    stored = order.view().rows_of(task.table_key, pc.unique(ids), ["id", task.property])
    if not stored.num_rows:
        return np.zeros(len(seqs), dtype=bool)
    at = pc.fill_null(pc.index_in(ids, value_set=one_array(stored.column("id"))), -1).to_numpy()
    values = one_array(stored.column(task.property))
    known = (at >= 0) & values.is_valid().to_numpy(zero_copy_only=False)[at]
    return known & (seqs < _sequences(values, kind)[at])


def _sequences(values: pa.Array, kind: int) -> Any:
    if pa.types.is_timestamp(values.type):
        found = values.cast(pa.timestamp("ms")).cast(pa.int64()).fill_null(0).to_numpy()
        return found * _MS_NS if kind == INSTANT else found
    if pa.types.is_date(values.type):
        return (
            values.cast(pa.date32()).view(pa.int32()).fill_null(0).to_numpy().astype(np.int64) * 86_400 * 1000 * _MS_NS
        )
    return values.cast(pa.int64()).fill_null(0).to_numpy()


@record
class RestTask:
    """A type of which everything goes that its rows do not have; ``place`` is what their places begin with."""

    table_key: str
    files: tuple[str, ...]
    kind: int
    place: int


def find_rest(order: ScreenOrder, task: RestTask) -> RowsFile | None:
    """Write rows that delete what is stored and not among the rows of a type."""
    owner = order.owner(task.table_key)
    given = _ids(order.scratch, task.files)
    stored = order.state.open().table(task.table_key).read(["id"])
    ids = one_array(stored.column("id"))
    gone = ids.filter(pc.invert(pc.is_in(ids, value_set=given)))
    if not len(gone):
        return None
    count = len(gone)
    schema = arrow_schema(owner)
    columns: dict[str, Any] = {at.name: pa.nulls(count, at.type) for at in schema}
    columns["id"] = gone
    rows = pa.table([columns[name] for name in schema.names], names=schema.names)
    for prop in owner.properties:
        rows = rows.append_column(f"{GIVEN}{prop.name}", pa.array(np.zeros(count, dtype=bool)))
    seq = 0 if task.kind == NO_SEQUENCE else _MOST
    rows = rows.append_column(f"{MARK}op", pa.array(np.full(count, DELETE, dtype=np.int8)))
    rows = rows.append_column(f"{MARK}seq", pa.array(np.full(count, seq, dtype=np.int64)))
    rows = rows.append_column(f"{MARK}kind", pa.array(np.full(count, task.kind, dtype=np.int8)))
    rows = rows.append_column(ROW, pa.array(np.arange(count) + row_number(task.place, 1)))
    name = f"rest/{Runtime.system().ids.ulid()}"
    order.scratch.put(name, rows)
    return RowsFile(table_key=task.table_key, name=name, rows=count, size_bytes=rows.nbytes)


@record
class LeaveOutTask:
    """A file, and those with the rows that are left out of it."""

    file: str
    found: tuple[str, ...]


def leave_out(scratch: ScratchPlace, task: LeaveOutTask) -> tuple[str, int, int] | None:
    """Write a file anew without some rows: its name, rows and bytes; None when all of them stay."""
    rows = pa.Table.from_batches(list(scratch.read_arrow(task.file)))
    column = ROW if ROW in rows.schema.names else KEY_ROW
    gone = one_array(pa.concat_tables([_table(scratch, name) for name in task.found]).column("row"))
    stays = pc.invert(pc.is_in(rows.column(column), value_set=gone))
    if pc.all(stays, min_count=0).as_py():
        return None
    left = rows.filter(stays)
    name = f"{task.file}-{Runtime.system().ids.ulid()}"
    scratch.put(name, left)
    return name, left.num_rows, left.nbytes


def without(runner: Runner, scratch: ScratchPlace, loaded: LoadedType, found: Sequence[FoundRows]) -> LoadedType:
    """Return what was read of a type without some of its rows."""
    names = tuple(one.name for one in found)
    aside = rewritten(runner, scratch, loaded.aside, names)
    keys = [RowsFile(table_key=file.table_key, name=file.name, rows=file.rows, size_bytes=0) for file in loaded.keys]
    left = rewritten(runner, scratch, keys, names)
    return replace(
        loaded,
        rows=sum(file.rows for file in aside),
        aside=aside,
        keys=tuple(KeysFile(table_key=file.table_key, name=file.name, rows=file.rows) for file in left),
    )


def rewritten(
    runner: Runner, scratch: ScratchPlace, files: Sequence[RowsFile], found: tuple[str, ...]
) -> tuple[RowsFile, ...]:
    """Return files without the rows that were found; those of which nothing is left are not among them."""
    tasks = [LeaveOutTask(file=file.name, found=found) for file in files]
    done = runner.run(partial(leave_out, scratch), tasks, "leave out rejected rows")
    return tuple(
        file if one is None else replace(file, name=one[0], rows=one[1], size_bytes=one[2])
        for file, one in zip(files, done, strict=True)
        if one is None or one[1]
    )


@record
class RejectTask:
    """Rows that were found, and the files that have them as they came; ``rule`` is why they are rejected."""

    found: str
    originals: tuple[str, ...]
    rule: str
    says: Mapping[str, str]


def reject_found(scratch: ScratchPlace, task: RejectTask) -> tuple[RejectedFile, ...]:
    """Put rows that were found by their numbers among the rejected ones."""
    found = _table(scratch, task.found)
    why: dict[int, str] = {}
    for row in found.to_pylist():
        why.setdefault(row["row"], task.says[row["side"]].format(row["missing"]))
    wanted = pa.array(list(why), pa.int64())
    writer = RejectedWriter(scratch)
    for name in task.originals:
        for batch in scratch.read_arrow(name):
            chosen = batch.filter(pc.is_in(batch.column(AT), value_set=wanted))
            if chosen.num_rows:
                places = chosen.column(AT).to_pylist()
                for place, text in zip(places, row_texts(chosen.drop_columns([AT])), strict=True):
                    writer.add(task.rule, why[place], file=None, at=place, row=text)
    return writer.finish()


@record
class StubTask:
    """Ends of a node type that are missing: files and the side of the edges; ``place`` is what places begin with."""

    node: str
    found: tuple[tuple[str, str], ...]
    place: int


@record
class StubRows:
    """Nodes that have their keys alone, in files as rows of a run have them.

    ``counts`` is how many were made for each file of edges that had not been made before, ``ids`` are some of them.
    """

    aside: RowsFile
    keys: KeysFile
    counts: tuple[int, ...]
    ids: tuple[str, ...]


def make_stubs(order: ScreenOrder, task: StubTask) -> StubRows | None:
    """Write a node for each missing end; None when the type cannot have nodes with their keys alone."""
    node = order.catalog.nodes[task.node]
    ids, counts = pa.array([], pa.string()), []
    for name, side in task.found:
        ends = one_array(_table(order.scratch, name).filter(pc.field("side") == side).column("missing"))
        every = pc.unique(pa.concat_arrays([ids, ends]))
        counts.append(len(every) - len(ids))
        ids = every
    rows = _stub_rows(node, ids)
    if rows is None or not rows.num_rows:
        return None
    count = rows.num_rows
    numbers = pa.array(np.arange(count) + row_number(task.place, 1))
    name = f"stubs/{Runtime.system().ids.ulid()}"
    keys = KeysFile(table_key=node.table_key, name=f"{name}-keys", rows=count)
    order.scratch.put(keys.name, keys_of(node, rows, numbers))
    aside = RowsFile(table_key=node.table_key, name=f"{name}-rows", rows=count, size_bytes=rows.nbytes)
    order.scratch.put(aside.name, rows.append_column(ROW, numbers))
    return StubRows(aside=aside, keys=keys, counts=tuple(counts), ids=tuple(ids.slice(0, _SHOWN).to_pylist()))


def _stub_rows(node: NodeType, ids: pa.Array) -> pa.Table | None:
    schema, count = arrow_schema(node), len(ids)
    columns: dict[str, pa.Array] = {"id": ids}
    try:
        columns |= _key_values(node, ids)
    except (pa.ArrowInvalid, ValueError):
        return None
    for prop in node.properties:
        if prop.name in columns:
            continue
        default = default_scalar(prop)
        if default is None and not prop.type.nullable:
            return None
        kind = schema.field(prop.name).type
        columns[prop.name] = pa.nulls(count, kind) if default is None else pa.repeat(default, count).cast(kind)
    return pa.table([columns[name] for name in schema.names], schema=schema)


def _key_values(node: NodeType, ids: pa.Array) -> dict[str, pa.Array]:
    """Return the values that ids were made of."""
    key = node.key or ()
    if len(key) == 1:
        return {key[0]: _values(_kind(node, key[0]), ids)}
    parts = [json.loads(text) for text in ids.to_pylist()] if key else []
    return {
        name: _values(_kind(node, name), pa.array([part[at] for part in parts], pa.string()))
        for at, name in enumerate(key)
    }


def _kind(node: NodeType, name: str) -> PropertyType:
    prop = node.get(name)
    return PropertyType(scalar=Scalar.STRING) if prop is None else prop.type


def _values(kind: PropertyType, texts: pa.Array) -> pa.Array:
    wanted = arrow_type(kind)
    match kind.scalar:
        case Scalar.DATE:
            return texts.cast(pa.int32()).view(pa.date32()).cast(wanted)
        case Scalar.DATETIME:
            return texts.cast(pa.int64()).view(wanted)
        case _:
            return texts.cast(wanted)


def _read(scratch: ScratchPlace, files: Sequence[str], columns: Sequence[str], also: str | None = None) -> pa.Table:
    """Return columns of rows with their places as ``row``, of keys files or files of rows; ``also`` if it is there."""
    found = []
    for name in files:
        for batch in scratch.read_arrow(name):
            at = ROW if ROW in batch.schema.names else KEY_ROW
            names = [*columns, *([also] if also is not None and also in batch.schema.names else [])]
            found.append(pa.table(batch.select([at, *names]).columns, names=["row", *names]))
    if not found:
        return pa.table({"row": pa.array([], pa.int64()), **{name: pa.array([], pa.string()) for name in columns}})
    return pa.concat_tables(found)


def _ids(scratch: ScratchPlace, files: Sequence[str]) -> pa.Array:
    found = [batch.column("id") for name in files for batch in scratch.read_arrow(name)]
    return pc.unique(pa.concat_arrays([pa.array([], pa.string()), *found]))


def _table(scratch: ScratchPlace, name: str) -> pa.Table:
    return pa.Table.from_batches(list(scratch.read_arrow(name)))


def _put_found(scratch: ScratchPlace, numbers: Any, side: str, values: pa.Array) -> FoundRows:
    name = f"screened/{Runtime.system().ids.ulid()}"
    rows = pa.table([pa.array(numbers, pa.int64()), pa.repeat(side, len(numbers)), values], schema=_FOUND)
    scratch.put(name, rows)
    return FoundRows(name=name, rows=len(numbers), first=int(np.min(numbers)))


def row_files(loaded: LoadedType) -> tuple[str, ...]:
    """Return the names of the files that have the ids, ends and places of what was read of a type."""
    return tuple(file.name for file in loaded.keys) or tuple(file.name for file in loaded.aside)
