"""Where reads stand: the same questions to omnigraph, ladybug, kuzu and DuckDB in one run, as a table in Markdown.

Beside them stand two floors, numpy and bare Lance, which do no more than what a question needs. Every answer is
compared before anything is timed, but for the ranking of texts by Lance; where two differ, the row says MISMATCH.
Engines take turns, key by key. Times are medians from the text of a question to its rows as Python values; what only a
fresh process can tell is the least of several. The last columns are the ratio to the best of the others, and the
target, which is meant for size M on a quiet machine. No figure makes it fail. Size L is asked of omnigraph alone: what
must not grow with the graph can be seen there.

Usage: python bench/peers.py [--size S|M|L|XS] [--rounds N] [--data DIR] [--out FILE]
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.generate import SIZES, generate
from bench.query import ITEMS, MISMATCH, OWN, compare, files_of, machine_load, measure, opened, p95, shown
from bench.query_cases import CASES, INSERT, Case, KeyKind, Parameters, parameters_of
from bench.query_engines import ENGINES, Engine, Files
from bench.workers import EVERY_ENGINE, Loaded, Worker

MIB = 1 << 20
NOTHING = "-"
FRESH_ROUNDS = 5
TWO_HOPS, THREE_HOPS = "distinct ends of two hops", "three hops, distinct count"
TEXT = "bm25 top 10 over posts"
Cells = dict[str, str]
Keys = Mapping[KeyKind, list[Parameters]]


def case_of(title: str) -> Case:
    """Return a question by its title."""
    return next(case for case in CASES if case.title == title)


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A row about one question, asked again and again."""

    work: str
    title: str
    target: str
    keys: KeyKind | None = None
    shows_p95: bool = False
    # Whether the memory that reads need is measured after it, among others.
    is_remembered: bool = True

    @property
    def case(self) -> Case:
        """The question."""
        case = case_of(self.title)
        return case if self.keys is None else replace(case, keys=self.keys)


READS = (
    Read(work="point lookup by key", title="point lookup by key", keys="people", target="≤ 0.3"),
    Read(
        work="1 hop with node and edge property",
        title="one hop with node and edge property",
        target="≤ 0.6, p95 ≤ 2 x median",
        shows_p95=True,
    ),
    Read(work="2 hops, distinct ends", title=TWO_HOPS, keys="people", target="≤ 0.8"),
    Read(work="3 hops", title=THREE_HOPS, keys="people", target="≤ 4"),
    Read(work="1..3 reachability", title="reachability 1..3", keys="people", target="≤ 3"),
    Read(work="2 hops from a hub", title=TWO_HOPS, keys="hub", target="≤ 8"),
    Read(
        work="friends of friends, filter, order, limit",
        title="friends of friends, filter, order, limit 20",
        keys="people",
        target="≤ 1.5",
    ),
    Read(
        work="Knows ⋈ Person, group by country",
        title="Knows joined with Person, grouped by country",
        target="≤ 35",
    ),
    Read(
        work="triangles of linked persons, whole graph",
        title="whole graph: triangles, linked persons",
        target="≤ 2,000",
        is_remembered=False,
    ),
    Read(
        work="triangles, every edge of them",
        title="whole graph: triangles, every edge",
        target="≤ 2,000",
        is_remembered=False,
    ),
    Read(work="text search, later ones", title=TEXT, target="≤ 2", is_remembered=False),
    Read(work="vector top 10 of 50 k x 128, exact", title="nearest 10 vectors", target="≤ 4", is_remembered=False),
)
INSERTED = Read(work="2 hops right after an edge was inserted", title=TWO_HOPS, keys="acquaintance", target="≤ 2")


class Report:
    """The table, row by row."""

    def __init__(self, engines: Mapping[str, type[Engine]], size: str) -> None:
        self._engines = engines
        heads = [name if engine.is_installed() else f"{name} (not installed)" for name, engine in engines.items()]
        self.lines = [
            f"| size {size}, ms unless said | {' | '.join(heads)} | x best other | target |",
            f"|---|{'---:|' * (len(heads) + 1)}---|",
        ]

    def add(self, work: str, cells: Cells, target: str, *, ratio: str = "") -> None:
        """Append a row."""
        shown_cells = " | ".join(cells.get(name, NOTHING) for name in self._engines)
        self.lines.append(f"| {work} | {shown_cells} | {ratio or NOTHING} | {target} |")

    def add_numbers(
        self, work: str, found: Mapping[str, float], target: str, show: Callable[[float], str] = shown
    ) -> None:
        """Append a row of one number each."""
        self.add(work, {name: show(value) for name, value in found.items()}, target, ratio=self.ratio(found))

    def ratio(self, found: Mapping[str, float]) -> str:
        """Return how many times the best of the others ours is."""
        others = [value for name, value in found.items() if name != OWN and self._engines[name].is_peer]
        return f"{found[OWN] / min(others):.2f}" if others and OWN in found else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=sorted(SIZES), default="S")
    parser.add_argument("--rounds", type=int, default=5, help="ask for every key so many times")
    parser.add_argument("--data", type=Path, metavar="DIR", help="keep the generated files here")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the table here too")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as scratch:
        data = (arguments.data or Path(scratch) / "data") / arguments.size
        dataset = generate(arguments.size, data, lines=False)
        files = files_of(dataset, arguments.size, data)
        engines = {OWN: ENGINES[OWN]} if arguments.size == "L" else EVERY_ENGINE
        machine = (
            f"{dataset.size.records:,} records, {dataset.size.knows:,} Knows, {ITEMS[arguments.size]:,} vectors;"
            f" {platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, {machine_load()}"
        )
        lines = [
            machine,
            "",
            *make_report(engines, files, parameters_of(dataset), Path(scratch), arguments.size, arguments.rounds),
            "",
            machine_load(),
        ]
    text = "\n".join(lines)
    print(text)
    if arguments.out is not None:
        arguments.out.write_text(f"{text}\n", encoding="utf-8")


def make_report(
    engines: Mapping[str, type[Engine]], files: Files, keys: Keys, work: Path, size: str, rounds: int
) -> list[str]:
    """Load every engine that is installed, ask all of them everything, and return the table."""
    report = Report(engines, size)
    installed = {name: engine for name, engine in engines.items() if engine.is_installed()}
    loads = {}
    for name, engine in installed.items():
        with Worker(engine, work) as worker:
            loads[name] = worker.load(files)
    add_cold(report, installed, keys, work)
    with opened(installed, work) as workers:
        for read in READS:
            add_read(report, read, workers, keys, rounds)
        add_inserted(report, workers, keys)
    add_loads(report, loads)
    add_memory(report, installed, keys, work)
    return report.lines


def add_read(report: Report, read: Read, engines: Mapping[str, Worker], keys: Keys, rounds: int) -> None:
    """Compare the answers to a question and time it."""
    asked = {name: engine for name, engine in engines.items() if engine.text_of(read.case) is not None}
    agreed = compare(read.case, asked, keys[read.case.keys])
    found = measure(read.case, asked, keys[read.case.keys], rounds)
    add_times(report, read, found, agreed=agreed)


def add_inserted(report: Report, engines: Mapping[str, Worker], keys: Keys) -> None:
    """Time a question right after an edge was inserted where it starts, with every edge inserted into all engines."""
    asking = INSERTED.case
    asked = {name: engine for name, engine in engines.items() if None not in map(engine.text_of, (INSERT, asking))}
    found: dict[str, list[float]] = {name: [] for name in asked}
    agreed = True
    for parameters in keys["acquaintance"]:
        start = {"slug": parameters["slug"]}
        agreed &= compare(INSERT, dict(asked), [parameters])
        for name, engine in asked.items():
            found[name].append(engine.time(asking, start))
        agreed &= compare(asking, dict(asked), [start])
    add_times(report, INSERTED, found, agreed=agreed)


def add_times(report: Report, read: Read, found: Mapping[str, Sequence[float]], *, agreed: bool) -> None:
    """Append the row of a question."""
    medians = {name: statistics.median(times) for name, times in found.items() if times}
    cells = {name: shown(median) for name, median in medians.items()}
    if read.shows_p95:
        cells = {name: f"{cell} (p95 {shown(p95(found[name]))})" for name, cell in cells.items()}
    report.add(read.work, cells, read.target, ratio=report.ratio(medians) if agreed else MISMATCH)


def add_cold(report: Report, engines: Mapping[str, type[Engine]], keys: Keys, work: Path) -> None:
    """Append what the first questions of a process take, and opening before them."""
    one, other = keys["people"][:2]
    runs = {
        "2 hops": [(TWO_HOPS, one), (TWO_HOPS, other)],
        "3 hops": [(THREE_HOPS, one)],
        "text": [(TEXT, keys["text"][0])],
    }
    least: dict[tuple[str, int], dict[str, float]] = {}
    for name, engine in engines.items():
        for run, asked in runs.items():
            questions = [(case_of(title), parameters) for title, parameters in asked]
            if any(engine.text_of(case) is None for case, _ in questions):
                continue
            times = []
            for _ in range(FRESH_ROUNDS):
                with Worker(engine, work) as worker:
                    times.append([worker.open(), *(worker.time(*question) for question in questions)])
            for at, took in enumerate(zip(*times, strict=True)):
                least.setdefault((run, at), {})[name] = min(took)
    report.add_numbers("open a graph, libraries loaded before", least["2 hops", 0], "≤ 60")
    report.add_numbers("first 2 hops of a process", least["2 hops", 1], "≤ 30")
    report.add_numbers("second 2 hops of a process", least["2 hops", 2], "≤ 3")
    report.add_numbers("first 3 hops of a process", least["3 hops", 1], "≤ 30")
    report.add_numbers("first text search of a process", least["text", 1], "≤ 60")


def add_loads(report: Report, loads: Mapping[str, Loaded]) -> None:
    """Append what loading took and how much is stored."""
    whole = {name: load["load_s"] + load["prepare_s"] for name, load in loads.items()}
    cells = {
        name: f"{load['load_s']:.1f}" + (f" + {load['prepare_s']:.1f}" if load["prepare_s"] >= 0.05 else "")
        for name, load in loads.items()
    }
    report.add("bulk load of Parquet, ready to read fast, s", cells, "≤ 8 in all", ratio=report.ratio(whole))
    stored = {name: load["bytes"] / MIB for name, load in loads.items()}
    report.add_numbers("disk after the load, MiB", stored, "≤ 220", "{:,.0f}".format)


def add_memory(report: Report, engines: Mapping[str, type[Engine]], keys: Keys, work: Path) -> None:
    """Append what a fresh process holds after the questions that every peer can answer, but for triangles."""
    private: dict[str, float] = {}
    cells: Cells = {}
    for name, engine in engines.items():
        if not engine.is_peer:
            continue
        with Worker(engine, work) as worker:
            worker.open()
            for case in (read.case for read in READS if read.is_remembered):
                for parameters in keys[case.keys]:
                    worker.time(case, parameters)
            held = worker.memory()
        own, mapped = held["private_bytes"], held["mapped_bytes"]
        if own is not None and mapped is not None:
            private[name] = own / MIB
            cells[name] = f"{private[name]:,.0f}; {mapped / MIB:,.0f}"
    work_done = "memory after those reads, MiB: private; mapped from the graph"
    report.add(work_done, cells, "≤ 250 private", ratio=report.ratio(private))


if __name__ == "__main__":
    main()
