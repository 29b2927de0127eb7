"""One run over a change: what all set rules of it share.

A proof may fail where the text would find nothing; it never succeeds where the text would find something.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.entity_ids import canonical_texts
from omnigraph.catalog.model import ENDPOINTS, FLOATS, EdgeType, NodeType, PropertyType, Scalar
from omnigraph.engine.comparison import comparable, one_array
from omnigraph.engine.constraints.kernel import Kernel
from omnigraph.engine.constraints.set_rules import FINAL_IMAGE
from omnigraph.engine.constraints.violations import Describer, ViolationList
from omnigraph.engine.view import GraphChange, GraphView, TypeChange
from omnigraph.records import record
from omnigraph.store.tables.tail import are_all_different
from omnigraph.txn.changes import as_id_array

# Of a change with more rows, so many at a time are held against what is stored; each is judged by itself.
SLICE_ROWS = 1 << 20
_FEW = 32
# Codes of several columns are multiplied into one number while they fit it.
_MOST_CODES = 1 << 62


def are_distinct(columns: Sequence[pa.ChunkedArray]) -> bool:
    """Whether no two rows hold the same tuple; rows with a null in any column do not count.

    >>> are_distinct([pa.chunked_array([["a", "a", None, None]]), pa.chunked_array([[1, 2, 3, 3]])])
    True
    """
    if len(columns[0]) < 2:
        return True
    plain = [pa.chunked_array([comparable(chunk) for chunk in column.chunks]) for column in columns]
    if len(plain) == 1:
        return are_all_different(plain[0])
    valid = np.ones(len(plain[0]), dtype=bool)
    for column in plain:
        if column.null_count:
            valid &= pc.is_valid(column).to_numpy()
    codes, size = np.zeros(int(valid.sum()), dtype=np.int64), 1
    for column in plain:
        own, count = _codes(column)
        if size * count > _MOST_CODES:
            known, codes = np.unique(codes, return_inverse=True)
            size = len(known)
        codes, size = codes * count + own[valid], size * count
    ordered = np.sort(codes)
    return not bool((ordered[1:] == ordered[:-1]).any())


def counts_are_within(
    counts: pa.StructArray, stored: pa.ChunkedArray, touched: pa.Array, gone: pa.Array, bounds: tuple[int, int]
) -> bool:
    """Whether every touched source that stays has a number of edges within ``bounds``.

    Args:
        counts: how many edges of each source are written.
        stored: the source of each stored edge that stays as it is; only touched ones.
        touched: the sources in question, among them all that are written.
        gone: sources that do not stay.
        bounds: the least and the greatest number.
    """
    minimum, maximum = bounds
    sources, numbers = counts.field("values"), counts.field("counts")
    if len(stored):
        more = pc.value_counts(stored)
        both = pa.table(
            {
                "source": pa.chunked_array([sources, more.field("values")], pa.string()),
                "edges": pa.chunked_array([numbers, more.field("counts")]),
            }
        )
        summed = both.group_by("source").aggregate([("edges", "sum")])
        sources, numbers = summed.column("source"), summed.column("edges_sum")
    expected = len(touched)
    if len(gone):
        stays = pc.invert(pc.is_in(sources, value_set=gone))
        numbers = numbers.filter(stays)
        expected = pc.sum(pc.invert(pc.is_in(touched, value_set=gone))).as_py() or 0
    if len(numbers) and pc.max(numbers).as_py() > maximum:
        return False
    return not minimum or (len(numbers) == expected and (not expected or pc.min(numbers).as_py() >= minimum))


def _codes(column: pa.ChunkedArray) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], int]:
    encoded = pc.dictionary_encode(column).combine_chunks()
    numbers = pc.fill_null(encoded.indices, 0).to_numpy()
    return numbers.astype(np.int64), max(len(encoded.dictionary), 1)


_IDS = pa.schema([("id", pa.string())])
_Ids = TypeVar("_Ids", pa.Array, pa.ChunkedArray)


@record
class ChangeImage:
    """What a change leaves behind of one type.

    Args:
        part: the type's change as it was handed over.
        rows: the rows that are written, the last one of each id.
        positions: the number of each of these rows in the change.
        replaced: one column ``id``: stored rows with these ids do not survive as they are.
        deletes: the ids that are removed without a row taking their place.
        has_repeated_ids: the change holds several rows of one id.
    """

    part: TypeChange
    rows: pa.Table
    positions: pa.Array
    replaced: pa.Table
    deletes: pa.Array
    has_repeated_ids: bool = False
    _counts: dict[str, pa.StructArray] = field(default_factory=dict)

    @property
    def type(self) -> NodeType | EdgeType:
        """The type that the change is about."""
        return self.part.type

    @property
    def replaces_all(self) -> bool:
        """Whether no stored row survives."""
        return self.part.replaces_all

    def written(self, *columns: str) -> pa.Table:
        """Return ``row`` and these columns of the written rows."""
        chosen = self.rows.select(list(columns))
        return chosen.add_column(0, "row", self.positions)

    def slices(self) -> Iterator[ChangeImage]:
        """Yield the image in pieces of bounded size; an image that fits one piece is yielded whole."""
        if self.rows.num_rows <= SLICE_ROWS:
            yield self
            return
        for start in range(0, self.rows.num_rows, SLICE_ROWS):
            rows, positions = self.rows.slice(start, SLICE_ROWS), self.positions.slice(start, SLICE_ROWS)
            yield replace(self, rows=rows, positions=positions, _counts={})

    def counts(self, column: str) -> pa.StructArray:
        """Return the ``values`` of a column and their ``counts``, nulls left out; counted once."""
        if column not in self._counts:
            counted = pc.value_counts(self.rows.column(column))
            if self.rows.column(column).null_count:
                counted = counted.filter(pc.is_valid(counted.field("values")))
            self._counts[column] = counted
        return self._counts[column]


_NO_DELETES = pa.array([], pa.string())


def image_of(part: TypeChange, kernel: Kernel) -> ChangeImage:
    """Return the image of a type's change; of several rows with one id only the last counts."""
    names = ["id", "src", "dst"] if isinstance(part.type, EdgeType) else ["id"]
    deletes = as_id_array(part.deletes) if len(part.deletes) else _NO_DELETES
    if part.rows is None:
        rows = pa.schema([(name, pa.string()) for name in names]).empty_table()
        return _image(part, rows, pa.array([], pa.int64()), deletes)
    positions = pa.array(np.arange(part.rows.num_rows), pa.int64())
    if not part.has_fresh_ids and part.rows.num_rows > 1:
        ids = part.rows.column("id")
        written = pa.table({"row": positions, "id": ids})
        last = kernel.find(FINAL_IMAGE, lambda: {"written": written}, unless=lambda: are_distinct([ids]))
        if last is not None and last.num_rows < part.rows.num_rows:
            positions = last.column("row").combine_chunks()
            return _image(part, part.rows.take(positions), positions, deletes, has_repeated_ids=True)
    return _image(part, part.rows, positions, deletes)


def _image(
    part: TypeChange, rows: pa.Table, positions: pa.Array, deletes: pa.Array, *, has_repeated_ids: bool = False
) -> ChangeImage:
    gone = [deletes] if len(deletes) else []
    replaced = pa.chunked_array([*rows.column("id").chunks, *gone], pa.string())
    return ChangeImage(
        part=part,
        rows=rows,
        positions=positions,
        replaced=pa.table([replaced], schema=_IDS),
        deletes=deletes,
        has_repeated_ids=has_repeated_ids,
    )


def ids_table(*parts: pa.Array | pa.ChunkedArray) -> pa.Table:
    """Return ids as a relation."""
    chunks = [chunk for part in parts for chunk in (part.chunks if isinstance(part, pa.ChunkedArray) else [part])]
    return pa.table([pa.chunked_array(chunks, pa.string())], schema=_IDS)


def slices_of(values: pa.Array) -> Iterator[pa.Array]:
    """Yield values in pieces of bounded size."""
    for start in range(0, len(values), SLICE_ROWS):
        yield values.slice(start, SLICE_ROWS)


def difference(ids: _Ids, minus: pa.Array | pa.ChunkedArray) -> _Ids:
    """Return those of ``ids`` that are not in ``minus``."""
    if not len(ids) or not len(minus):
        return ids
    if len(ids) + len(minus) <= _FEW:
        # Kernels take longer to call than so few ids to compare.
        others = set(minus.to_pylist())
        kept = [one not in others for one in ids.to_pylist()]
        return ids if all(kept) else ids.filter(pa.array(kept))
    return ids.filter(pc.invert(pc.is_in(ids, value_set=_met(ids, minus))))


def _met(ids: pa.Array | pa.ChunkedArray, others: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return those of ``others`` that can be among ``ids``: all of them, unless they are many more.

    To ask whether a value is one of many takes a table of all of these, so where they are many they are asked instead.
    """
    if len(others) <= max(SLICE_ROWS, len(ids)):
        return others
    chunks = others.chunks if isinstance(others, pa.ChunkedArray) else [others]
    found = [piece.filter(pc.is_in(piece, value_set=ids)) for chunk in chunks for piece in slices_of(chunk)]
    return pa.concat_arrays(found)


def without(rows: pa.Table, replaced: pa.Table) -> pa.Table:
    """Return the rows whose ``id`` is not among those of ``replaced``."""
    if not rows.num_rows or not replaced.num_rows:
        return rows
    ids = rows.column("id")
    return rows.filter(pc.invert(pc.is_in(ids, value_set=_met(ids, replaced.column("id")))))


_NO_IDS = pa.array([], pa.string())


@record
class NodesAfter:
    """Nodes that are there after a change, all written and asked for among them, and the asked ones that are not."""

    known: tuple[pa.Array | pa.ChunkedArray, ...]
    missing: pa.Array


@record
class Evaluation:
    """A change with the state it is made on; ``images`` holds what the change leaves of each type, by table."""

    change: GraphChange
    view: GraphView
    kernel: Kernel
    images: Mapping[str, ChangeImage]
    found: ViolationList
    _gone: dict[str, pa.Array] = field(default_factory=dict)
    _unwritten: dict[tuple[str, str], pa.Array] = field(default_factory=dict)

    def describer(self, image: ChangeImage) -> Describer:
        """Return what describes the rows of a type's part."""
        return Describer(change=self.change, part=image.part)

    def is_replaced(self, table_key: str) -> bool:
        """Whether no stored row of the table survives."""
        image = self.images.get(table_key)
        return image is not None and image.replaces_all

    def gone_nodes(self, table_key: str) -> pa.Array:
        """Return the ids of nodes that the change removes."""
        image = self.images.get(table_key)
        if image is None:
            return _NO_IDS
        if table_key not in self._gone:
            if image.replaces_all:
                self._gone[table_key] = difference(self.view.all_ids(table_key), image.rows.column("id"))
            else:
                self._gone[table_key] = image.deletes
        return self._gone[table_key]

    def unwritten_ends(self, edge: EdgeType, side: str) -> pa.Array:
        """Return the nodes that written edges name on one side and the change does not write, each once."""
        where = edge.table_key, side
        if where not in self._unwritten:
            self._unwritten[where] = self.unwritten_among(edge, side, self.images[edge.table_key].rows.column(side))
        return self._unwritten[where]

    def unwritten_among(self, edge: EdgeType, side: str, named: pa.ChunkedArray) -> pa.Array:
        """Return those of the nodes on one side that the change does not write, each once."""
        nodes = self.images.get(f"node:{edge.from_type if side == 'src' else edge.to_type}")
        others = named if nodes is None else difference(named, nodes.rows.column("id"))
        if len(others) == 1 and not others.null_count:
            return one_array(others)
        return pc.unique(others).drop_null()

    def nodes_after(self, table_key: str, unwritten: pa.Array) -> NodesAfter:
        """Look for nodes that the change does not write among those that are there after it."""
        image = self.images.get(table_key)
        if image is None:
            stored = self.view.existing_ids(table_key, unwritten)
            return NodesAfter(known=(stored,), missing=difference(unwritten, stored))
        written = image.rows.column("id")
        if image.replaces_all:
            return NodesAfter(known=(written,), missing=unwritten)
        stored = self.view.existing_ids(table_key, difference(unwritten, image.deletes))
        return NodesAfter(known=(written, stored), missing=difference(unwritten, stored))


WRITTEN_TUPLES = pa.schema([("row", pa.int64()), ("id", pa.string()), ("value", pa.string())])
# One part of a tuple's text: everything up to a separator that is not escaped.
_PART = re.compile(r"(?:^|\|)((?:[^\\|]|\\.)*)", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_STRING = PropertyType(scalar=Scalar.STRING)


def column_type(owner: NodeType | EdgeType, column: str) -> PropertyType:
    """Return the type of a column that a constraint names; endpoints and ids are text."""
    prop = owner.get(column)
    if prop is None or (isinstance(owner, EdgeType) and column in ENDPOINTS):
        return _STRING
    return prop.type


def tuples_of(owner: NodeType | EdgeType, rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Return ``row``, ``id`` and the text of the tuple for every row that has all of its values.

    Rows with a number that has no text are left out as well: they break another rule already.
    """
    kinds = {column: column_type(owner, column) for column in columns}
    batches, start = [], 0
    # Batch by batch: all texts of a column side by side may be longer than one Arrow array can hold.
    for batch in rows.select(["id", *(name for name in columns if name != "id")]).to_batches():
        positions = pa.array(np.arange(start, start + batch.num_rows))
        start += batch.num_rows
        numbered = batch.append_column("row", positions)
        whole = _whole(numbered, kinds)
        if whole.num_rows:
            value = _texts([canonical_texts(kind, whole.column(name)) for name, kind in kinds.items()])
            batches.append(pa.record_batch([whole.column("row"), whole.column("id"), value], schema=WRITTEN_TUPLES))
    return pa.Table.from_batches(batches, schema=WRITTEN_TUPLES)


def display_tuple(owner: NodeType | EdgeType, rows: pa.Table, row: int, columns: Sequence[str]) -> str:
    """Return the tuple of one row as messages show it.

    >>> from omnigraph.catalog.model import NodeType, PropertyDef
    >>> props = tuple(PropertyDef(name=name, type=PropertyType(scalar=Scalar.I32)) for name in "ab")
    >>> rows = pa.table({"id": ["x"], "a": pa.array([1], pa.int32()), "b": pa.array([2], pa.int32())})
    >>> display_tuple(NodeType(name="T", properties=props), rows, 0, ("a", "b"))
    '(1, 2)'
    """
    one = rows.slice(row, 1)
    texts = [canonical_texts(column_type(owner, name), one.column(name))[0].as_py() for name in columns]
    return _shown(texts)


def display_text(value: str, count: int) -> str:
    r"""Return the text of a tuple of ``count`` values as messages show it.

    >>> display_text("a\\|b|c", 2), display_text("a|b", 1)
    ('(a|b, c)', 'a|b')
    """
    return _shown(tuple_parts(value, count))


def tuple_parts(value: str, count: int) -> list[str]:
    r"""Return the texts of the single values of a tuple's text.

    >>> tuple_parts("a\\|b|c\\\\", 2)
    ['a|b', 'c\\']
    """
    if count == 1:
        return [value]
    return [_ESCAPED.sub(r"\1", part) for part in _PART.findall(value)]


def _shown(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def _whole(batch: pa.RecordBatch, kinds: dict[str, PropertyType]) -> pa.RecordBatch:
    for name, kind in kinds.items():
        if kind.scalar in FLOATS:
            batch = batch.filter(pc.fill_null(pc.is_finite(batch.column(name)), fill_value=False))
        elif batch.column(name).null_count:
            batch = batch.filter(pc.is_valid(batch.column(name)))
    return batch


def _texts(parts: Sequence[pa.Array]) -> pa.Array:
    if len(parts) == 1:
        return parts[0]
    # The separator cannot be part of an escaped text, so different tuples cannot read the same.
    escaped = [pc.replace_substring(pc.replace_substring(part, "\\", "\\\\"), "|", "\\|") for part in parts]
    return pc.binary_join_element_wise(*escaped, "|")
