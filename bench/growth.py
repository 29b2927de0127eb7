"""What a graph and its process grow by: ten thousand commits of one row, and hundreds of branches that come and go.

One process inserts one row per commit, on a local disk and on the S3 endpoint of the test room; another creates,
writes, merges and deletes a branch over and over. At even steps it notes what a commit since the step before took
(median and 99th percentile of its time, mean of its processor time), what the process holds (memory, open files,
threads), what a commit added to the disk or asked of the endpoint since then, how large the newest version of the table
is, and how long ``status`` takes.

Below the steps stand the slopes per 1,000 commits (or 100 cycles) of the second half, where caches are full, and what
they are of the value there; what is bounded has a slope near zero.

Times are the machine's; the last row compares the last step with the first, which says more. It never fails.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import stat
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console
from rich.table import Table
from tests.footprint import Footprint

import omnigraph
from omnigraph.testing.s3 import S3Endpoint
from omnigraph.txn.settings import TxnSettings

SCHEMA = "node Person {\n  slug: String @key\n  age: I32?\n}\n"
INSERT = "query add($slug: String, $age: I32) { insert Person { slug: $slug, age: $age } }"
STEPS = 10
SPAWN = multiprocessing.get_context("spawn")
MB = 1 << 20
KB = 1 << 10
STORES = ("local", "s3")
# What was found after so many rounds, by the heading of its column; what a store cannot tell is not there.
Step = dict[str, float]
HEADINGS = (
    "median ms",
    "p99 ms",
    "cpu ms",
    "status ms",
    "resident MB",
    "private MB",
    "open files",
    "threads",
    "files each",
    "KB each",
    "calls each",
    "version KB",
)


@dataclass(slots=True)
class Ground:
    """Where a graph is, and what can be counted there."""

    uri: str
    options: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None
    endpoint: S3Endpoint | None = None
    seen: dict[str, float] = field(default_factory=dict)

    def added(self, rounds: int) -> Step:
        """Return what each of so many rounds has added since the last look."""
        found: dict[str, float] = {}
        if self.folder is not None:
            files = _files_below(self.folder)
            found = {"files each": len(files), "KB each": sum(look.st_size for look in files.values()) / KB}
        if self.endpoint is not None:
            found["calls each"] = self.endpoint.last_sequence()
        step = {name: (value - self.seen.get(name, 0.0)) / max(rounds, 1) for name, value in found.items()}
        self.seen = found
        if self.folder is not None:
            versions = [look for path, look in files.items() if path.suffix == ".manifest" and "nodes" in path.parts]
            step["version KB"] = max((look.st_mtime_ns, look.st_size) for look in versions)[1] / KB
        return step


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    asked.add_argument("--commits", type=int, default=10_000, help="commits of one row on a local disk")
    asked.add_argument("--s3-commits", type=int, default=2_000, help="commits of one row on the S3 endpoint")
    asked.add_argument("--cycles", type=int, default=500, help="branches that come and go on a local disk")
    asked.add_argument("--durability", choices=("full", "relaxed"), default="full")
    asked.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    given = asked.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 150)
    load = " ".join(f"{load:.1f}" for load in os.getloadavg())
    console.print(
        f"{platform.machine()}, {os.cpu_count()} cores, durability {given.durability}, load {load}", highlight=False
    )
    runs: dict[str, list[Step]] = {}
    for title, work, store, rounds, unit in (
        ("one-row commits by one process, local", commits, "local", given.commits, 1000),
        ("one-row commits by one process, S3 endpoint", commits, "s3", given.s3_commits, 1000),
        ("branch cycles: create, write, merge, delete", cycles, "local", given.cycles, 100),
    ):
        if not rounds:
            continue
        # A process of its own each: what one of them keeps in memory is not the other's.
        with ProcessPoolExecutor(1, SPAWN) as writer:
            runs[title] = writer.submit(work, store, rounds, given.durability).result()
        console.print(show(title, runs[title], unit))
        if given.json is not None:
            given.json.write_text(json.dumps(runs, indent=1), encoding="utf-8")


def commits(store: str, rounds: int, durability: str) -> list[Step]:
    """Insert one row per commit."""
    with _ground(store) as ground, _new_graph(ground, durability) as graph:
        return _measure(ground, rounds, lambda number: graph.mutate(INSERT, _row(number)))


def cycles(store: str, rounds: int, durability: str) -> list[Step]:
    """Create a branch, write one row to it, merge it into main, delete it."""
    with _ground(store) as ground, _new_graph(ground, durability) as graph:
        graph.mutate(INSERT, _row(-1))

        def cycle(number: int) -> None:
            branch = graph.create_branch(f"work-{number}")
            branch.mutate(INSERT, _row(number))
            graph.merge(branch.name)
            branch.delete()

        return _measure(ground, rounds, cycle)


def show(title: str, steps: list[Step], unit: int) -> Table:
    """Return the steps as a table, with the slopes of the second half per ``unit`` rounds."""
    names = [name for name in HEADINGS if name in steps[0]]
    table = Table("done", *names, title=title)
    for step in steps:
        table.add_row(f"{step['done']:,.0f}", *(_figure(step[name]) for name in names))
    slopes = {name: slope(steps, name, unit) for name in names}
    table.add_section()
    table.add_row(f"+ per {unit:,}", *(_figure(slopes[name]) for name in names))
    table.add_row("of the value", *(f"{slopes[name] / max(abs(steps[-1][name]), 1e-9):+.1%}" for name in names))
    table.add_row("last / first", *(f"{steps[-1][name] / max(steps[0][name], 1e-9):.1f} x" for name in names))
    return table


def slope(steps: list[Step], name: str, unit: int) -> float:
    """Return how much a figure grows per ``unit`` rounds in the second half: the line through all of its steps."""
    half = steps[len(steps) // 2 :]
    if len(half) < 2:
        return 0.0
    return statistics.linear_regression([step["done"] for step in half], [step[name] for step in half]).slope * unit


@contextmanager
def _ground(store: str) -> Iterator[Ground]:
    if store == "local":
        with tempfile.TemporaryDirectory(prefix="omnigraph-growth-") as folder:
            yield Ground(uri=f"{folder}/graph", folder=Path(folder))
        return
    with S3Endpoint() as endpoint:
        yield Ground(uri=endpoint.fresh_prefix(), options=endpoint.storage_options, endpoint=endpoint)


def _new_graph(ground: Ground, durability: str) -> omnigraph.Graph:
    settings = TxnSettings(durability="relaxed" if durability == "relaxed" else "full")
    return omnigraph.init(ground.uri, SCHEMA, storage_options=ground.options or None, settings=settings)


def _row(number: int) -> dict[str, object]:
    return {"slug": f"person-{number:08}", "age": number % 90}


def _measure(ground: Ground, rounds: int, run: Callable[[int], object]) -> list[Step]:
    found: list[Step] = []
    size = max(rounds // STEPS, 1)
    took_ms: list[float] = []
    # Somebody else asks for the status: what answering takes is not memory of the writer.
    with ProcessPoolExecutor(1, SPAWN) as observer:
        observer.submit(_status_ms, ground.uri, dict(ground.options)).result()
        ground.added(0)
        processor_s = time.process_time()
        for number in range(rounds):
            took_ms.append(_time_ms(lambda number=number: run(number)))
            if (number + 1) % size == 0:
                spent_ms = (time.process_time() - processor_s) * 1000 / size
                step = {"done": number + 1, **_times(took_ms), "cpu ms": spent_ms, **_held(), **ground.added(size)}
                step["status ms"] = observer.submit(_status_ms, ground.uri, dict(ground.options)).result()
                # What the observer asked of the endpoint is no cost of the next commit.
                ground.added(size)
                found.append(step)
                took_ms.clear()
                processor_s = time.process_time()
    return found


def _times(took_ms: list[float]) -> Step:
    ordered = sorted(took_ms)
    return {"median ms": statistics.median(ordered), "p99 ms": ordered[int(len(ordered) * 0.99)]}


def _held() -> Step:
    held = Footprint.now()
    return {
        "resident MB": held.resident_mb,
        "private MB": held.private_mb,
        "open files": held.open_files,
        "threads": held.threads,
    }


def _status_ms(uri: str, options: dict[str, Any]) -> float:
    with omnigraph.open(uri, mode="read_only", storage_options=options or None) as graph:
        return _time_ms(graph.status)


def _files_below(folder: Path) -> dict[Path, os.stat_result]:
    found = {}
    for path in folder.rglob("*"):
        # Sidecars go behind the acknowledgement of a commit.
        with suppress(FileNotFoundError):
            found[path] = path.stat()
    return {path: look for path, look in found.items() if stat.S_ISREG(look.st_mode)}


def _time_ms(run: Callable[[], object]) -> float:
    started_s = time.perf_counter()
    run()
    return (time.perf_counter() - started_s) * 1000


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}"


if __name__ == "__main__":
    main()
