"""What a change log makes of each entity: its rows in the order of their sequences, folded into one outcome.

Rows of one entity follow each other by sequence, those of the same sequence in the order of the input. An upsert
replaces the entity, a patch changes what it gives, a delete removes it. The delete of a node takes the edges that were
there before it, those of the same log among them, whatever becomes of the node later: so it does not matter into how
many calls a log is cut. Edges and nodes are compared by their sequences, where both have one of the same kind; what
earlier calls have applied is remembered (:mod:`omnigraph.engine.load.sequences`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import arrow_schema
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.comparison import one_array
from omnigraph.engine.equality import rows_equal
from omnigraph.engine.load.intake import GIVEN, LINE, MARK, SOURCE
from omnigraph.engine.load.options import ChangeCounts
from omnigraph.engine.rows import RowProblem
from omnigraph.engine.rows.changes import DELETE, NO_SEQUENCE, PATCH, SEQUENCE_KINDS, UPSERT
from omnigraph.engine.rows.columns import default_scalar
from omnigraph.engine.rows.decoder import required_problem
from omnigraph.engine.view import TypeChange
from omnigraph.records import record

_SLICE_ROWS = 1 << 18
_PLACES = pa.schema([("source", pa.int32()), ("line", pa.int64())])

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
# Columns of the stored rows of a type that have these ids.
StoredRows = Callable[[NodeType | EdgeType, pa.Array, Sequence[str]], pa.Table]
# ``id`` of the stored edges whose column, an end, is one of these nodes.
StoredEdges = Callable[[EdgeType, NodeType, pa.Array], pa.Table]
# The sequences that earlier calls have applied to entities with these ids; ``NEVER`` where there are none.
KnownSequences = Callable[[pa.Array], npt.NDArray[np.int64]]
# The same for edges of a type, whose sequences are of a kind.
KnownEdges = Callable[[EdgeType, int, pa.Array], npt.NDArray[np.int64]]


@record
class Deaths:
    """When nodes of a type are deleted: ids and sequences, each delete of the log one row, and the kind of these."""

    ids: pa.Array
    seqs: Numbers
    kind: int

    def after(self, known: Callable[[int, pa.Array], Numbers]) -> Deaths | None:
        """Return those that are not known; None when there are none."""
        is_new = self.seqs > known(self.kind, self.ids)
        if is_new.all():
            return self
        ids, seqs = self.ids.filter(pa.array(is_new)), self.seqs[is_new]
        return Deaths(ids=ids, seqs=seqs, kind=self.kind) if len(ids) else None

    def next(self, nodes: pa.Array, after: Numbers | None) -> tuple[Mask, Numbers]:
        """Return of each node whether it is deleted behind a sequence, and at which one first; None is from ever."""
        count = len(nodes)
        found, at = np.zeros(count, dtype=bool), np.zeros(count, dtype=np.int64)
        known = pc.unique(self.ids)
        codes = _codes(nodes, known)
        asked = np.flatnonzero(codes >= 0)
        if not len(asked):
            return found, at
        limits = np.full(count, -1, dtype=np.int64) if after is None else after
        levels, ranks = np.unique(np.concatenate([self.seqs, limits]), return_inverse=True)
        width = len(levels) + 1
        own = _codes(self.ids, known) * width + ranks[: len(self.seqs)]
        order = np.argsort(own, kind="stable")
        own = own[order]
        # Behind every sequence there is when none is given.
        wanted = codes[asked] * width + (ranks[len(self.seqs) :][asked] if after is not None else -1)
        places = np.searchsorted(own, wanted, side="right")
        hit = places < len(own)
        hit[hit] = own[places[hit]] // width == codes[asked][hit]
        found[asked[hit]] = True
        at[asked[hit]] = self.seqs[order[places[hit]]]
        return found, at


def find_deaths(rows: pa.Table) -> Deaths | None:
    """Return when the nodes of a log are deleted; None when none is."""
    is_delete = pc.equal(rows.column(f"{MARK}op"), DELETE)
    gone = rows.select(["id", f"{MARK}seq", f"{MARK}kind"]).filter(is_delete)
    if not gone.num_rows:
        return None
    seqs = gone.column(f"{MARK}seq").to_numpy()
    return Deaths(ids=one_array(gone.column("id")), seqs=seqs, kind=int(gone.column(f"{MARK}kind")[0].as_py()))


def mixed_sequences(owner: NodeType | EdgeType, rows: pa.Table) -> tuple[int, RowProblem] | None:
    """Return the first row whose sequence cannot be compared with those before it, with its source's number."""
    kinds = rows.column(f"{MARK}kind").to_numpy()
    others = np.flatnonzero(kinds != kinds[0]) if len(kinds) else np.zeros(0, dtype=np.int64)
    if not len(others):
        return None
    at = int(others[0])
    text = (
        f"the row has {SEQUENCE_KINDS[int(kinds[at])]}, rows of {owner.name} before it {SEQUENCE_KINDS[int(kinds[0])]}"
    )
    line, source = rows.column(LINE)[at].as_py(), rows.column(SOURCE)[at].as_py()
    return source, RowProblem(line=line, rule="sequence", message=text, type_name=owner.name, property="_seq")


@record
class TypeOutcome:
    """What a log makes of the entities of one type.

    Args:
        inserts: whole rows of entities that are not stored.
        updates: whole rows that differ from the stored ones.
        places: where each of them stands in the input, inserts first: ``source`` and ``line``.
        deletes: ids of stored entities that go.
        counts: what became of the rows.
        problems: rows that cannot be completed, with their source's number.
    """

    inserts: pa.Table
    updates: pa.Table
    places: pa.Table
    deletes: pa.Array
    counts: ChangeCounts
    problems: tuple[tuple[int, RowProblem], ...] = ()

    @classmethod
    def nothing(cls, owner: NodeType | EdgeType) -> TypeOutcome:
        """Return what a log makes of a type that it says nothing about."""
        none = arrow_schema(owner).empty_table()
        return cls(
            inserts=none,
            updates=none,
            places=_PLACES.empty_table(),
            deletes=pa.array([], pa.string()),
            counts=ChangeCounts(),
        )

    @classmethod
    def joined(cls, owner: NodeType | EdgeType, parts: Sequence[TypeOutcome]) -> TypeOutcome:
        """Return outcomes of different entities of a type as one."""
        every: list[TypeOutcome] = [cls.nothing(owner), *parts]
        new, changed = [], []
        for part in every:
            count = part.inserts.num_rows
            new.append(part.places.slice(0, count))
            changed.append(part.places.slice(count))
        return cls(
            inserts=pa.concat_tables([part.inserts for part in every]),
            updates=pa.concat_tables([part.updates for part in every]),
            places=pa.concat_tables([*new, *changed]),
            deletes=pa.concat_arrays([part.deletes for part in every]),
            counts=sum((part.counts for part in every), ChangeCounts()),
            problems=tuple(problem for part in every for problem in part.problems),
        )

    def change(self, owner: NodeType | EdgeType) -> TypeChange:
        """Return what the rules judge, rows in the order of the input."""
        rows = pa.concat_tables([self.inserts, self.updates])
        if not rows.num_rows:
            return TypeChange(type=owner, deletes=self.deletes)
        places = [self.places.column(name).to_numpy() for name in reversed(_PLACES.names)]
        order = pa.array(np.lexsort(places))
        return TypeChange(type=owner, rows=rows.take(order), deletes=self.deletes, sources=self.places.take(order))

    @property
    def is_empty(self) -> bool:
        """Whether nothing is written and nothing goes."""
        return not (self.inserts.num_rows or self.updates.num_rows or len(self.deletes))


class TypeLog:
    """The rows of one type, folded.

    Args:
        owner: the type.
        rows: its rows that are not late.
        deaths: the deletes of nodes by type, for the ends of edges.
        remembered: those of earlier calls, each node at most once; what is stored has outlived them.
        known: the sequences that earlier calls have applied to entities of the type.
    """

    def __init__(
        self,
        owner: NodeType | EdgeType,
        rows: pa.Table,
        deaths: Mapping[str, Deaths],
        remembered: Mapping[str, Deaths] = MappingProxyType({}),
        known: KnownSequences | None = None,
    ) -> None:
        self._owner = owner
        self._rows = rows
        self._known = known
        ids = one_array(rows.column("id"))
        codes = ids.dictionary_encode().indices.to_numpy()
        op, seq = rows.column(f"{MARK}op").to_numpy(), rows.column(f"{MARK}seq").to_numpy()
        kind = int(rows.column(f"{MARK}kind")[0].as_py()) if rows.num_rows else NO_SEQUENCE
        # Only where the order of a delete and of an edge is known.
        self._deaths = {name: found for name, found in deaths.items() if found.kind == kind and kind != NO_SEQUENCE}
        self._kills = {name: _joined(self._deaths.get(name), found) for name, found in remembered.items()}
        self._kills = {**self._deaths, **self._kills}
        self._order: Numbers = np.lexsort((np.arange(len(codes)), seq, codes))
        self._op, self._seq = op[self._order], seq[self._order]
        sorted_codes = codes[self._order]
        is_first = np.ones(len(codes), dtype=bool)
        is_first[1:] = sorted_codes[1:] != sorted_codes[:-1]
        self._first = np.flatnonzero(is_first)
        self._last = np.concatenate([self._first[1:], [len(codes)]])[: len(self._first)] - 1
        self._is_killed, killed_at = self._find_killed()
        starts = is_first | (self._op == UPSERT)
        starts[1:] |= self._op[:-1] == DELETE
        starts[1:] |= self._is_killed[:-1] & (killed_at[:-1] < self._seq[1:])
        self._start: Numbers = np.maximum.accumulate(np.where(starts, np.arange(len(codes)), 0))
        self.ids: pa.Array = ids.take(pa.array(self._order[self._first]))

    def settle(self, stored_rows: StoredRows) -> Iterator[TypeOutcome]:
        """Yield what becomes of the entities, held against what is stored, a bounded number of them at a time."""
        for begin in range(0, len(self._first), _SLICE_ROWS):
            yield self._settle(slice(begin, begin + _SLICE_ROWS), stored_rows)

    def _find_killed(self) -> tuple[Mask, Numbers]:
        """Return of each row whether the delete of an end removes its edge later on, and at which sequence first."""
        count = len(self._order)
        found, at = np.zeros(count, dtype=bool), np.zeros(count, dtype=np.int64)
        if not isinstance(self._owner, EdgeType):
            return found, at
        for column, name in edge_ends(self._owner):
            if name in self._kills:
                ends = one_array(self._rows.column(column)).take(pa.array(self._order))
                _take_first(found, at, *self._kills[name].next(ends, self._seq))
        found &= self._op != DELETE
        return found, at

    def _settle(self, some: slice, stored_rows: StoredRows) -> TypeOutcome:
        owner, schema = self._owner, arrow_schema(self._owner)
        first, last = self._first[some], self._last[some]
        ids = self.ids.slice(some.start, len(first))
        stored = stored_rows(owner, ids, schema.names)
        places = _codes(ids, one_array(stored.column("id")))
        is_stored = places >= 0
        is_deleted, is_killed = self._op[last] == DELETE, self._is_killed[last]
        stays = np.flatnonzero(~(is_deleted | is_killed))
        rows, problems = self._whole_rows(first[stays], last[stays], places[stays], stored)
        if problems:
            return replace(TypeOutcome.nothing(owner), problems=problems)
        known = np.flatnonzero(places[stays] >= 0)
        same = np.zeros(len(stays), dtype=bool)
        old = stored.select(schema.names).cast(schema).take(pa.array(places[stays][known]))
        same[known] = rows_equal(old, rows.take(pa.array(known)))
        new, changed = np.flatnonzero(places[stays] < 0), np.flatnonzero((places[stays] >= 0) & ~same)
        at = self._order[last[stays]][np.concatenate([new, changed])]
        where = self._rows.select([SOURCE, LINE]).take(pa.array(at)).rename_columns(_PLACES.names).cast(_PLACES)
        total, outcomes = int((last - first + 1).sum()), len(first) - int(is_killed.sum())
        gone = is_deleted & is_stored
        return TypeOutcome(
            inserts=rows.take(pa.array(new)),
            updates=rows.take(pa.array(changed)),
            places=where,
            deletes=ids.filter(pa.array((is_deleted | is_killed) & is_stored)),
            counts=ChangeCounts(
                rows=total,
                written=len(new) + len(changed),
                unchanged=int(same.sum()) + int((is_deleted & ~is_stored).sum()),
                superseded=total - outcomes,
                deleted=int(gone.sum()),
                cascaded=int((is_killed & is_stored).sum()),
            ),
            problems=problems,
        )

    def _whole_rows(
        self, first: Numbers, last: Numbers, places: Numbers, stored: pa.Table
    ) -> tuple[pa.Table, tuple[tuple[int, RowProblem], ...]]:
        """Return what entities are in the end, and the rows that leave out what nothing else gives."""
        owner, rows, order = self._owner, self._rows, self._order
        start = self._start[last]
        completes = (start == first) & (self._op[start] == PATCH) & (places >= 0)
        completes &= ~self._lost_base(first, places, stored)
        columns: dict[str, pa.Array] = {
            name: one_array(rows.column(name)).take(pa.array(order[last]))
            for name in arrow_schema(owner).names
            if owner.get(name) is None or name in {"id", "src", "dst"}
        }
        lacking: dict[int, tuple[int, RowProblem]] = {}
        for prop in owner.properties:
            given = rows.column(f"{GIVEN}{prop.name}").to_numpy()[order]
            newest = np.maximum.accumulate(np.where(given, np.arange(len(given)), -1))[last]
            is_given = newest >= start
            kind = rows.schema.field(prop.name).type
            default = default_scalar(prop)
            fill = pa.nulls(1, kind) if default is None else pa.repeat(default, 1).cast(kind)
            before = one_array(stored.column(prop.name)).cast(kind)
            column = one_array(rows.column(prop.name))
            at = np.where(is_given, order[newest], len(column) + len(before))
            at = np.where(~is_given & completes, len(column) + places, at)
            if is_given.all():
                columns[prop.name] = column.take(pa.array(at))
            else:
                columns[prop.name] = pa.concat_arrays([column, before, fill]).take(pa.array(at))
            if not prop.type.nullable and columns[prop.name].null_count:
                for row in np.flatnonzero(columns[prop.name].is_null().to_numpy(zero_copy_only=False)).tolist():
                    lacking.setdefault(row, self._lacking(prop, int(order[last[row]])))
        found = [lacking[row] for row in sorted(lacking)]
        schema = arrow_schema(owner)
        if found:
            return schema.empty_table(), tuple(found)
        return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema), ()

    def _lacking(self, prop: Any, at: int) -> tuple[int, RowProblem]:
        line, source = self._rows.column(LINE)[at].as_py(), self._rows.column(SOURCE)[at].as_py()
        return source, required_problem(self._owner, prop, line, is_given=False)

    def _lost_base(self, first: Numbers, places: Numbers, stored: pa.Table) -> Mask:
        """Return which stored edges are gone before the first row of the log comes, because a node of theirs is."""
        lost = np.zeros(len(first), dtype=bool)
        if not isinstance(self._owner, EdgeType) or not self._deaths or not stored.num_rows:
            return lost
        found, at = np.zeros(stored.num_rows, dtype=bool), np.zeros(stored.num_rows, dtype=np.int64)
        # A stored edge has outlived what was deleted before it was written.
        since = None if self._known is None else self._known(one_array(stored.column("id")))
        for column, name in edge_ends(self._owner):
            if name in self._deaths:
                _take_first(found, at, *self._deaths[name].next(one_array(stored.column(column)), since))
        known = np.flatnonzero(places >= 0)
        lost[known] = found[places[known]] & (at[places[known]] < self._seq[first[known]])
        return lost


@record
class Cascade:
    """Finds the stored edges that go with their nodes.

    Args:
        nodes: the node types.
        deaths: the deletes of a log, by node type.
        edges_at: finds edges by their nodes.
        stored_rows: finds edges by their ids.
        known: the sequences that earlier calls have applied to edges; None when nothing is remembered.
    """

    nodes: Mapping[str, NodeType]
    deaths: Mapping[str, Deaths]
    edges_at: StoredEdges
    stored_rows: StoredRows
    known: KnownEdges | None = None

    def of(self, edge: EdgeType, named: pa.Array) -> pa.Array:
        """Return the edges of a type that go; what becomes of those in ``named`` the log says itself."""
        names = [name for name in dict.fromkeys((edge.from_type, edge.to_type)) if name in self.deaths]
        found = [self._at_nodes(edge, name, named) for name in names]
        return pc.unique(pa.concat_arrays([pa.array([], pa.string()), *found]))

    def _at_nodes(self, edge: EdgeType, name: str, named: pa.Array) -> pa.Array:
        deaths = self.deaths[name]
        ids = pc.unique(one_array(self.edges_at(edge, self.nodes[name], pc.unique(deaths.ids)).column("id")))
        ids = ids.filter(pc.invert(pc.is_in(ids, value_set=named)))
        if self.known is None or deaths.kind == NO_SEQUENCE or not len(ids):
            return ids
        since = self.known(edge, deaths.kind, ids)
        # Edges without a sequence were there before any delete.
        ordered = np.flatnonzero(since != np.iinfo(np.int64).min)
        if not len(ordered):
            return ids
        rows = self.stored_rows(edge, ids.take(pa.array(ordered)), ["id", "src", "dst"])
        at = ordered[_codes(one_array(rows.column("id")), ids.take(pa.array(ordered)))]
        goes = np.ones(len(ids), dtype=bool)
        goes[at] = False
        for column, end in edge_ends(edge):
            if end == name:
                goes[at] |= deaths.next(one_array(rows.column(column)), since[at])[0]
        return ids.filter(pa.array(goes))


def edge_ends(edge: EdgeType) -> tuple[tuple[str, str], ...]:
    """Return the columns of the ends of an edge, each with the node type it names."""
    return ("src", edge.from_type), ("dst", edge.to_type)


def _joined(one: Deaths | None, other: Deaths) -> Deaths:
    if one is None:
        return other
    return Deaths(
        ids=pa.concat_arrays([one.ids, other.ids]), seqs=np.concatenate([one.seqs, other.seqs]), kind=other.kind
    )


def _take_first(found: Mask, at: Numbers, other_found: Mask, other_at: Numbers) -> None:
    """Let the earlier of two moments stand."""
    sooner = other_found & (~found | (other_at < at))
    at[sooner] = other_at[sooner]
    found |= other_found


def _codes(values: pa.Array, among: pa.Array) -> Numbers:
    """Return where each value stands among others; -1 where it does not."""
    codes: Numbers = pc.fill_null(pc.index_in(values, value_set=among), -1).to_numpy().astype(np.int64)
    return codes
