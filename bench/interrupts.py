"""How long a read of two million edges goes on after Ctrl-C, beside how long it takes to its end.

The tests see to it that a read does nothing more once it has noticed; how soon it notices is the length of its longest
step in native code, which only a clock can tell. It never fails: a figure depends on the machine.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.big_graph import add_people, create_empty
from tests.session import Session
from tests.session_graph import RELAXED

from omnigraph.store.location import Storage

PEOPLE, EDGES = 100_000, 2_000_000
# The reads that end by themselves, within the memory of any machine.
READS = ("paths", "first", "order pairs", "group pairs")
MOMENTS = (0.1, 0.3, 0.5, 0.7, 0.9)


def main() -> None:
    table = Table("read", "whole ms", "worst after Ctrl-C ms", "ratio", title="what is left of a read after Ctrl-C")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "graph"
        build(root)
        reader = Reader(root)
        for query in READS:
            reader.run(query)
            whole_s = reader.run(query)
            worst_s = max(reader.run(query, whole_s * moment) for moment in MOMENTS)
            table.add_row(query, f"{whole_s * 1000:.0f}", f"{worst_s * 1000:.0f}", f"{worst_s / whole_s:.2f}")
        reader.close()
    Console(width=100).print(table)


def build(root: Path) -> None:
    """Make a graph in which some are known by thousands, most by a few."""
    storage = Storage.open(str(root))
    create_empty(storage)
    numbers = np.random.default_rng(5)
    targets = (numbers.random(EDGES) ** 3 * PEOPLE).astype(np.int64)
    with Session.open(storage, settings=RELAXED) as session:
        add_people(session, PEOPLE, numbers.integers(0, PEOPLE, EDGES), targets)


class Reader:
    """A process that reads the graph."""

    def __init__(self, root: Path) -> None:
        command = [sys.executable, "-m", "tests.unit.engine.query.reading_child", str(root)]
        place = Path(__file__).parents[1]
        self._process = subprocess.Popen(command, cwd=place, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own module

    def run(self, query: str, interrupt_after_s: float | None = None) -> float:
        """Return how long a query took, or how long it still took after an interrupt."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"query": query}) + "\n")
        self._process.stdin.flush()
        self._line()
        started_s = time.perf_counter()
        if interrupt_after_s is not None:
            time.sleep(interrupt_after_s)
            started_s = time.perf_counter()
            os.kill(self._process.pid, signal.SIGINT)
        self._line()
        return time.perf_counter() - started_s

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _line(self) -> None:
        assert self._process.stdout is not None
        self._process.stdout.readline()


if __name__ == "__main__":
    main()
