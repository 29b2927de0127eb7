"""How long a merge takes whose branch changed very many rows, and how much memory; each step in a process of its own.

A table of as many items is made; the branch gives half of them another size, removes a quarter, and adds as many; main
changes a hundredth of the others. What the process held at its peak is told in two figures: its own memory, and that
plus the pages of temporary files that the system keeps for it as long as it has room.

Usage: python bench/big_merges.py --rows N [--data DIR]
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from typing import Self

from tests.session import Session

from omnigraph.engine.open_graph import init_graph
from omnigraph.history.diff.compare import diff_between
from omnigraph.history.merge import merge_branch, preview_merge, revert_commit
from omnigraph.store.location import Storage
from omnigraph.txn.changes import RowChange
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.values import MAIN, BranchName

SCHEMA = b"node Item { name: String?  size: I64?  note: String? }"
ITEM, BRANCH = "node:Item", "changed"
STEPS = ("preview", "merge", "diff", "revert")
_AT_ONCE = 500_000
_MIB = 1 << 20
Figures = dict[str, dict[str, float]]


def build_graph(root: Path, rows: int) -> None:
    """Make the table and the branch, in commits of bounded size."""
    storage = Storage.open(str(root))
    init_graph(storage, SCHEMA)
    with Session.open(storage) as session:
        for start in range(0, rows, _AT_ONCE):
            _write(session, MAIN, _items(start, min(start + _AT_ONCE, rows), "stored"), is_new=True)
        session.store.create_branch(BranchName(BRANCH))
        half, quarter = rows // 2, rows // 4
        for start in range(0, half, _AT_ONCE):
            _write(session, BRANCH, _items(start, min(start + _AT_ONCE, half), "changed"))
        for start in range(half, half + quarter, _AT_ONCE):
            ids = _items(start, min(start + _AT_ONCE, half + quarter), "")["id"].combine_chunks()
            _write(session, BRANCH, None, deletes=ids)
        for start in range(rows, rows + quarter, _AT_ONCE):
            _write(session, BRANCH, _items(start, min(start + _AT_ONCE, rows + quarter), "new"), is_new=True)
        _write(session, MAIN, _items(half + quarter, half + quarter + rows // 100, "of main"))


def measure(root: Path) -> Figures:
    """Return seconds and peaks of every step; the graph is as it was afterwards, but for its history."""
    found = {}
    for step in STEPS:
        command = [sys.executable, __file__, "--root", str(root), "--step", step]
        answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own
        found[step] = json.loads(answer.stdout)
    return found


def show(figures: Figures, rows: int) -> Table:
    """Return the figures as a table."""
    table = Table(f"branch that changed {rows:,} rows", "s", "own MiB at peak", "with file pages", "rows written")
    for step, found in figures.items():
        table.add_row(
            step, f"{found['seconds']:.1f}", f"{found['own']:.0f}", f"{found['all']:.0f}", f"{found['rows']:,.0f}"
        )
    return table


def run_step(root: Path, step: str) -> dict[str, float]:
    """Do one step in this process and return its figures."""
    with Session.open(Storage.open(str(root))) as session, _Watch() as watch:
        if step == "diff":
            stats = diff_between(session.store, "main~1", MAIN).stats()
            rows = stats.inserts + stats.updates + stats.deletes
        elif step == "preview":
            rows = _counted(preview_merge(session, BRANCH).tables)
        elif step == "merge":
            rows = _counted(merge_branch(session, BRANCH).tables)
        else:
            head = session.snapshot().state.head.commit
            rows = _counted(revert_commit(session, head).tables)
    return {"seconds": watch.seconds, "own": watch.own / _MIB, "all": watch.all / _MIB, "rows": float(rows)}


def _counted(tables: tuple[object, ...]) -> int:
    return sum(getattr(table, name) for table in tables for name in ("inserted", "updated", "deleted"))


class _Watch:
    """Looks at the memory of this process every few milliseconds."""

    def __enter__(self) -> Self:
        self.own = self.all = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._started_s = time.perf_counter()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._started_s
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(0.02):
            fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
            kib = {name: int(fields[name].split()[0]) for name in ("RssAnon", "VmRSS")}
            self.own, self.all = max(self.own, kib["RssAnon"] << 10), max(self.all, kib["VmRSS"] << 10)


def _items(start: int, stop: int, note: str) -> pa.Table:
    numbers = np.arange(start, stop)
    # Ids in no order, as long as those that are made up.
    keys = (numbers * 2_654_435_761) % (1 << 32)
    ids = [f"item-{key:010}-{number:010}" for key, number in zip(keys.tolist(), numbers.tolist(), strict=True)]
    notes = [f"{note} {number}" for number in numbers.tolist()]
    return pa.table({"id": ids, "name": ids, "size": numbers, "note": notes})


def _write(
    session: Session, branch: str, rows: pa.Table | None, *, is_new: bool = False, deletes: pa.Array | None = None
) -> None:
    branch_writer = session.store.branch_writer(BranchName(branch))
    txn = branch_writer.begin(WriteKind.MUTATE)
    change = RowChange(
        table_key=ITEM,
        inserts=rows if is_new else None,
        has_fresh_ids=is_new,
        upserts=None if is_new else rows,
        deletes=() if deletes is None else deletes,
    )
    txn.change(change)
    branch_writer.commit(txn)


def measure_in(work: Path, rows: int) -> Table:
    """Build the graph unless it is there, and measure on a copy of it."""
    root, copy = work / f"big-merges-{rows}", work / f"big-merges-{rows}-used"
    if not root.exists():
        work.mkdir(parents=True, exist_ok=True)
        build_graph(root, rows)
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(root, copy)
    try:
        return show(measure(copy), rows)
    finally:
        shutil.rmtree(copy)


def main() -> None:
    """Measure one size, or do one step of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000, help="20000000 needs some 20 GB of disk")
    parser.add_argument("--data", type=Path, default=None, metavar="DIR", help="keep the graph here between runs")
    parser.add_argument("--root", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.step:
        print(json.dumps(run_step(arguments.root, arguments.step)))
        return
    with tempfile.TemporaryDirectory() as folder:
        Console(width=100).print(measure_in(arguments.data or Path(folder), arguments.rows))


if __name__ == "__main__":
    main()
