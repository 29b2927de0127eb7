"""A change log whose rows tasks fold: a range of ids each, by the code of the local load; the driver combines.

First tasks tell which nodes the log deletes and when. Then each folds the rows of a range of ids, compares the outcome
with what is stored, and writes down what is to be written and removed. One task finds the stored edges that go with
their nodes, one asks the rules about all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import Catalog
from omnigraph.catalog.arrow import arrow_schema
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.comparison import one_array
from omnigraph.engine.constraints import find_violations
from omnigraph.engine.constraints.kernel import KernelSettings
from omnigraph.engine.load.apply import known_edges, new_deaths, ordered_log
from omnigraph.engine.load.change_log import Cascade, Deaths, TypeLog, TypeOutcome, edge_ends, find_deaths
from omnigraph.engine.load.intake import LINE, MARK, SOURCE
from omnigraph.engine.load.options import ChangeCounts, OnDelete
from omnigraph.engine.load.outlived import EDGE_COLUMNS, NewestEdges, without_outlived
from omnigraph.engine.load.sequences import (
    MAX_RUN_ROWS,
    SequenceReader,
    StreamMemory,
    fresh_rows,
    kinds_of,
    merge_runs,
    other_kind,
)
from omnigraph.engine.load.spool import open_spool
from omnigraph.engine.rows.changes import NO_SEQUENCE, SEQUENCE_KINDS
from omnigraph.engine.view import GraphChange, GraphView
from omnigraph.errors import Violation, Violations
from omnigraph.records import record
from omnigraph.runtime import Runtime
from omnigraph.spark.keys import Places, row_places, row_sources
from omnigraph.spark.loads.decided import TableFiles
from omnigraph.spark.loads.options import SparkLoadSettings
from omnigraph.spark.loads.rows import cluster_rows, group_files
from omnigraph.spark.loads.written import ROW, LoadedType, RowsFile
from omnigraph.spark.pinned_state import PinnedState
from omnigraph.spark.runner import Runner
from omnigraph.store.scratch import ScratchPlace
from omnigraph.store.sequence_runs import RUN_COLUMNS, SequencePlace, highest
from omnigraph.txn.manifest.sequences import SequenceMark, SequenceRun

# The deletes of a log, by node type the files that list them.
DeathFiles = Mapping[str, tuple[str, ...]]
_EVERY = 1 << 31


@record
class LogOrder:
    """What all tasks of an apply have in common; ``state`` is what the log is applied to.

    ``reader`` looks up what earlier calls have applied; None where no row has a sequence. ``mortal`` are the tables of
    nodes whose deletes take edges with them. Rows of the source ``unordered`` have no sequence of their own. ``edges``
    are the rows of the log about edges, by table.
    """

    catalog: Catalog
    scratch: ScratchPlace
    state: PinnedState
    places: Places
    deaths: DeathFiles = field(default_factory=dict)
    reader: SequenceReader | None = None
    mortal: frozenset[str] = frozenset()
    unordered: int | None = None
    edges: Mapping[str, tuple[RowsFile, ...]] = field(default_factory=dict)

    def owner(self, table_key: str) -> NodeType | EdgeType:
        """Return the type of a table."""
        kind, _, name = table_key.partition(":")
        return self.catalog.nodes[name] if kind == "node" else self.catalog.edges[name]

    def view(self) -> GraphView:
        """Return the state as it is asked about rows."""
        return GraphView(self.state.open(), self.catalog)

    def deaths_of(self, edge: EdgeType) -> dict[str, Deaths]:
        """Return the deletes of the nodes that an edge type joins, by node type."""
        names = {edge.from_type, edge.to_type} & self.deaths.keys()
        return {name: found for name in names if (found := _read_deaths(self.scratch, self.deaths[name])) is not None}


@record
class LogChange:
    """What a log makes of a state: the files of each table, and what became of the rows. It holds no row.

    ``by_table`` has the counts of the tables that have rows, or lose some. ``added`` are the files of what is to be
    remembered of the log.
    """

    tables: Mapping[str, TableFiles]
    counts: ChangeCounts
    by_table: Mapping[str, ChangeCounts]
    reads: tuple[str, ...]
    problems: tuple[Violation, ...] = ()
    added: tuple[RowsFile, ...] = ()


@record
class LogDecider:
    """Has tasks decide what a log makes of a state.

    Args:
        runner: who works.
        catalog: the schema.
        scratch: where the rows are.
        types: what was read of each type.
        places: what row numbers stand for.
        on_delete: what becomes of the edges of deleted nodes.
        settings: how large pieces are.
        keeps_edges: tables of node types whose deletes take no edges with them, whatever ``on_delete`` says.
        memory: what the stream remembers; None where no row has a sequence.
        unordered: the source of rows that have no sequence of their own.
    """

    runner: Runner
    catalog: Catalog
    scratch: ScratchPlace
    types: Mapping[str, LoadedType]
    places: Places
    on_delete: OnDelete
    settings: SparkLoadSettings
    keeps_edges: frozenset[str] = frozenset()
    memory: StreamMemory | None = None
    unordered: int | None = None

    def mixed_sequences(self) -> list[Violation]:
        """Return the first row of each type whose sequence cannot be compared with those before it."""
        found = []
        for loaded in self.types.values():
            firsts = sorted((row, kind) for kind, row in loaded.kinds.items())
            if len(firsts) > 1:
                (_, usual), (row, other) = firsts[:2]
                name, line = self.places.of(row)
                text = (
                    f"the row has {SEQUENCE_KINDS[other]}, rows of {loaded.owner.name} before it"
                    f" {SEQUENCE_KINDS[usual]}"
                )
                found.append(
                    Violation(
                        rule="sequence",
                        type_name=loaded.owner.name,
                        message=text,
                        property="_seq",
                        source=name,
                        line=line,
                    )
                )
            elif self.memory is not None and firsts:
                row, kind = firsts[0]
                name, line = self.places.of(row)
                owner, memory = loaded.owner, self.memory
                wrong = other_kind(memory.known, memory.reader, owner.table_key, owner.name, (kind, line or 0))
                found += [] if wrong is None else [replace(wrong, line=line).violation(name)]
        return found

    def remember(self, added: Sequence[RowsFile]) -> tuple[SequenceMark, ...]:
        """Have tasks write the runs of what was added, and merge small ones; return what the commit says of it."""
        if self.memory is None or not added:
            return ()
        place = self.memory.reader.place
        groups = group_files(added, rows=MAX_RUN_ROWS, size_bytes=_EVERY)
        written = self.runner.run(partial(write_run, self.scratch, place), groups, "write the applied sequences")

        def merge(runs: tuple[SequenceRun, ...]) -> SequenceRun:
            (merged,) = self.runner.run(partial(merge_into_one, place), [runs], "merge the applied sequences")
            return merged

        kinds = {table: kind for _, told in written for table, kind in told.items()}
        return (self.memory.settled(tuple(run for run, _ in written), kinds, merge),)

    def decide(self, state: PinnedState) -> LogChange:
        """Fold the rows and compare them with what is stored.

        Raises:
            SparkJobError: a job failed for a reason of its own.
        """
        nodes = {key for key, loaded in self.types.items() if isinstance(loaded.owner, NodeType)} - self.keeps_edges
        order = LogOrder(
            catalog=self.catalog,
            scratch=self.scratch,
            state=state,
            places=self.places,
            reader=None if self.memory is None else self.memory.reader,
            mortal=frozenset(nodes if self.on_delete == "cascade" else ()),
            unordered=self.unordered,
            edges={key: loaded.aside for key, loaded in self.types.items() if isinstance(loaded.owner, EdgeType)},
        )
        if self.on_delete == "cascade":
            order = replace(order, deaths=self._find_deaths(order))
        groups = [(key, group) for key, loaded in self.types.items() for group in self._ranges(loaded)]
        folded = self.runner.run(partial(fold_rows, order), groups, "fold the rows of the log")
        tables: dict[str, TableFiles] = {}
        counts: dict[str, ChangeCounts] = {}
        for (key, _), one in zip(groups, folded, strict=True):
            tables[key] = tables.get(key, TableFiles()).plus(one.files)
            counts[key] = counts.get(key, ChangeCounts()) + one.counts
        edges = [edge for edge in self.catalog.edges.values() if {edge.from_type, edge.to_type} & order.deaths.keys()]
        tasks = [(edge.table_key, self._named(edge.table_key)) for edge in edges]
        found = self.runner.run(partial(find_cascaded, order), tasks, "find the edges of deleted nodes")
        for (key, _), gone in zip(tasks, found, strict=True):
            if gone is not None:
                tables[key] = tables.get(key, TableFiles()).plus(TableFiles(deletes=(gone,)))
                counts[key] = counts.get(key, ChangeCounts()) + ChangeCounts(cascaded=gone.rows)
        return LogChange(
            tables={key: files for key, files in sorted(tables.items()) if not files.is_empty},
            counts=sum(counts.values(), ChangeCounts()),
            by_table=counts,
            reads=tuple(dict.fromkeys([*self.types, *(key for key, _ in tasks)])),
            problems=tuple(problem for one in folded for problem in one.problems),
            added=tuple(one.added for one in folded if one.added is not None),
        )

    def judge(self, decided: LogChange, state: PinnedState, limit: int) -> Violations:
        """Have one task ask the rules about what is to be written."""
        order = LogOrder(catalog=self.catalog, scratch=self.scratch, state=state, places=self.places)
        settings = self.settings
        task = JudgeTask(
            tables=decided.tables, limit=limit, kernel=settings.rules.kernel, memory_bytes=settings.flush_bytes
        )
        (found,) = self.runner.run(partial(judge_log, order), [task], "check the rules of the schema")
        return found

    def _find_deaths(self, order: LogOrder) -> DeathFiles:
        nodes = [
            loaded
            for key, loaded in self.types.items()
            if isinstance(loaded.owner, NodeType) and loaded.deletes and key not in self.keeps_edges
        ]
        tasks = [(loaded.owner.name, group) for loaded in nodes for group in self._groups(loaded)]
        names = self.runner.run(partial(write_deaths, order), tasks, "find the nodes that are deleted")
        found: dict[str, tuple[str, ...]] = {}
        for (name, _), file in zip(tasks, names, strict=True):
            if file is not None:
                found[name] = (*found.get(name, ()), file)
        return found

    def _groups(self, loaded: LoadedType) -> list[tuple[RowsFile, ...]]:
        return group_files(loaded.aside, rows=self.settings.merge_rows, size_bytes=self.settings.flush_bytes)

    def _ranges(self, loaded: LoadedType) -> list[tuple[RowsFile, ...]]:
        """Return the rows in ranges of ids: all rows of an entity are in one of them."""
        groups = self._groups(loaded)
        if len(groups) <= 1:
            return groups
        settings = replace(self.settings, fragment_rows=self.settings.merge_rows)
        return cluster_rows(self.runner, self.scratch, loaded.aside, "id", settings)

    def _named(self, table_key: str) -> tuple[RowsFile, ...]:
        loaded = self.types.get(table_key)
        return () if loaded is None else loaded.aside


@record
class FoldedRows:
    """What became of the rows of a task, and the files of what is to be written and removed."""

    files: TableFiles
    counts: ChangeCounts
    problems: tuple[Violation, ...] = ()
    added: RowsFile | None = None


def write_run(
    scratch: ScratchPlace, place: SequencePlace, files: tuple[RowsFile, ...]
) -> tuple[SequenceRun, dict[str, int]]:
    """Write a run of what tasks have put down, and tell the kinds of its sequences."""
    rows = highest([_read_rows(scratch, files).cast(RUN_COLUMNS)])
    name = str(Runtime.system().ids.ulid())
    place.write(name, rows)
    return SequenceRun(name=name, rows=rows.num_rows), kinds_of(rows)


def merge_into_one(place: SequencePlace, runs: tuple[SequenceRun, ...]) -> SequenceRun:
    """Write one run in the place of several."""
    return merge_runs(place, str(Runtime.system().ids.ulid()), runs)


def write_deaths(order: LogOrder, task: tuple[str, tuple[RowsFile, ...]]) -> str | None:
    """List the deletes among some rows; None when there are none."""
    rows = _read_rows(order.scratch, task[1]).select(["id", f"{MARK}op", f"{MARK}seq", f"{MARK}kind"])
    found = find_deaths(rows)
    if found is not None and order.reader is not None:
        found = new_deaths(order.reader, f"node:{task[0]}", found)
    if found is None:
        return None
    name = f"deaths/{Runtime.system().ids.ulid()}"
    kinds = pa.array(np.full(len(found.ids), found.kind, dtype=np.int8))
    order.scratch.put(name, pa.table({"id": found.ids, "seq": pa.array(found.seqs), "kind": kinds}))
    return name


def fold_rows(order: LogOrder, task: tuple[str, tuple[RowsFile, ...]]) -> FoldedRows:
    """Fold the rows of a range of ids and write down what becomes of it."""
    table_key, group = task
    owner, view = order.owner(table_key), order.view()
    rows = _read_rows(order.scratch, group)
    rows = rows.take(pc.sort_indices(rows.column(ROW)))
    sources, lines = row_sources(rows.column(ROW).to_numpy())
    rows = rows.append_column(SOURCE, pa.array(sources, pa.int32())).append_column(LINE, pa.array(lines))
    deaths = order.deaths_of(owner) if isinstance(owner, EdgeType) else {}
    counts, added = ChangeCounts(), None
    if order.reader is None or not rows.num_rows or rows.column(f"{MARK}kind")[0].as_py() == NO_SEQUENCE:
        log = TypeLog(owner, rows, deaths)
    else:
        is_ordered = np.ones(len(sources), dtype=bool) if order.unordered is None else sources != order.unordered
        fresh = fresh_rows(order.reader, table_key, rows, takes_edges=table_key in order.mortal, is_ordered=is_ordered)
        if isinstance(owner, NodeType):
            fresh = without_outlived(fresh, _newest_edges(order, owner, order.reader, view))
        log = ordered_log(owner, fresh, order.reader, deaths)
        counts = ChangeCounts(rows=fresh.late, superseded=fresh.late)
        if fresh.added.num_rows:
            added = _put_file(order.scratch, table_key, "sequences", fresh.added)
    files = TableFiles()
    problems: list[Violation] = []
    for part in log.settle(lambda _, ids, columns: view.rows_of(table_key, ids, columns)):
        for source, problem in part.problems:
            place = order.places.at(source, problem.line or 0)
            problems.append(replace(problem, line=place[1]).violation(place[0]))
        files = files.plus(_put(order.scratch, table_key, part))
        counts += part.counts
    return FoldedRows(files=files, counts=counts, problems=tuple(problems), added=added)


def find_cascaded(order: LogOrder, task: tuple[str, tuple[RowsFile, ...]]) -> RowsFile | None:
    """List the stored edges of a type that go with their nodes, but for those that the log names."""
    table_key, group = task
    edge, view = order.catalog.edges[table_key.partition(":")[2]], order.view()
    finder = Cascade(
        nodes=order.catalog.nodes,
        deaths=order.deaths_of(edge),
        edges_at=partial(_edges_at, view),
        stored_rows=lambda _, ids, columns: view.rows_of(table_key, ids, columns),
        known=None if order.reader is None else known_edges(order.reader),
    )
    gone = finder.of(edge, _named(order, table_key, group))
    return None if not len(gone) else _put_file(order.scratch, table_key, "deletes", pa.table({"id": gone}))


def _edges_at(view: GraphView, edge: EdgeType, node: NodeType, ids: pa.Array) -> pa.Table:
    columns = [column for column, name in edge_ends(edge) if name == node.name]
    return pa.concat_tables([view.rows_where(edge.table_key, one, ids, ["id"]) for one in columns])


def _newest_edges(order: LogOrder, node: NodeType, reader: SequenceReader, view: GraphView) -> NewestEdges:
    def rows_of(edge: EdgeType) -> Iterator[pa.Table]:
        for file in order.edges.get(edge.table_key, ()):
            for batch in order.scratch.read_arrow(file.name):
                yield pa.Table.from_batches([batch]).select(EDGE_COLUMNS)

    return NewestEdges(
        node=node,
        edges=order.catalog.edges,
        reader=reader,
        edges_at=partial(_edges_at, view),
        stored_rows=lambda edge, ids, columns: view.rows_of(edge.table_key, ids, columns),
        rows_of=rows_of,
    )


def _named(order: LogOrder, table_key: str, group: Sequence[RowsFile]) -> pa.Array:
    """Return the ids that a log names with a row that is not late."""
    columns = ["id", f"{MARK}seq", f"{MARK}kind"]
    batches = [batch.select(columns) for file in group for batch in order.scratch.read_arrow(file.name)]
    if not batches:
        return pa.array([], pa.string())
    rows = pa.Table.from_batches(batches)
    if order.reader is not None and rows.num_rows and rows.column(f"{MARK}kind")[0].as_py() != NO_SEQUENCE:
        rows = fresh_rows(order.reader, table_key, rows).rows
    return one_array(pc.unique(rows.column("id")))


@record
class JudgeTask:
    """What is to be written, by table, and how many violations are described."""

    tables: Mapping[str, TableFiles]
    limit: int
    kernel: KernelSettings
    memory_bytes: int


def judge_log(order: LogOrder, task: JudgeTask) -> Violations:
    """Return what the graph would break; rows beyond a budget lie in temporary files of the task."""
    with open_spool(task.memory_bytes, Runtime.system().failpoints) as spool:
        types = {}
        for key, files in task.tables.items():
            owner = order.owner(key)
            ids = [one_array(_read_rows(order.scratch, [file]).column("id")) for file in files.deletes]
            for file in (*files.inserts, *files.updates):
                spool.add(owner, _read_rows(order.scratch, [file]), has_fresh_ids=False)
            none = TypeOutcome.nothing(owner)
            rows, places = none.inserts, none.places
            if key in spool.owners:
                found = spool.table(key)
                places = _placed(order.places, found.column(ROW).to_numpy(), places.schema)
                rows = found.drop_columns([ROW]).cast(arrow_schema(owner))
            deletes = pa.concat_arrays([none.deletes, *ids])
            types[key] = replace(none, inserts=rows, places=places, deletes=deletes).change(owner)
        change = GraphChange(types=types, sources=order.places.names)
        return find_violations(change, order.view(), min(task.limit, _EVERY), settings=task.kernel)


def _read_rows(scratch: ScratchPlace, files: Iterable[RowsFile]) -> pa.Table:
    return pa.Table.from_batches([batch for file in files for batch in scratch.read_arrow(file.name)])


def _read_deaths(scratch: ScratchPlace, names: Sequence[str]) -> Deaths | None:
    found = pa.Table.from_batches([batch for name in names for batch in scratch.read_arrow(name)])
    if not found.num_rows:
        return None
    seqs = found.column("seq").to_numpy()
    return Deaths(ids=one_array(found.column("id")), seqs=seqs, kind=int(found.column("kind")[0].as_py()))


def _placed(places: Places, rows: np.ndarray[tuple[int], np.dtype[np.int64]], schema: pa.Schema) -> pa.Table:
    sources, lines = row_sources(rows)
    if places.offsets:
        lines = lines + np.asarray(places.offsets, dtype=np.int64)[sources]
    return pa.table([pa.array(sources, pa.int32()), pa.array(lines)], schema=schema)


def _put(scratch: ScratchPlace, table_key: str, part: TypeOutcome) -> TableFiles:
    sources, lines = (part.places.column(name).to_numpy() for name in ("source", "line"))
    numbers = row_places(sources, lines)
    count = part.inserts.num_rows
    found: dict[str, tuple[RowsFile, ...]] = {}
    for kind, rows in (
        ("inserts", part.inserts.append_column(ROW, pa.array(numbers[:count]))),
        ("updates", part.updates.append_column(ROW, pa.array(numbers[count:]))),
        ("deletes", pa.table({"id": part.deletes})),
    ):
        if rows.num_rows:
            found[kind] = (_put_file(scratch, table_key, kind, rows),)
    return TableFiles(**found)


def _put_file(scratch: ScratchPlace, table_key: str, kind: str, rows: pa.Table) -> RowsFile:
    name = f"decided/{Runtime.system().ids.ulid()}-{kind}"
    scratch.put(name, rows)
    return RowsFile(table_key=table_key, name=name, rows=rows.num_rows, size_bytes=rows.nbytes)
