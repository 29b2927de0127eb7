"""How fast a difference is when little of much changed, beside one that reads both sides completely."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from rich.table import Table
from tests.session import Session

from omnigraph.history.diff.compare import GraphDiff
from omnigraph.history.diff.rows import rows_delta
from omnigraph.history.feed.blame import blame
from omnigraph.runtime import Cost, Counters, counting
from omnigraph.store.location import Storage
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.values import BranchName

KNOWS = "edge:Knows"
CHANGED = 100
BRANCH = "diffed"
Answer = dict[str, float]


def measure(root: Path, rounds: int) -> Answer:
    """Return the median seconds of each way to tell what a branch changed, and what the first of them read."""
    storage = Storage.open(str(root))
    with Session.open(storage) as session:
        chosen = _change(session)
    took: dict[str, list[float]] = {"cold": [], "warm": [], "full_scan": [], "blame": []}
    cost = Counters().cost()
    for _ in range(rounds):
        with Session.open(storage, mode="read_only") as session:
            with counting() as counters:
                took["cold"].append(_time_s(lambda session=session: _diff(session)))
            cost = counters.cost()
            took["warm"].append(_time_s(lambda session=session: _diff(session)))
            took["full_scan"].append(_time_s(lambda session=session: _full_scan(session)))
            took["blame"].append(_time_s(lambda session=session: _blame(session, chosen)))
    return {name: statistics.median(values) for name, values in took.items()} | _figures(cost)


def show(answer: Answer) -> Table:
    """Return the figures as a table."""
    table = Table("difference between main and a branch that changed 100 edges", "median ms")
    table.add_row("nothing in memory", f"{answer['cold'] * 1000:.1f}")
    table.add_row("tables open", f"{answer['warm'] * 1000:.1f}")
    table.add_row("both sides read completely", f"{answer['full_scan'] * 1000:.0f}")
    table.add_row("times faster than that", f"{answer['full_scan'] / answer['warm']:.0f}")
    table.add_row("history of one edge", f"{answer['blame'] * 1000:.1f}")
    table.add_row(f"{answer['calls']:.0f} calls, {answer['kib']:.0f} KiB read", "")
    return table


def _figures(cost: Cost) -> Answer:
    return {"calls": float(cost.total_calls), "kib": cost.bytes_read / 1024}


def _change(session: Session) -> str:
    if BranchName(BRANCH) not in session.store.branch_names():
        session.store.create_branch(BranchName(BRANCH))
    rows = session.snapshot(BRANCH).table(KNOWS).read()
    every = max(1, rows.num_rows // CHANGED)
    mine = rows.take(pa.array(range(0, every * CHANGED, every)))
    weight = rows.schema.get_field_index("weight")
    mine = mine.set_column(weight, rows.schema.field(weight), pa.array([-1.5] * mine.num_rows))
    branch_writer = session.store.branch_writer(BranchName(BRANCH))
    txn = branch_writer.begin(WriteKind.MUTATE)
    txn.upsert(KNOWS, mine)
    branch_writer.commit(txn)
    return str(mine["id"][0].as_py())


def _diff(session: Session) -> None:
    diff = GraphDiff(session.snapshot(), session.snapshot(BRANCH))
    assert sum(1 for change in diff if change.op == "update") >= CHANGED


def _full_scan(session: Session) -> None:
    sides = [session.snapshot(name).table(KNOWS).read() for name in ("main", BRANCH)]
    assert rows_delta(*sides).after.num_rows >= CHANGED


def _blame(session: Session, chosen: str) -> None:
    assert blame(session.store, KNOWS, chosen, branch=BRANCH).events


def _time_s(run: Callable[[], object]) -> float:
    started_s = time.perf_counter()
    run()
    return time.perf_counter() - started_s
