"""How fast reads are: many questions to omnigraph, ladybug, kuzu and DuckDB over the same graph, in one run.

Before anything is timed all engines must give the same rows; where they do not, the report says MISMATCH. Then they
take turns, question by question and key by key, so that whatever else the machine does hits all of them alike. Times
hold everything from the text of a question to its rows as Python values. No figure makes it fail: they depend on the
machine, whose load is printed with them. ``bench/peers.py`` asks fewer questions and also what opening, loading and
storing costs.

Usage: python bench/query.py [--size S|M|XS] [--rounds N] [--data DIR] [--only TEXT]
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.generate import SIZES, Dataset, generate
from bench.query_cases import CASES, Case, KeyKind, Parameters, make_items, parameters_of
from bench.query_engines import ENGINES, Engine, Files, Rows
from bench.workers import Worker

OWN = "omnigraph"
MISMATCH = "MISMATCH"
ITEMS = {"XS": 300, "S": 50_000, "M": 50_000, "L": 50_000}
# A question without keys is asked as often as one with so many.
LEAST_KEYS = 8
# No engine is asked a question again once it has spent so much on it.
CASE_BUDGET_S = 20.0
Times = dict[str, list[float]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=sorted(SIZES), default="S")
    parser.add_argument("--rounds", type=int, default=5, help="ask for every key so many times")
    parser.add_argument("--data", type=Path, metavar="DIR", help="keep the generated files here")
    parser.add_argument("--only", metavar="TEXT", default="", help="ask only what has this in its title")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as scratch:
        data = (arguments.data or Path(scratch) / "data") / arguments.size
        _report(arguments, generate(arguments.size, data, lines=False), data, Path(scratch))


def _report(arguments: argparse.Namespace, dataset: Dataset, data: Path, work: Path) -> None:
    console = Console(width=160)
    files = files_of(dataset, arguments.size, data)
    installed = {name: engine for name, engine in ENGINES.items() if engine.is_installed()}
    console.print(
        f"size {arguments.size}: {dataset.size.records:,} records, {ITEMS[arguments.size]:,} vectors;"
        f" {platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, {machine_load()}"
    )
    for name in ENGINES.keys() - installed:
        console.print(f"  {name}: not installed")
    for engine in installed.values():
        with Worker(engine, work) as worker:
            worker.load(files)
    with opened(installed, work) as engines:
        cases = [case for case in CASES if arguments.only in case.title]
        console.print(_warm_table(cases, engines, parameters_of(dataset), arguments.rounds))
    console.print(machine_load())


@contextmanager
def opened(engines: Mapping[str, type[Engine]], work: Path) -> Iterator[dict[str, Worker]]:
    """Yield every engine in a process of its own, with its database open."""
    with ExitStack() as stack:
        workers = {name: stack.enter_context(Worker(engine, work)) for name, engine in engines.items()}
        for worker in workers.values():
            worker.open()
        yield workers


def _warm_table(
    cases: Sequence[Case],
    engines: Mapping[str, Worker],
    parameters: Mapping[KeyKind, list[Parameters]],
    rounds: int,
) -> Table:
    table = Table("warm, ms", title_justify="left")
    for name in engines:
        table.add_column(f"{name} median", justify="right")
        table.add_column("p95", justify="right")
    table.add_column("x best other", justify="right")
    for case in cases:
        asked = {name: engine for name, engine in engines.items() if engine.text_of(case) is not None}
        keys = parameters[case.keys]
        agreed = compare(case, asked, keys)
        found = measure(case, asked, keys, rounds)
        cells = []
        for name in engines:
            times = found.get(name, [])
            cells += [shown(statistics.median(times)), shown(p95(times))] if times else ["n/a", ""]
        ratio = _ratio({name: statistics.median(times) for name, times in found.items()})
        table.add_row(case.title, *cells, ratio if agreed else MISMATCH)
    return table


def compare(case: Case, engines: dict[str, Worker], keys: Sequence[Parameters]) -> bool:
    """Ask every engine everything once, which also warms it; return whether they agree.

    An engine that gives up takes no further part.
    """
    agreed = True
    for parameters in keys:
        answers: dict[str, Rows] = {}
        for name, engine in list(engines.items()):
            try:
                answers[name] = _comparable(case, engine.ask(case, parameters))
            except RuntimeError as error:
                print(f"{name} gave up: {case.title}: {error}")
                del engines[name]
        if any(answer != answers[OWN] for name, answer in answers.items() if engines[name].is_comparable(case)):
            counts = ", ".join(f"{name} {len(answer)} rows" for name, answer in answers.items())
            print(f"{MISMATCH}: {case.title}: {counts} for {_brief(parameters)}")
            agreed = False
    return agreed


def measure(case: Case, engines: Mapping[str, Worker], keys: Sequence[Parameters], rounds: int) -> Times:
    """Ask every engine in turn for every key so many times; return the milliseconds by engine."""
    times: Times = {name: [] for name in engines}
    asked = list(keys) * (rounds * max(1, LEAST_KEYS // len(keys)))
    for parameters in asked:
        for name, engine in engines.items():
            if sum(times[name]) < CASE_BUDGET_S * 1000:
                times[name].append(engine.time(case, parameters))
    return times


def _comparable(case: Case, rows: Rows) -> Rows:
    plain = [tuple(int(cell) if isinstance(cell, Decimal) else cell for cell in row) for row in rows]
    return plain if case.is_ordered else sorted(plain, key=repr)


def files_of(dataset: Dataset, size: str, data: Path) -> Files:
    """Return the files of both graphs, made where they are missing."""
    items = data / "Item.parquet"
    if not items.exists():
        pq.write_table(make_items(ITEMS[size]), items)
    return {"social": dataset.parquet, "items": (items,)}


def _ratio(medians: Mapping[str, float]) -> str:
    others = [value for name, value in medians.items() if name != OWN]
    return f"{medians[OWN] / min(others):.2f}" if others else ""


def p95(times: Sequence[float]) -> float:
    return sorted(times)[math.ceil(0.95 * len(times)) - 1]


def shown(milliseconds: float) -> str:
    return f"{milliseconds:,.0f}" if milliseconds >= 100 else f"{milliseconds:.2f}"


def _brief(parameters: Parameters) -> str:
    return ", ".join(f"{name}={value}"[:40] for name, value in parameters.items()) or "no parameters"


def machine_load() -> str:
    """Return how busy the machine is."""
    return "load " + " ".join(f"{value:.1f}" for value in os.getloadavg())


if __name__ == "__main__":
    main()
