"""What a graph and its process grow by: thousands of commits of one row, and hundreds of branches that come and go.

One process inserts one row per commit, another creates, writes, merges and deletes a branch over and over. At even
steps it notes its memory, the files and bytes on the disk, how large the newest version of the written table is, how
long ``status`` takes, and the median time of a commit since the step before. Below the steps stand the slopes per 1,000
commits (or 100 cycles) of the second half, where caches are full; what is bounded has a slope near zero.

Times are the machine's; the last row compares the last step with the first, which says more. It never fails.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

import omnigraph
from omnigraph.txn.settings import TxnSettings

SCHEMA = "node Person {\n  slug: String @key\n  age: I32?\n}\n"
INSERT = "query add($slug: String, $age: I32) { insert Person { slug: $slug, age: $age } }"
STEPS = 10
SPAWN = multiprocessing.get_context("spawn")
MB = 1 << 20
KB = 1 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What was found after ``done`` rounds."""

    done: int
    memory_mb: float
    files: int
    disk_mb: float
    version_kb: float
    status_ms: float
    round_ms: float


COLUMNS = ("memory_mb", "files", "disk_mb", "version_kb", "status_ms", "round_ms")


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    asked.add_argument("--commits", type=int, default=5000)
    asked.add_argument("--cycles", type=int, default=500)
    asked.add_argument("--durability", choices=("full", "relaxed"), default="full")
    given = asked.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 110)
    console.print(f"{platform.machine()}, {os.cpu_count()} cores, durability {given.durability}", highlight=False)
    for title, work, rounds, unit in (
        ("one-row commits by one process", commits, given.commits, 1000),
        ("branch cycles: create, write, merge, delete", cycles, given.cycles, 100),
    ):
        if not rounds:
            continue
        # A process of its own each: what one of them keeps in memory is not the other's.
        with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(1, SPAWN) as writer:
            console.print(show(title, writer.submit(work, folder, rounds, given.durability).result(), unit))


def commits(folder: str, rounds: int, durability: str) -> list[Step]:
    """Insert one row per commit."""
    graph = _new_graph(folder, durability)
    return _measure(graph, folder, rounds, lambda number: graph.mutate(INSERT, _row(number)))


def cycles(folder: str, rounds: int, durability: str) -> list[Step]:
    """Create a branch, write one row to it, merge it into main, delete it."""
    graph = _new_graph(folder, durability)
    graph.mutate(INSERT, _row(-1))

    def cycle(number: int) -> None:
        branch = graph.create_branch(f"work-{number}")
        branch.mutate(INSERT, _row(number))
        graph.merge(branch.name)
        branch.delete()

    return _measure(graph, folder, rounds, cycle)


def show(title: str, steps: list[Step], unit: int) -> Table:
    """Return the steps as a table, with the slopes of the second half per ``unit`` rounds."""
    table = Table("done", "memory MB", "files", "disk MB", "version KB", "status ms", "ms a round", title=title)
    for step in steps:
        table.add_row(f"{step.done:,}", *(_figure(getattr(step, name)) for name in COLUMNS))
    half = steps[len(steps) // 2]
    span = max(steps[-1].done - half.done, 1) / unit
    slopes = [(getattr(steps[-1], name) - getattr(half, name)) / span for name in COLUMNS]
    table.add_section()
    table.add_row(f"+ per {unit:,}", *map(_figure, slopes))
    table.add_row(
        "last / first", *(f"{getattr(steps[-1], name) / max(getattr(steps[0], name), 1e-9):.1f} x" for name in COLUMNS)
    )
    return table


def _new_graph(folder: str, durability: str) -> omnigraph.Graph:
    settings = TxnSettings(durability="relaxed" if durability == "relaxed" else "full")
    return omnigraph.init(f"{folder}/graph", SCHEMA, settings=settings)


def _row(number: int) -> dict[str, object]:
    return {"slug": f"person-{number:08}", "age": number % 90}


def _measure(graph: omnigraph.Graph, folder: str, rounds: int, run: Callable[[int], object]) -> list[Step]:
    found: list[Step] = []
    size = max(rounds // STEPS, 1)
    took_ms: list[float] = []
    # Somebody else asks for the status: what answering takes is not memory of the writer.
    with ProcessPoolExecutor(1, SPAWN) as observer:
        observer.submit(_status_ms, graph.uri).result()
        for number in range(rounds):
            took_ms.append(_time_ms(lambda number=number: run(number)))
            if (number + 1) % size == 0:
                status_ms = observer.submit(_status_ms, graph.uri).result()
                found.append(_look(Path(folder), number + 1, statistics.median(took_ms), status_ms))
                took_ms.clear()
    graph.close()
    return found


def _status_ms(uri: str) -> float:
    with omnigraph.open(uri, mode="read_only") as graph:
        return _time_ms(graph.status)


def _look(folder: Path, done: int, round_ms: float, status_ms: float) -> Step:
    files = [(path, path.stat().st_size) for path in folder.rglob("*") if path.is_file()]
    versions = [(path.stat().st_mtime_ns, size) for path, size in files if _is_version_of_table(path)]
    return Step(
        done=done,
        memory_mb=_memory_mb(),
        files=len(files),
        disk_mb=sum(size for _, size in files) / MB,
        version_kb=max(versions)[1] / KB,
        status_ms=status_ms,
        round_ms=round_ms,
    )


def _is_version_of_table(path: Path) -> bool:
    return path.suffix == ".manifest" and "nodes" in path.parts


def _memory_mb() -> float:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / KB
    return 0.0


def _time_ms(run: Callable[[], object]) -> float:
    started_s = time.perf_counter()
    run()
    return (time.perf_counter() - started_s) * 1000


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}"


if __name__ == "__main__":
    main()
