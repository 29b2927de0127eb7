"""Buckets: the keys of a large change and of what it meets, put by a hash where one task finds all it has to compare.

A rule compares keys in one column: ids, ends of edges, values that must be unique. So tasks put the keys of written and
of stored rows into buckets by each such column, and one task judges each bucket, all rules of it. Two facts belong to
the id of a row and are needed where it is in a bucket by another column: that a later row of the same id replaces it,
and that it is a stored one which a written row replaces. The buckets by id find them and hand them on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.comparison import one_array
from omnigraph.engine.relational import open_connection
from omnigraph.engine.scratch import ScratchFolder
from omnigraph.errors import JobFault, SparkJobError
from omnigraph.records import record
from omnigraph.runtime import Runtime
from omnigraph.spark.keys import ROW, columns_read, key_column, keys_schema
from omnigraph.spark.rules.change import ChangeKeys, RuleSettings, StoredRelation, TypeKeys
from omnigraph.spark.rules.checks import checks_of
from omnigraph.spark.rules.engine import DuckRules
from omnigraph.spark.rules.relations import RuleRelations, bind
from omnigraph.spark.rules.verdict import (
    IdFindings,
    Question,
    RuleFindings,
    Verdict,
    ask_rules,
    look_at_ids,
    verdict_of,
)
from omnigraph.spark.runner import Runner
from omnigraph.store.scratch import ScratchPlace
from omnigraph.store.tables.portable import TableTicket, fragment_sizes, read_fragments

# Keys of one table, written or stored, in buckets by one column.
Split = tuple[str, bool, str]
_WRITTEN, _STORED = False, True
_NUMBERS = "SELECT CASE WHEN i.`value` IS NULL THEN -1 ELSE hash(i.`value`) % {count} END::BIGINT FROM `incoming` i"
_PROBE = "SELECT hash('omnigraph')"
_SUPERSEDED = "SELECT k.* FROM `keys` k WHERE EXISTS (SELECT 1 FROM `rows` s WHERE s.`row` = k.`row`)"
_IDS = "SELECT DISTINCT k.`id` AS `value` FROM `keys` k"
_EVERY = "SELECT s.* FROM `some` s"
_HASH_BYTES = 256 << 20


class Needs:
    """Notes what the rules will ask of an engine, if as much as possible is wrong with a change."""

    def __init__(self, change: ChangeKeys) -> None:
        self._change = change
        # The columns that each split carries, but for ``row`` and its own.
        self.splits: dict[Split, set[str]] = {}
        # The columns by which facts about ids are asked for.
        self.routes: dict[tuple[str, bool], set[str]] = {}
        for _ in checks_of(RuleRelations(change=change, engine=self)):
            pass
        for key, keys in change.types.items():
            if keys.has_fresh_ids:
                continue
            self.written(keys, ("id", *self.routes.get((key, _WRITTEN), ())), "id")
            if keys.strict:
                self.stored(StoredRelation(type=keys.type))
            for column in self.routes.get((key, _STORED), ()):
                self.stored(StoredRelation(type=keys.type, column=column))

    def written(self, keys: TypeKeys, columns: Sequence[str], by: str) -> str:
        """Note that keys are needed."""
        self.splits.setdefault((keys.type.table_key, _WRITTEN, by), {"id"}).update(columns)
        return "keys"

    def stored(self, wanted: StoredRelation) -> str | None:
        """Note that stored keys are needed, if there are any."""
        ticket = self._change.tables.get(wanted.type.table_key)
        if ticket is None or not ticket.open().row_count:
            return None
        columns = () if wanted.column is None else (wanted.column,)
        self.splits.setdefault((wanted.type.table_key, _STORED, wanted.near), {"id"}).update(columns)
        return "stored"

    def has_repeated_ids(self, keys: TypeKeys) -> bool:
        """Expect that they have."""
        return not keys.has_fresh_ids

    def superseded(self, keys: TypeKeys, by: str) -> str | None:
        """Note that it has to be known which rows later ones replace."""
        if not keys.has_fresh_ids and by != "id":
            self.routes.setdefault((keys.type.table_key, _WRITTEN), set()).add(by)
        return "superseded"

    def replaced(self, keys: TypeKeys, by: str) -> str | None:
        """Note that it has to be known which stored rows are replaced."""
        self.routes.setdefault((keys.type.table_key, _STORED), set()).add(by)
        return "replaced"

    def left(self, keys: TypeKeys) -> str | None:
        """Note that it has to be known which stored edges are replaced."""
        return self.replaced(keys, "src")

    def define(self, text: str, *, is_reused: bool = False) -> str:  # noqa: ARG002 - nothing is run
        """Return a name."""
        return "defined"

    def rows(self, text: str, *, asks: str, limit: int | None = None) -> Iterator[tuple[Any, ...]]:  # noqa: ARG002 - see above
        """Expect that something is found."""
        yield ()

    def save(self, text: str, name: str) -> None:
        """Do nothing."""


@record
class Buckets:
    """A change in buckets. It can be pickled, and holds no key.

    Args:
        change: the change.
        settings: what a task may use.
        count: how many buckets there are.
        columns: what each split carries.
        files: by split, the scratch objects that hold its keys, a piece for each bucket.
        routes: the columns by which facts about ids are asked for, by table, of written and of stored rows.
        facts: by split, the scratch objects with written rows that are superseded, and stored ones that are replaced.
    """

    change: ChangeKeys
    settings: RuleSettings
    count: int
    columns: Mapping[Split, tuple[str, ...]]
    files: Mapping[Split, tuple[str, ...]]
    routes: Mapping[tuple[str, bool], tuple[str, ...]]
    facts: Mapping[Split, tuple[str, ...]] = field(default_factory=dict)


@record
class SplitTask:
    """Keys that one task puts into buckets: some keys files, or some fragments of a table."""

    owner: NodeType | EdgeType
    splits: Mapping[Split, tuple[str, ...]]
    count: int
    scratch: ScratchPlace
    files: tuple[str, ...] = ()
    ticket: TableTicket | None = None
    fragments: tuple[int, ...] = ()


@record
class SplitFiles:
    """What a task wrote, by split; ``probe`` is the hash of a word that every task has to agree on."""

    files: Mapping[Split, str]
    probe: int


def judge_in_buckets(
    change: ChangeKeys, runner: Runner, question: Question, settings: RuleSettings, count: int
) -> Verdict:
    """Return what the embedded path would say about a change, judged in so many buckets.

    Raises:
        MemoryBudgetError: a bucket is too large to be checked within the settings.
        SparkJobError: the work failed for another reason than the change.
    """
    buckets = _split(change, runner, settings, count)
    numbers = range(count)
    looked = runner.run(partial(look_at_bucket, buckets, question), numbers, "check the ids of the rows")
    ids = [one for one, _ in looked]
    rules: list[RuleFindings] = []
    if not any(one.taken for one in ids):
        known = replace(buckets, facts=_together(facts for _, facts in looked))
        rules = runner.run(partial(judge_bucket, known, question), numbers, "check the rules about sets of rows")
    return verdict_of(change, question, ids, rules)


def split_keys(task: SplitTask) -> SplitFiles:
    """Put the keys of a task into buckets, by each column that is asked for."""
    rows = _written_keys(task) if task.ticket is None else _stored_keys(task, task.ticket)
    with _Sorter(task.scratch, task.count) as sorter:
        files = {split: sorter.write(rows, split[2], columns) for split, columns in task.splits.items()}
        return SplitFiles(files=files, probe=sorter.probe())


def look_at_bucket(buckets: Buckets, question: Question, number: int) -> tuple[IdFindings, dict[Split, str]]:
    """Look at the ids of a bucket and write down what buckets by other columns have to know."""
    bucket = Bucket(buckets, number)
    with DuckRules(buckets.change, bucket, buckets.settings.kernel) as engine:
        found = look_at_ids(RuleRelations(change=buckets.change, engine=engine), question)
        facts: dict[Split, str] = {}
        if found.taken:
            return found, facts
        for (key, is_stored), columns in buckets.routes.items():
            keys = buckets.change.types[key]
            rows = _replaced(engine, bucket, keys, columns) if is_stored else _superseded(engine, keys)
            if rows is None or not rows.num_rows:
                continue
            with _Sorter(buckets.change.scratch, buckets.count) as sorter:
                for by in columns:
                    facts[key, is_stored, by] = sorter.write(rows, by, ("id", by) if is_stored else (ROW,))
        return found, facts


def judge_bucket(buckets: Buckets, question: Question, number: int) -> RuleFindings:
    """Return what the rules find in a bucket."""
    with DuckRules(buckets.change, Bucket(buckets, number), buckets.settings.kernel) as engine:
        return ask_rules(RuleRelations(change=buckets.change, engine=engine), question)


class Bucket:
    """The keys of one bucket, for the engine."""

    def __init__(self, buckets: Buckets, number: int) -> None:
        self._buckets = buckets
        self._number = number

    def name_of(self, by: str) -> str:
        """Return the column: by each there are other rows."""
        return by

    def written(self, keys: TypeKeys, by: str) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
        """Return the keys of a type."""
        split = keys.type.table_key, _WRITTEN, by
        whole = keys_schema(keys.type)
        schema = pa.schema([whole.field(name) for name in self._buckets.columns[split]])
        return schema, self._pieces(self._buckets.files.get(split, ()))

    def has_stored(self, wanted: StoredRelation) -> bool:
        """Whether the table has rows, perhaps of other buckets."""
        return (wanted.type.table_key, _STORED, wanted.near) in self._buckets.files

    def scan(self, wanted: StoredRelation) -> Iterable[pa.RecordBatch]:
        """Stream the stored keys."""
        names = ["id", *(() if wanted.column is None else (wanted.column,))]
        for piece in self._pieces(self._buckets.files[wanted.type.table_key, _STORED, wanted.near]):
            yield piece.select(names).rename_columns(list(wanted.names))

    def stored_keys(self, keys: TypeKeys, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Stream columns of the stored keys that are in the bucket by ``id``."""
        for piece in self._pieces(self._buckets.files[keys.type.table_key, _STORED, "id"]):
            yield piece.select(list(names))

    def look_up(self, wanted: StoredRelation, values: pa.Array) -> None:
        """Return None: what is in a bucket has no index."""

    def superseded(self, keys: TypeKeys, by: str) -> Iterable[pa.RecordBatch] | None:
        """Return the ``row`` of rows that later ones replace."""
        return None if by == "id" else self._facts((keys.type.table_key, _WRITTEN, by), (ROW,))

    def replaced(self, keys: TypeKeys, by: str) -> Iterable[pa.RecordBatch]:
        """Return ``id`` and ``by`` of stored rows that are replaced."""
        return self._facts((keys.type.table_key, _STORED, by), ("id", by))

    def _facts(self, split: Split, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for piece in self._pieces(self._buckets.facts.get(split, ())):
            yield piece.select(list(names))

    def _pieces(self, files: Iterable[str]) -> Iterator[pa.RecordBatch]:
        for name in files:
            yield self._buckets.change.scratch.read_piece(name, self._number)


def _split(change: ChangeKeys, runner: Runner, settings: RuleSettings, count: int) -> Buckets:
    needs = Needs(change)
    columns = {
        split: tuple(dict.fromkeys([*(() if split[1] else (ROW,)), *sorted({split[2], *some})]))
        for split, some in needs.splits.items()
    }
    made = runner.run(split_keys, list(_tasks(change, columns, settings, count)), "put the keys into buckets")
    if len({one.probe for one in made}) > 1:
        details = JobFault(doing="put the keys into buckets", reason="hashes of one text differ")
        raise SparkJobError("the workers have different versions of duckdb", details=details)
    return Buckets(
        change=change,
        settings=settings,
        count=count,
        columns=columns,
        files=_together(one.files for one in made),
        routes={route: tuple(sorted(some)) for route, some in needs.routes.items()},
    )


def _tasks(
    change: ChangeKeys, columns: Mapping[Split, tuple[str, ...]], settings: RuleSettings, count: int
) -> Iterator[SplitTask]:
    tables = dict.fromkeys((key, is_stored) for key, is_stored, _ in columns)
    for key, is_stored in tables:
        kind, _, name = key.partition(":")
        owner = change.catalog.nodes[name] if kind == "node" else change.catalog.edges[name]
        splits = {split: some for split, some in columns.items() if split[:2] == (key, is_stored)}
        task = SplitTask(owner=owner, splits=splits, count=count, scratch=change.scratch)
        if is_stored:
            ticket = change.tables[key]
            for group in _grouped(fragment_sizes(ticket.open()), settings.split_rows):
                yield replace(task, ticket=ticket, fragments=group)
        else:
            for group in _grouped(((file.name, file.rows) for file in change.types[key].files), settings.split_rows):
                yield replace(task, files=group)


def _grouped(sized: Iterable[tuple[Any, int]], most: int) -> list[tuple[Any, ...]]:
    """Return things in groups of about ``most`` rows, in their order."""
    groups: list[list[Any]] = []
    room = 0
    for thing, rows in sized:
        if not groups or rows > room:
            groups.append([])
            room = most
        groups[-1].append(thing)
        room -= rows
    return [tuple(group) for group in groups]


def _together(found: Iterable[Mapping[Split, str]]) -> dict[Split, tuple[str, ...]]:
    files: dict[Split, tuple[str, ...]] = {}
    for one in found:
        for split, name in one.items():
            files[split] = (*files.get(split, ()), name)
    return files


def _written_keys(task: SplitTask) -> pa.Table:
    batches = [batch for name in task.files for batch in task.scratch.read_arrow(name)]
    return pa.Table.from_batches(batches, keys_schema(task.owner))


def _stored_keys(task: SplitTask, ticket: TableTicket) -> pa.Table:
    names = dict.fromkeys(name for columns in task.splits.values() for name in columns)
    columns = columns_read(task.owner, ("id", *names))
    rows = pa.Table.from_batches(read_fragments(ticket, task.fragments, columns))
    return pa.table({name: key_column(task.owner, rows, name).cast(pa.string()) for name in names})


class _Sorter:
    """Puts rows into buckets; every process has to do it alike."""

    def __init__(self, scratch: ScratchPlace, count: int) -> None:
        self._scratch = scratch
        self._count = count
        self._folder = ScratchFolder.make("buckets")
        # One thread keeps the order of rows.
        self._connection = open_connection(self._folder, memory_bytes=_HASH_BYTES, threads=1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
        self._folder.close()

    def probe(self) -> int:
        """Return the hash of a word."""
        ((found,),) = self._connection.execute(_PROBE).fetchall()
        return int(found)

    def write(self, rows: pa.Table, by: str, columns: Sequence[str]) -> str:
        """Write columns of rows to a scratch object, a piece for each bucket; rows without ``by`` are left out."""
        numbers = self._numbers(rows.column(by))
        order = np.argsort(numbers, kind="stable")
        ends = np.searchsorted(numbers[order], np.arange(self._count + 1))
        sorted_rows = rows.select(list(columns)).take(pa.array(order))
        pieces = (_one(sorted_rows.slice(ends[at], ends[at + 1] - ends[at])) for at in range(self._count))
        name = f"buckets/{Runtime.system().ids.ulid()}"
        self._scratch.write_pieces(name, pieces, sorted_rows.schema)
        return name

    def _numbers(self, column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
        self._connection.register("incoming", pa.table({"value": column}))
        try:
            found = self._connection.sql(_NUMBERS.replace("{count}", str(self._count))).to_arrow_table()
        finally:
            self._connection.unregister("incoming")
        numbers: npt.NDArray[np.int64] = found.column(0).to_numpy()
        return numbers


def _one(rows: pa.Table) -> pa.RecordBatch:
    return pa.record_batch([one_array(column) for column in rows.columns], schema=rows.schema)


def _superseded(engine: DuckRules, keys: TypeKeys) -> pa.Table | None:
    found = engine.superseded(keys, "id")
    if found is None:
        return None
    written = engine.written(keys, ("id",), "id")
    return engine.table(bind(_SUPERSEDED, keys=written, rows=found), asks="superseded")


def _replaced(engine: DuckRules, bucket: Bucket, keys: TypeKeys, columns: Sequence[str]) -> pa.Table | None:
    """Return ``id`` and other columns of the stored rows that rows of the change replace."""
    if not bucket.has_stored(StoredRelation(type=keys.type)):
        return None
    ids = engine.define(bind(_IDS, keys=engine.written(keys, ("id",), "id")), is_reused=True)
    names = ("id", *columns)
    schema = pa.schema([pa.field(name, pa.string()) for name in names])
    found = engine.take_in(schema, bucket.stored_keys(keys, names), "replaced", among=("id", ids))
    return engine.table(bind(_EVERY, some=found), asks="replaced")
