"""What a task makes of its part of the input: fragments, keys files, rows put aside, and what is wrong with rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import partial
from typing import cast

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import arrow_schema
from omnigraph.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.engine.constraints.row_rules import find_in_rows
from omnigraph.engine.constraints.violations import RowPlace
from omnigraph.engine.external_blobs import BlobIntake, ExternalBlobs, current_intake, taking_blobs
from omnigraph.engine.load.groups import ProblemGroups
from omnigraph.engine.load.intake import ProblemList, fill_ids, spooled_rows
from omnigraph.engine.rows import TypeRows
from omnigraph.engine.rows.changes import DELETE
from omnigraph.engine.rows.decoder import moved
from omnigraph.errors import Violation, ViolationGroup, Violations, details_from_json, details_to_json
from omnigraph.records import record
from omnigraph.runtime import Runtime
from omnigraph.spark.keys import KeysFile, Places, keys_of, row_numbers
from omnigraph.spark.loads.leftovers import note_fragments
from omnigraph.spark.loads.options import SparkLoadSettings
from omnigraph.store.scratch import ScratchPlace
from omnigraph.store.tables.portable import TableTicket, discard_fragments, write_fragments_for

# The place of a row in a rows file; no property can have such a name.
ROW = ":row"
_PROBLEM_BYTES = 8 << 20


@record
class BlobOrders:
    """Which objects outside of the graph tasks may take in as Blobs.

    Args:
        allowed: the allow-list of the graph.
        options: how buckets are reached.
        kept: the tables that store addresses instead of copies.
    """

    allowed: ExternalBlobs
    options: Mapping[str, str]
    kept: frozenset[str] = frozenset()


@record
class WriteOrders:
    """What all tasks that read input have in common.

    Args:
        catalog: the schema.
        scratch: where files go that only this load looks at.
        tickets: where rows are written to at once, by table; rows of other tables are put aside.
        settings: what a task may use.
        truncate: cut instants that are finer than a millisecond; otherwise such a row is refused.
        opened: the schema to decode with when required vectors could be computed; rows that lack one are refused.
        takes_changes: rows are those of a change log; they are put aside with what stands beside their values, and
            judged when it is known what becomes of them.
        blobs: which objects outside of the graph may be taken in; none when None.
    """

    catalog: Catalog
    scratch: ScratchPlace
    tickets: Mapping[str, TableTicket]
    settings: SparkLoadSettings = field(default_factory=SparkLoadSettings)
    truncate: bool = False
    opened: Catalog | None = None
    takes_changes: bool = False
    blobs: BlobOrders | None = None

    @contextmanager
    def taking_blobs(self, table_key: str | None = None) -> Iterator[None]:
        """Let the block take in external blobs, for rows of a table, or of any that the load replaces."""
        blobs = self.blobs
        if blobs is None:
            yield
            return
        keeps = bool(blobs.kept) if table_key is None else table_key in blobs.kept
        with taking_blobs(BlobIntake(blobs.allowed, blobs.options, keeps_addresses=keeps)):
            yield


@record
class RowsFile:
    """Rows that were put aside, by the name of their file in the scratch place."""

    table_key: str
    name: str
    rows: int
    size_bytes: int


@record
class PartType:
    """What one part of the input has of one type; ``has_fresh_ids``: all of its ids were made up.

    Of a change log ``kinds`` has the first row of each kind of sequence, and ``deletes`` how many rows delete.
    """

    table_key: str
    rows: int
    has_fresh_ids: bool
    keys: tuple[KeysFile, ...]
    fragments: tuple[str, ...] = field(default=(), repr=False)
    aside: tuple[RowsFile, ...] = ()
    kinds: Mapping[int, int] = field(default_factory=dict)
    deletes: int = 0


@record
class ProblemFile:
    """Violations, one JSON object per line, in a file of the scratch place."""

    name: str
    count: int
    groups: tuple[ViolationGroup, ...] = ()


@record
class BrokenRows:
    """Rows of a type that break one rule by themselves; ``place`` orders the rules of the type."""

    table_key: str
    place: int
    file: ProblemFile


@record
class LoadedPart:
    """All that a task tells about its part of the input; ``copied_bytes``: of objects outside of the graph."""

    number: int
    source_number: int
    types: tuple[PartType, ...]
    problems: tuple[ProblemFile, ...] = ()
    broken: tuple[BrokenRows, ...] = ()
    bytes_read: int = 0
    lines: int = 0
    copied_bytes: int = 0


@record(frozen=False)
class _Pending:
    owner: NodeType | EdgeType
    tables: list[pa.Table] = field(default_factory=list)
    numbers: list[pa.Array] = field(default_factory=list)
    rows: int = 0
    is_fresh: bool = True
    keys: list[KeysFile] = field(default_factory=list)
    fragments: list[str] = field(default_factory=list)
    aside: list[RowsFile] = field(default_factory=list)
    kinds: dict[int, int] = field(default_factory=dict)
    deletes: int = 0


class PartWriter:
    """Takes the rows of one part of the input as they are decoded. Once a row is none, nothing more is written."""

    def __init__(self, orders: WriteOrders, *, number: int, source_number: int, source_name: str) -> None:
        self._orders = orders
        self._number = number
        self._source_number = source_number
        self.source_name = source_name
        self._world = Runtime.system()
        # Another attempt at the same part writes files of its own.
        self._attempt = f"{number:06}-{self._world.ids.ulid()}"
        self._files = 0
        self._pending: dict[str, _Pending] = {}
        self._held_bytes = 0
        self._problems: list[ProblemFile] = []
        self._waiting: list[bytes] = []
        self._groups = ProblemGroups()
        self._broken: list[BrokenRows] = []

    def refuse(self, problems: Iterable[Violation]) -> None:
        """Take down rows that cannot be read or do not fit their type."""
        lines = []
        for problem in problems:
            lines.append(problem_line(problem))
            self._groups.add(problem)
        self._waiting += lines
        if lines:
            self._forget()
        if sum(map(len, self._waiting)) > _PROBLEM_BYTES:
            self._write_problems()

    def add(self, part: TypeRows) -> None:
        """Take over rows of a type, in the order of their lines."""
        count = part.rows.num_rows
        if not count or self._waiting or self._problems:
            return
        pending = self._pending.setdefault(part.owner.table_key, _Pending(owner=part.owner))
        ids = part.rows.column("id").combine_chunks()
        pending.is_fresh = pending.is_fresh and ids.null_count == count
        numbers = row_numbers(self._source_number, part.lines)
        if part.marks is not None:
            rows = spooled_rows(part, fill_ids(ids, self._world.ids))
            _note_marks(pending, part.marks, numbers)
        else:
            schema = arrow_schema(part.owner)
            columns = [fill_ids(ids, self._world.ids), *(part.rows.column(name) for name in schema.names[1:])]
            rows = pa.table(columns, schema=schema)
            self._judge(part, rows)
        pending.tables.append(rows)
        pending.numbers.append(numbers)
        pending.rows += count
        self._held_bytes += rows.nbytes
        if self._held_bytes > self._orders.settings.flush_bytes:
            self._flush()

    def finish(self, *, bytes_read: int = 0, lines: int = 0) -> LoadedPart:
        """Write what is left and return all that was written."""
        self._write_problems()
        self._flush()
        self._world.failpoints.hit("spark.load.after_part")
        return LoadedPart(
            number=self._number,
            source_number=self._source_number,
            types=tuple(_written(pending) for _, pending in sorted(self._pending.items())),
            problems=tuple(self._problems),
            broken=tuple(self._broken),
            bytes_read=bytes_read,
            lines=lines,
            copied_bytes=current_intake().copied_bytes,
        )

    def _judge(self, part: TypeRows, rows: pa.Table) -> None:
        def place(row: int) -> RowPlace:
            identifier, line = rows.column("id")[row].as_py(), part.lines[row].as_py()
            return RowPlace(entity_id=identifier, source=self.source_name, line=line)

        for finding in find_in_rows(part.owner, rows):
            lines = [problem_line(violation) for violation in finding.described(part.owner, place)]
            file = self._problem_file(lines)
            self._broken.append(BrokenRows(table_key=part.owner.table_key, place=finding.place, file=file))

    def _flush(self) -> None:
        for pending in self._pending.values():
            if pending.tables:
                self._write(pending)
        self._held_bytes = 0

    def _write(self, pending: _Pending) -> None:
        orders, owner = self._orders, pending.owner
        rows = pa.concat_tables(pending.tables)
        numbers = pa.chunked_array(pending.numbers, pa.int64())
        pending.tables.clear()
        pending.numbers.clear()
        if not orders.takes_changes:
            keys = keys_of(owner, rows, numbers)
            keys_file = KeysFile(table_key=owner.table_key, name=self._name("keys", owner), rows=rows.num_rows)
            orders.scratch.put(keys_file.name, keys)
            pending.keys.append(keys_file)
        ticket = orders.tickets.get(owner.table_key)
        if ticket is not None:
            written = write_fragments_for(ticket, rows, max_rows=orders.settings.fragment_rows)
            note_fragments(orders.scratch, ticket, written)
            pending.fragments += written
            return
        aside = RowsFile(
            table_key=owner.table_key, name=self._name("rows", owner), rows=rows.num_rows, size_bytes=rows.nbytes
        )
        orders.scratch.put(aside.name, rows.append_column(ROW, numbers))
        pending.aside.append(aside)

    def _forget(self) -> None:
        for key, pending in self._pending.items():
            if pending.fragments:
                discard_fragments(self._orders.tickets[key], pending.fragments)
        self._pending.clear()
        self._held_bytes = 0

    def _write_problems(self) -> None:
        if self._waiting:
            file = self._problem_file(self._waiting)
            self._problems.append(replace(file, groups=self._groups.finish()))
            self._waiting, self._groups = [], ProblemGroups()

    def _problem_file(self, lines: Sequence[bytes]) -> ProblemFile:
        name = self._name("problems", None)
        self._orders.scratch.put(name, b"\n".join(lines))
        return ProblemFile(name=name, count=len(lines))

    def _name(self, kind: str, owner: NodeType | EdgeType | None) -> str:
        self._files += 1
        folder = kind if owner is None else f"{kind}/{owner.table_key.replace(':', '-')}"
        return f"{folder}/{self._attempt}-{self._files}"


def problem_line(violation: Violation) -> bytes:
    """Return a violation as a line of a problem file."""
    return msgspec.json.encode(details_to_json(violation))


def _written(pending: _Pending) -> PartType:
    return PartType(
        table_key=pending.owner.table_key,
        rows=pending.rows,
        has_fresh_ids=pending.is_fresh,
        keys=tuple(pending.keys),
        fragments=tuple(pending.fragments),
        aside=tuple(pending.aside),
        kinds=dict(pending.kinds),
        deletes=pending.deletes,
    )


def _note_marks(pending: _Pending, marks: pa.Table, numbers: pa.Array) -> None:
    pending.deletes += pc.sum(pc.equal(marks.column("op"), DELETE)).as_py() or 0
    kinds, firsts = np.unique(marks.column("kind").to_numpy(), return_index=True)
    for kind, first in zip(kinds.tolist(), firsts.tolist(), strict=True):
        pending.kinds.setdefault(kind, numbers[first].as_py())


@record
class LoadedType:
    """All that was read of one type, in the order of the input."""

    owner: NodeType | EdgeType
    rows: int
    has_fresh_ids: bool
    keys: tuple[KeysFile, ...]
    fragments: tuple[str, ...]
    aside: tuple[RowsFile, ...]
    kinds: Mapping[int, int] = field(default_factory=dict)
    deletes: int = 0


@record
class LoadedInput:
    """What tasks made of the input; made by :meth:`of`.

    Args:
        scratch: where their files are.
        parts: what they told, in the order of the input.
        places: what row numbers stand for.
        types: the types that have rows, by table key; those that an overwrite names have none perhaps.
    """

    scratch: ScratchPlace
    parts: tuple[LoadedPart, ...]
    places: Places
    types: Mapping[str, LoadedType]

    @classmethod
    def of(
        cls,
        catalog: Catalog,
        scratch: ScratchPlace,
        parts: Iterable[LoadedPart],
        places: Places,
        *,
        named: Iterable[str] = (),
    ) -> LoadedInput:
        """Add up parts, whatever their order; ``named`` are tables that are meant although they may get no row."""
        ordered = tuple(sorted(parts, key=lambda part: part.number))
        found: dict[str, list[PartType]] = {key: [] for key in named}
        for part in ordered:
            for item in part.types:
                found.setdefault(item.table_key, []).append(item)
        types = {key: _loaded(catalog, key, items) for key, items in sorted(found.items())}
        return cls(scratch=scratch, parts=ordered, places=places, types=types)

    def report(self, problems: ProblemList) -> None:
        """Hand over the rows that cannot be read or do not fit their type."""
        for part in self.parts:
            for file in part.problems:
                read = partial(self._read, file, self._offset(part))
                if self._offset(part):
                    # The groups of a part do not know how many rows come before it.
                    problems.add(read())
                else:
                    problems.add_counted(file.count, file.groups, read)

    def broken_rows(self, limit: int) -> Violations:
        """Return the rows that break a rule by themselves, the first ``limit`` of them described."""
        files = list(self._broken_files())
        items: list[Violation] = []
        for file, offset in files:
            if len(items) >= limit:
                break
            items += self._read(file, offset)
        return Violations(items=tuple(items[:limit]), total=sum(file.count for file, _ in files))

    def every_broken_row(self) -> Iterator[Violation]:
        """Return all rows that break a rule by themselves: nodes before edges, type by type, rule by rule."""
        for file, offset in self._broken_files():
            yield from self._read(file, offset)

    def _broken_files(self) -> Iterable[tuple[ProblemFile, int]]:
        found = [(part, broken) for part in self.parts for broken in part.broken]
        # Within a rule parts stay in the order of the input.
        found.sort(key=lambda item: (_judged(item[1].table_key), item[1].place))
        for part, broken in found:
            yield broken.file, self._offset(part)

    def _offset(self, part: LoadedPart) -> int:
        return self.places.offsets[part.source_number] if self.places.offsets else 0

    def _read(self, file: ProblemFile, offset: int) -> Iterator[Violation]:
        for line in (self.scratch.get(file.name) or b"").splitlines():
            violation = cast("Violation", details_from_json(Violation, msgspec.json.decode(line)))
            yield moved(violation, offset)


def _loaded(catalog: Catalog, key: str, items: Sequence[PartType]) -> LoadedType:
    kind, _, name = key.partition(":")
    return LoadedType(
        owner=catalog.nodes[name] if kind == "node" else catalog.edges[name],
        rows=sum(item.rows for item in items),
        has_fresh_ids=all(item.has_fresh_ids for item in items),
        keys=tuple(file for item in items for file in item.keys),
        fragments=tuple(fragment for item in items for fragment in item.fragments),
        aside=tuple(file for item in items for file in item.aside),
        kinds=_first_kinds(items),
        deletes=sum(item.deletes for item in items),
    )


def _first_kinds(items: Sequence[PartType]) -> dict[int, int]:
    kinds: dict[int, int] = {}
    for item in items:
        for kind, row in item.kinds.items():
            kinds[kind] = min(row, kinds.get(kind, row))
    return kinds


def _judged(table_key: str) -> tuple[bool, bytes]:
    kind, _, name = table_key.partition(":")
    return kind == "edge", name.encode()
