"""What a measurement of Spark needs that is run by itself: its arguments, a loaded graph and a session."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.generate import SCHEMA_PATH, SIZES, generate
from tests.session import Session

from omnigraph import spark as plane
from omnigraph.engine.open_graph import init_graph
from omnigraph.store.location import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """What the measurement works with; ``work`` is a folder that goes away afterwards."""

    graph: Session
    spark: Any
    work: Path
    size: str
    rounds: int


@contextmanager
def alone(document: str, size: str) -> Iterator[Alone]:
    """Take the arguments of the command, generate and load the graph, and start the session.

    Args:
        document: that of the module; its first line describes the command.
        size: of the graph, if the command does not say.
    """
    parser = argparse.ArgumentParser(description=document.splitlines()[0])
    parser.add_argument("--size", choices=sorted(SIZES), default=size)
    parser.add_argument("--rounds", type=int, default=3, help="take the fastest of so many runs")
    parser.add_argument("--data", type=Path, metavar="DIR", help="keep the generated files here")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        work = Path(folder)
        dataset = generate(given.size, given.data or work / "data")
        storage = Storage.open(str(work / "graph"))
        init_graph(storage, SCHEMA_PATH.read_bytes())
        spark = plane.session(master="local[2]")
        try:
            with Session.open(storage) as graph:
                graph.load([str(path) for path in dataset.parquet], "append")
                yield Alone(graph=graph, spark=spark, work=work, size=given.size, rounds=given.rounds)
        finally:
            plane.stop(spark)


def timed(run: Callable[[], object]) -> float:
    """Return how many seconds a call takes."""
    started_s = time.perf_counter()
    run()
    return time.perf_counter() - started_s
