"""Every kind of writer, each with a graph to write to and one write that a crash can hit anywhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.catalog import assign_identities, compile_schema
from omnigraph.engine.maintenance.auto import MaintenanceSettings
from omnigraph.engine.maintenance.cleanup import Cleanup
from omnigraph.engine.maintenance.migrate import Migration
from omnigraph.engine.maintenance.optimize import Optimization
from omnigraph.engine.maintenance.planning import LocalRunner
from omnigraph.engine.maintenance.retention import Retention
from omnigraph.lang.pg import parse_schema
from omnigraph.runtime import Runtime
from omnigraph.store.location import Storage
from omnigraph.store.staging import IndexBuild
from omnigraph.store.tables.portable import TableTicket, carried_fragments, write_fragments_for
from omnigraph.txn.changes import (
    IndexBuilds,
    TableAlter,
    TableDrop,
    TableRegister,
    TableReplace,
    WrittenRows,
)
from omnigraph.txn.graph_store import GraphStore
from omnigraph.txn.manifest.rows import AcceptedSchema
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.values import MAIN, BranchName
from tests.txn_graph import (
    EDGE_SCHEMA,
    KNOWS,
    NODE_SCHEMA,
    PERSON,
    RELAXED,
    SCHEMA,
    TEAM,
    authority_of,
    edge_rows,
    history,
    init_graph,
    insert,
    node_rows,
    open_graph,
    registrations,
)

ACTOR = "crash-test"
CITY = "node:City"
GROUP = "node:Group"
DRAFT = "draft"


@dataclass(frozen=True, kw_only=True)
class WriterKind:
    """One kind of write.

    Args:
        name: what the cases are called.
        commits: how many table commits phase B makes; a plan without any is finished by its publish alone.
        write: the write, on an open graph.
        branch: the branch it goes to.
    """

    name: str
    commits: int
    write: Callable[[GraphStore], object]
    branch: str = MAIN

    def prepare(self, root: str, options: dict[str, str] | None) -> Storage:
        """Make the graph that the write will change."""
        storage = init_graph(root, options)
        with open_graph(storage) as graph:
            for name in ("a", "b", "c"):
                insert(graph, PERSON, node_rows([name]))
            insert(graph, TEAM, node_rows(["t"]))
            insert(graph, KNOWS, edge_rows([("ab", "a", "b"), ("bc", "b", "c")]))
            if self.branch != MAIN or self.name == "branch_merge":
                graph.create_branch(BranchName(DRAFT))
            if self.name in {"branch_write_and_fork", "branch_merge"}:
                insert(graph, PERSON, node_rows(["drafted"]), branch=DRAFT)
        return storage

    def open(self, storage: Storage, *, runtime: Runtime | None = None, mode: str = "read_write") -> GraphStore:
        """Open the graph as this kind of writer does."""
        return open_graph(storage, runtime=runtime, mode=mode)

    def run(self, storage: Storage, runtime: Runtime) -> None:
        """Open the graph, write, and close it."""
        with self.open(storage, runtime=runtime) as graph:
            self.write(graph)


def _txn(graph, kind, branch=MAIN, **begin):
    branch_writer = authority_of(graph, branch)
    return branch_writer, branch_writer.begin(kind, actor=ACTOR, **begin)


def _insert_one(graph):
    insert(graph, PERSON, node_rows(["new"]), actor=ACTOR)


def _insert_three(graph):
    branch_writer, txn = _txn(graph, WriteKind.INSERT)
    txn.insert(PERSON, node_rows(["new"]))
    txn.insert(TEAM, node_rows(["new"]))
    txn.insert(KNOWS, edge_rows([("new", "a", "new")]), has_fresh_ids=True)
    branch_writer.commit(txn)


def _mutate(graph):
    branch_writer, txn = _txn(graph, WriteKind.MUTATE)
    txn.upsert(PERSON, node_rows(["a", "new"], value=5))
    txn.delete(PERSON, ["b"])
    txn.delete(KNOWS, ["ab", "bc"])
    txn.upsert(TEAM, node_rows(["t"], value=7))
    branch_writer.commit(txn)


def _load_append(graph):
    branch_writer, txn = _txn(graph, WriteKind.LOAD_APPEND)
    txn.insert(PERSON, node_rows([f"loaded{number}" for number in range(50)]))
    txn.insert(KNOWS, edge_rows([("loaded", "a", "c")]))
    branch_writer.commit(txn)


def _load_merge(graph):
    branch_writer, txn = _txn(graph, WriteKind.LOAD_MERGE)
    txn.upsert(PERSON, node_rows(["a", "b", "merged"], value=2))
    txn.upsert(TEAM, node_rows(["merged"]))
    branch_writer.commit(txn)


def _load_overwrite(graph):
    branch_writer, txn = _txn(graph, WriteKind.LOAD_OVERWRITE)
    txn.change(TableReplace(table_key=PERSON, rows=node_rows(["only"])))
    txn.change(TableReplace(table_key=KNOWS, rows=edge_rows([])))
    branch_writer.commit(txn)


def _overwrite_by_nothing(graph):
    branch_writer, txn = _txn(graph, WriteKind.LOAD_OVERWRITE)
    txn.change(TableReplace(table_key=TEAM, rows=node_rows([])))
    branch_writer.commit(txn)


def _written_rows(graph):
    branch_writer, txn = _txn(graph, WriteKind.LOAD_MERGE)
    people = branch_writer.prepare(txn, PERSON)
    ticket = TableTicket(storage=graph.tables.datasets.storage, pin=people)
    found = ticket.open().lookup(["a", "c"], ())
    rows = pa.concat_tables([node_rows(found["id"].to_pylist(), value=4), node_rows(["new"])])
    fragments = tuple(carried_fragments(ticket, rows, found["_rowid"].to_numpy()))
    owners = tuple((found["_rowaddr"].to_numpy() >> 32).tolist())
    txn.change(WrittenRows(table_key=PERSON, base=people, fragments=fragments, removed=owners))
    teams = branch_writer.prepare(txn, TEAM)
    ticket = TableTicket(storage=ticket.storage, pin=teams)
    fragments = tuple(write_fragments_for(ticket, node_rows(["new"])))
    txn.change(WrittenRows(table_key=TEAM, base=teams, fragments=fragments))
    branch_writer.commit(txn)


def _schema_apply(graph, *, with_rows=False):
    branch_writer, txn = _txn(graph, WriteKind.SCHEMA_APPLY)
    rows = node_rows(["rome"])
    txn.change(TableRegister(table_key=CITY, object_id="7", folder="nodes", schema=NODE_SCHEMA, rows=rows))
    txn.change(TableDrop(table_key=KNOWS))
    txn.set_schema(AcceptedSchema(source="node City {}", compiled="{}", hash="sha256:1"))
    if with_rows:
        txn.upsert(PERSON, node_rows(["a"], value=9))
    branch_writer.commit(txn)


def _schema_apply_with_rows(graph):
    _schema_apply(graph, with_rows=True)


def _schema_alter(graph):
    branch_writer, txn = _txn(graph, WriteKind.SCHEMA_APPLY)
    columns = pa.schema([NODE_SCHEMA.field("id"), pa.field("worth", pa.int64(), nullable=False), ("note", pa.string())])
    txn.change(
        TableAlter(table_key=TEAM, new_key=GROUP, schema=columns, origins={"id": "id", "worth": "value"}),
    )
    kept = {name: name for name in EDGE_SCHEMA.names}
    since = pa.field("since", pa.date32(), nullable=False)
    fills = {"since": pa.scalar(1, pa.int32()).cast(pa.date32())}
    txn.change(TableAlter(table_key=KNOWS, schema=EDGE_SCHEMA.append(since), origins=kept, fills=fills))
    txn.set_schema(AcceptedSchema(source="node Group {}", compiled="{}", hash="sha256:2"))
    branch_writer.commit(txn)


def _ensure_indices(graph):
    branch_writer, txn = _txn(graph, WriteKind.ENSURE_INDICES)
    for table_key in (PERSON, TEAM):
        build = IndexBuild(column="id", kind="btree", name="id_btree")
        txn.change(IndexBuilds(table_key=table_key, builds=(build,)))
    branch_writer.commit(txn)


def _optimize(graph):
    runner = LocalRunner(graph.tables.datasets.storage, 1)
    return Optimization(authority_of(graph), _catalog_of, runner, actor=ACTOR).run()


def _branch_write(graph):
    branch_writer, txn = _txn(graph, WriteKind.INSERT, branch=DRAFT)
    txn.insert(PERSON, node_rows(["new"]))
    txn.insert(TEAM, node_rows(["new"]))
    branch_writer.commit(txn)


def _branch_merge(graph):
    branch_writer, txn = _txn(graph, WriteKind.BRANCH_MERGE, merged_parent=history(graph, DRAFT)[0].id)
    txn.upsert(PERSON, node_rows(["drafted"]))
    txn.delete(KNOWS, ["ab"])
    branch_writer.commit(txn)


def _group(graph):
    branch_writer, first = _txn(graph, WriteKind.INSERT)
    _, second = _txn(graph, WriteKind.INSERT)
    first.insert(PERSON, node_rows(["first"]))
    second.insert(PERSON, node_rows(["second"]))
    second.insert(TEAM, node_rows(["second"]))
    # What the queue hands over when two writers wait; handing it over here needs no second thread.
    for outcome in branch_writer._run([first, second]):
        if isinstance(outcome, BaseException):
            raise outcome


KINDS = {
    kind.name: kind
    for kind in (
        WriterKind(name="insert", commits=1, write=_insert_one),
        WriterKind(name="insert_three_tables", commits=3, write=_insert_three),
        WriterKind(name="mutate", commits=3, write=_mutate),
        WriterKind(name="load_append", commits=2, write=_load_append),
        WriterKind(name="load_merge", commits=2, write=_load_merge),
        WriterKind(name="load_overwrite", commits=2, write=_load_overwrite),
        WriterKind(name="overwrite_by_nothing", commits=1, write=_overwrite_by_nothing),
        WriterKind(name="written_rows", commits=2, write=_written_rows),
        WriterKind(name="schema_apply", commits=0, write=_schema_apply),
        WriterKind(name="schema_apply_with_rows", commits=1, write=_schema_apply_with_rows),
        WriterKind(name="schema_alter", commits=2, write=_schema_alter),
        WriterKind(name="ensure_indices", commits=2, write=_ensure_indices),
        WriterKind(name="optimize", commits=3, write=_optimize),
        WriterKind(name="branch_fork", commits=0, write=_branch_write, branch=DRAFT),
        WriterKind(name="branch_write_and_fork", commits=1, write=_branch_write, branch=DRAFT),
        WriterKind(name="branch_merge", commits=2, write=_branch_merge),
        WriterKind(name="group", commits=2, write=_group),
    )
}


def initialise(storage: Storage, runtime: Runtime) -> None:
    """Create a graph; not a writer kind, since there is nothing yet that a crash could leave half changed."""
    GraphStore.init(storage, schema=SCHEMA, tables=registrations(), settings=RELAXED, runtime=runtime)


def delete_branch(storage: Storage, runtime: Runtime) -> None:
    """Delete a branch; its claim publishes nothing, so that it is no kind of writer."""
    with open_graph(storage, runtime=runtime) as graph:
        graph.delete_branch(BranchName(DRAFT), actor=ACTOR)


def create_branch(storage: Storage, runtime: Runtime) -> None:
    """Create a branch; it has no claim and no plan, only a moment before and a moment after its ref."""
    with open_graph(storage, runtime=runtime) as graph:
        graph.create_branch(BranchName(DRAFT))


def migrate(storage: Storage, runtime: Runtime):
    """Raise the format of every branch, each by a claim of its own; return what was done."""
    with open_graph(storage, runtime=runtime) as graph:
        return Migration(graph, actor=ACTOR).run()


def clean_up(storage: Storage, runtime: Runtime):
    """Remove all but the newest states; it publishes versions without commits, so that it is no kind of writer."""
    with open_graph(storage, runtime=runtime) as graph:
        settings = MaintenanceSettings(threads=1, unnamed_age_s=0, settle_s=0)
        return Cleanup(graph, Retention(keep=1), settings, runtime).run()


def optimize(storage: Storage, runtime: Runtime):
    """Compact every table and index its values; return what was done."""
    with open_graph(storage, runtime=runtime) as graph:
        return _optimize(graph)


def _catalog_of(_schema):
    return assign_identities(
        compile_schema(parse_schema("node Person { value: I64 @index }\nnode Team { value: I64 @index }")), "0" * 26
    )
