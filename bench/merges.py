"""How fast a merge is whose branch changed little of much, beside one that reads all of the three sides.

Each round forks a branch, changes a hundred edges on it and ten others on main, and merges it. The full scan makes
the same decisions and the same commit, but reads base, source and target completely to find them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from bench.generate import SCHEMA_PATH, SIZES, make_tables
from rich.table import Table
from tests.session import Session

from omnigraph.engine.equality import rows_equal
from omnigraph.engine.open_graph import init_graph
from omnigraph.history.diff.rows import TableDelta
from omnigraph.history.merge import merge_branch, preview_merge
from omnigraph.history.merge.three_way import merge_rows
from omnigraph.store.location import Storage
from omnigraph.store.staging import IndexBuild
from omnigraph.txn.changes import IndexBuilds, RowChange
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.values import MAIN, BranchName

KNOWS = "edge:Knows"
CHANGED, CHANGED_ON_MAIN = 100, 10
Answer = dict[str, float]
Merge = Callable[[Session, str], object]


def build_graph(root: Path, size_name: str) -> None:
    """Make a graph of persons who know each other, with an index on their ids."""
    tables = make_tables(SIZES[size_name])
    storage = Storage.open(str(root))
    init_graph(storage, SCHEMA_PATH.read_bytes())
    paths = []
    for name in ("Person", "Knows"):
        paths.append(root.parent / f"{name}.parquet")
        pq.write_table(tables[name], paths[-1])
    with Session.open(storage) as session:
        session.load([str(path) for path in paths])
        branch_writer = session.store.branch_writer(BranchName(MAIN))
        txn = branch_writer.begin(WriteKind.ENSURE_INDICES)
        for table_key in (KNOWS, "node:Person"):
            build = IndexBuild(column="id", kind="btree", name="id_idx")
            txn.change(IndexBuilds(table_key=table_key, builds=(build,)))
        branch_writer.commit(txn)


def measure(root: Path, rounds: int) -> Answer:
    """Return the median seconds of both ways to merge, and of looking only."""
    took: dict[str, list[float]] = {"merge": [], "full_scan": [], "preview": []}
    with Session.open(Storage.open(str(root))) as session:
        rows = session.snapshot().table(KNOWS).read(limit=500_000)
        for number in range(rounds):
            for name, merge in (("merge", merge_branch), ("full_scan", merge_by_full_scan)):
                branch = f"{name}-{number}"
                _change(session, branch, rows, number * 2 + (name == "merge"))
                if name == "merge":
                    took["preview"].append(_time_s(lambda branch=branch: preview_merge(session, branch)))
                took[name].append(_time_s(lambda merge=merge, branch=branch: merge(session, branch)))
    return {name: statistics.median(values) for name, values in took.items()}


def show(answer: Answer) -> Table:
    """Return the figures as a table."""
    table = Table("merge of a branch that changed 100 edges", "median ms")
    table.add_row("row differences of the branch", f"{answer['merge'] * 1000:.0f}")
    table.add_row("the same, looking only", f"{answer['preview'] * 1000:.0f}")
    table.add_row("full scan of the three sides", f"{answer['full_scan'] * 1000:.0f}")
    table.add_row("times faster than the full scan", f"{answer['full_scan'] / answer['merge']:.1f}")
    return table


def merge_by_full_scan(session: Session, source: str) -> None:
    """Merge a branch into main by reading all edges of base, source and target."""
    base_id = preview_base(session, source)
    base = session.store.snapshot_at(BranchName(MAIN), base_id)
    theirs = session.store.snapshot(BranchName(source))
    branch_writer = session.store.branch_writer(BranchName(MAIN))
    txn = branch_writer.begin(WriteKind.BRANCH_MERGE, merged_parent=theirs.state.head.commit)
    delta = _full_delta(_read(base), _read(theirs))
    merged = merge_rows(delta, _read(txn.snapshot))
    txn.change(
        RowChange(
            table_key=KNOWS,
            inserts=merged.inserts,
            has_fresh_ids=True,
            upserts=merged.updates,
            deletes=tuple(merged.deletes.to_pylist()),
        )
    )
    branch_writer.commit(txn)


def preview_base(session: Session, source: str) -> str:
    """Return where a branch of this benchmark began: its oldest own commit's parent."""
    own = [commit for commit in session.store.iter_commits(session.snapshot(source)) if commit.branch == source]
    return own[-1].parent or own[-1].id


def _read(snapshot: GraphSnapshot) -> pa.Table:
    rows = snapshot.table(KNOWS).read()
    return rows.take(pc.sort_indices(rows["id"]))


def _full_delta(before: pa.Table, after: pa.Table) -> TableDelta:
    places = pc.index_in(before["id"], value_set=after["id"].combine_chunks())
    is_kept = pc.is_valid(places)
    old, new = before.filter(is_kept), after.take(places.drop_null())
    is_other = pc.invert(pa.array(rows_equal(old, new)))
    return TableDelta(
        inserted=after.filter(pc.invert(pc.is_in(after["id"], value_set=before["id"].combine_chunks()))),
        deleted=before.filter(pc.invert(is_kept)),
        before=old.filter(is_other),
        after=new.filter(is_other),
    )


def _change(session: Session, branch: str, rows: pa.Table, turn: int) -> None:
    session.store.create_branch(BranchName(branch))
    per_turn = CHANGED + CHANGED_ON_MAIN
    mine = rows.slice(turn * per_turn * 7, per_turn)
    _write(session, branch, mine.slice(0, CHANGED), turn)
    _write(session, MAIN, mine.slice(CHANGED, CHANGED_ON_MAIN), turn)


def _write(session: Session, branch: str, rows: pa.Table, turn: int) -> None:
    """Change half of the rows, remove a quarter, and put new ones into the place of the last quarter."""
    half, quarter = rows.num_rows // 2, rows.num_rows // 4
    weight = rows.schema.get_field_index("weight")
    changed = rows.slice(0, half).set_column(weight, rows.schema.field(weight), pa.array([float(turn)] * half))
    made = rows.slice(half, quarter)
    ids = pa.array([f"{branch}-{turn}-{number}" for number in range(made.num_rows)])
    made = made.set_column(0, rows.schema.field(0), ids)
    branch_writer = session.store.branch_writer(BranchName(branch))
    txn = branch_writer.begin(WriteKind.MUTATE)
    txn.upsert(KNOWS, pa.concat_tables([changed, made]))
    txn.delete(KNOWS, rows.slice(half + quarter)["id"].to_pylist())
    branch_writer.commit(txn)


def _time_s(run: Callable[[], object]) -> float:
    started_s = time.perf_counter()
    run()
    return time.perf_counter() - started_s
