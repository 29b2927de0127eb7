"""How fast writes are: one row at a time, and how many commits a second many writers get through.

One run measures everything it compares: one row beside a bare Lance append, the everyday writes of the Python API, and
processes and threads that insert rows and update rows of their own, on one branch and on branches of their own, on a
local disk and on the S3 endpoint of the test room with and without latency. A ratio compares with one process of the
same run. It never fails: a figure depends on the machine, and the machine and its load are printed with it. The
endpoint is a Python process on the same machine, so its figures compare with each other, not with a real object store.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import lance
import pyarrow as pa
from bench.write_rows import Figures, everyday, everyday_table, one_row, one_row_table
from bench.writers import COUNTS, Cell, Crew, Place, Task, Work, branch_of, crew, prepare
from rich.console import Console
from rich.table import Table

from omnigraph.testing.s3 import S3Endpoint
from omnigraph.values import MAIN

# The stores by what is printed of them, with the latency of the endpoint in milliseconds.
STORES = {"local": None, "s3": 0.0, "s3-10ms": 10.0}
ONE_BRANCH, OWN_BRANCHES = "one branch", "own branches"
AGAIN, NOT_GROUPED = ", again", ", not grouped"
Cells = dict[str, Cell]


def main() -> None:
    given = arguments()
    console = Console(width=None if sys.stdout.isatty() else 170)
    console.print(machine(), highlight=False)
    singles: dict[str, Figures] = {}
    small: dict[str, Figures] = {}
    found: dict[str, Cells] = {}
    with stores(given.stores) as (places, endpoint), crew(max(given.processes, default=1)) as writers:
        for name, place in places.items():
            if endpoint is not None:
                endpoint.set_latency_ms(STORES[name] or 0.0)
            if given.rounds:
                singles[name] = one_row(place.below("rows"), given.rounds)
                small[name] = everyday(place.below("everyday"), given.rounds)
            found[name] = throughput(place, writers, given)
            console.print(writers_table(name, found[name], given.seconds))
    if given.rounds:
        console.print(one_row_table(singles, given.rounds))
        console.print(everyday_table(small, given.rounds))
    console.print(targets_table(found))
    console.print(machine(), highlight=False)
    if given.json is not None:
        given.json.write_text(json.dumps(document(singles, small, found), indent=1), encoding="utf-8")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stores", type=_stores, default=list(STORES), help=f"comma-separated: {', '.join(STORES)}")
    parser.add_argument("--processes", type=_numbers, default=[1, 2, 4, 8, 16], help="how many at once; empty for none")
    parser.add_argument("--threads", type=_numbers, default=[1, 4, 32], help="how many at once; empty for none")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each group of writers writes")
    parser.add_argument("--rounds", type=int, default=40, help="how often each small write is timed; 0 for never")
    parser.add_argument("--durability", choices=("full", "relaxed"), default="full", help="of those that write at once")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    return parser.parse_args()


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


def _stores(text: str) -> list[str]:
    chosen = text.split(",")
    if unknown := set(chosen) - STORES.keys():
        raise argparse.ArgumentTypeError(f"there is no such store: {', '.join(sorted(unknown))}")
    return chosen


def machine() -> str:
    return (
        f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}, "
        f"Python {platform.python_version()}, pylance {lance.__version__}, pyarrow {pa.__version__}, "
        f"load {' '.join(f'{load:.1f}' for load in os.getloadavg())}"
    )


@contextmanager
def stores(names: list[str]) -> Iterator[tuple[dict[str, Place], S3Endpoint | None]]:
    """Make the places to write to; the endpoint has the latency that it was last told."""
    with ExitStack() as opened:
        folder = opened.enter_context(tempfile.TemporaryDirectory(prefix="omnigraph-bench-"))
        needs_endpoint = any(STORES[name] is not None for name in names)
        endpoint = opened.enter_context(S3Endpoint()) if needs_endpoint else None
        places = {}
        for name in names:
            if STORES[name] is None:
                places[name] = Place(uri=f"{folder}/{name}")
            elif endpoint is not None:
                places[name] = Place(uri=endpoint.fresh_prefix(), options=endpoint.storage_options)
        yield places, endpoint


def throughput(place: Place, writers: Crew, given: argparse.Namespace) -> Cells:
    """Let many write at once, and return what they did by what is printed of them."""
    most = max([*given.processes, *given.threads], default=1)
    graph = place.below("graph")
    prepare(graph, most)

    def task(work: Work, branch: str, first: int, threads: int = 1, group_commit: bool | None = None) -> Task:
        return Task(
            place=graph,
            work=work,
            branch=branch,
            first=first,
            threads=threads,
            seconds=given.seconds,
            group_commit=group_commit,
            durability=given.durability,
        )

    found: Cells = {}
    for work, where in (("insert", ONE_BRANCH), ("insert", OWN_BRANCHES), ("update", ONE_BRANCH)):
        # One process writes before all others and once more behind them: what else the machine does may have changed.
        counts = given.processes if where == ONE_BRANCH else [count for count in given.processes if count > 1]
        for count in counts:
            branches = [branch_of(number) if where == OWN_BRANCHES else MAIN for number in range(count)]
            tasks = [task(work, branch, number) for number, branch in enumerate(branches)]
            found[label(work, "process", count, where)] = writers.run(tasks)
        if where == ONE_BRANCH and given.processes:
            found[f"{label(work, 'process', 1, where)}{AGAIN}"] = writers.run([task(work, MAIN, 0)])
    for work in ("insert", "update"):
        for count in given.threads:
            what = label(work, "thread", count, ONE_BRANCH)
            found[what] = writers.run([task(work, MAIN, 0, count)])
            if count > 1 and work == "insert":
                found[f"{what}{NOT_GROUPED}"] = writers.run([task(work, MAIN, 0, count, group_commit=False)])
    return found


def label(work: Work, kind: str, count: int, where: str) -> str:
    plural = {"process": "processes", "thread": "threads"}[kind] if count > 1 else kind
    return f"{work}, {count} {plural}, {where}"


def ratio_of(cells: Cells, what: str) -> float | None:
    """Return how many commits there were for each one of one process that does the same work; None when unknown."""
    alone = label("update" if what.startswith("update") else "insert", "process", 1, ONE_BRANCH)
    rates = [cells[name].rate for name in (alone, f"{alone}{AGAIN}") if name in cells]
    return cells[what].rate / statistics.mean(rates) if what in cells and any(rates) else None


def writers_table(store: str, cells: Cells, seconds: float) -> Table:
    """Return what all writers of a store did."""
    counted = [name for name in COUNTS if any(name in cell.counts for cell in cells.values())]
    counted = [name for name in counted if name not in {"publishes", "commits"}]
    title = f"{store}: keyed inserts and updates of one row for {seconds:g} s each"
    caption = "a group: commits of a published version; turns, claims: writes that waited for those of other processes"
    table = Table(title=title, caption=caption, title_justify="left", caption_justify="left")
    table.add_column("writers", no_wrap=True)
    shown = (COUNTS[name] for name in counted)
    for heading in ("commits/s", "x one", "p50 ms", "p99 ms", "min/max", "a group", "cpu ms", *shown, "errors"):
        table.add_column(heading, justify="right")
    for what, cell in cells.items():
        ratio = ratio_of(cells, what)
        table.add_row(
            what,
            f"{cell.rate:,.1f}",
            "" if ratio is None else f"{ratio:.2f}",
            f"{cell.percentile(0.5):,.1f}",
            f"{cell.percentile(0.99):,.0f}",
            f"{min(cell.commits)}/{max(cell.commits)}",
            f"{cell.group_size:.1f}",
            f"{cell.to_json()['processor_ms_per_commit']:.1f}",
            *(f"{cell.counts.get(name, 0):,}" for name in counted),
            " ".join(f"{code}:{count}" for code, count in cell.errors.items()),
        )
    return table


def targets_table(found: dict[str, Cells]) -> Table:
    """Return what was aimed at beside what was found."""
    table = Table(title="targets of writers of one branch", title_justify="left")
    table.add_column("what")
    table.add_column("target", justify="right")
    for name in found:
        table.add_column(name, justify="right")
    for work in ("insert", "update"):
        for count, least in ((4, 2.0), (8, 3.0)):
            what = label(work, "process", count, ONE_BRANCH)
            table.add_row(what, f"≥ {least:g} x one", *(_ratio(cells, what, least) for cells in found.values()))
        table.add_row(f"{work}, fewest of any number", "≥ 1 x one", *(_lowest(cells, work) for cells in found.values()))
    what = label("insert", "thread", 32, ONE_BRANCH)
    table.add_row(what, "≥ 500 /s", *(_rate(cells, what, 500.0) for cells in found.values()))
    return table


def _ratio(cells: Cells, what: str, least: float) -> str:
    ratio = ratio_of(cells, what)
    return "" if ratio is None else f"{ratio:.2f} {_verdict(ratio, least)}"


def _lowest(cells: Cells, work: str) -> str:
    ratios = {
        ratio: what
        for what in cells
        if what.startswith(work) and "processes" in what and what.endswith(ONE_BRANCH)
        if (ratio := ratio_of(cells, what)) is not None
    }
    if not ratios:
        return ""
    ratio = min(ratios)
    return f"{ratio:.2f} {_verdict(ratio, 1.0)} ({ratios[ratio].split(', ')[1]})"


def _rate(cells: Cells, what: str, least: float) -> str:
    return "" if what not in cells else f"{cells[what].rate:,.0f} {_verdict(cells[what].rate, least)}"


def _verdict(value: float, least: float) -> str:
    return "met" if value >= least else "missed"


def document(singles: dict[str, Figures], small: dict[str, Figures], found: dict[str, Cells]) -> dict[str, Any]:
    """Return a run as its file keeps it."""
    return {
        "machine": machine(),
        "one_row": singles,
        "everyday": small,
        "writers": {store: {what: cell.to_json() for what, cell in cells.items()} for store, cells in found.items()},
    }


if __name__ == "__main__":
    main()
