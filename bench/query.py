"""How fast reads are: the same questions to omnigraph, ladybug and DuckDB over the same graph, side by side in one run.

Before anything is timed all engines must give the same rows; where they do not, the report says MISMATCH. Then they
take turns, question by question and key by key, so that whatever else the machine does hits all of them alike. Times
hold everything from the text of a question to its rows as Python values. The cold figures come from fresh processes,
from opening the database to the rows of the first question. No figure makes it fail: they depend on the machine, whose
load is printed with them.

Usage: python bench/query.py [--size S|M|XS] [--rounds N] [--data DIR] [--only TEXT]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.generate import SIZES, Dataset, generate
from bench.query_cases import CASES, Case, KeyKind, Parameters, make_items, parameters_of
from bench.query_engines import ENGINES, Engine, Files, Rows

OWN = "omnigraph"
MISMATCH = "MISMATCH"
ITEMS = {"XS": 300, "S": 50_000, "M": 50_000}
COLD_TITLES = (
    "point lookup by key",
    "one hop with properties",
    "two hops, distinct count",
    "whole graph: two-hop paths, linked pairs",
)
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
    parser.add_argument("--load", metavar="ENGINE", help=argparse.SUPPRESS)
    parser.add_argument("--cold", nargs=2, metavar=("ENGINE", "TITLE"), help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as scratch:
        data = (arguments.data or Path(scratch)) / arguments.size
        dataset = generate(arguments.size, data)
        if arguments.load is not None:
            _say(_load(arguments.load, _files(dataset, arguments.size, data), arguments.work))
        elif arguments.cold is not None:
            _say(_cold(*arguments.cold, arguments.work, parameters_of(dataset)))
        else:
            _report(arguments, dataset, data, Path(scratch))


def _report(arguments: argparse.Namespace, dataset: Dataset, data: Path, work: Path) -> None:
    console = Console(width=140)
    _files(dataset, arguments.size, data)
    names = [name for name, engine in ENGINES.items() if engine.is_installed()]
    console.print(
        f"size {arguments.size}: {dataset.size.records:,} records, {ITEMS[arguments.size]:,} vectors;"
        f" {platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, {_machine_load()}"
    )
    for name in ENGINES:
        took = f"loaded in {_child('--load', [name], arguments, work):.1f} s" if name in names else "not installed"
        console.print(f"  {name}: {took}")
    console.print(_cold_table(names, arguments, work))
    engines = {name: ENGINES[name](work) for name in names}
    try:
        cases = [case for case in CASES if arguments.only in case.title]
        console.print(_warm_table(cases, engines, parameters_of(dataset), arguments.rounds))
    finally:
        for engine in engines.values():
            engine.close()
    console.print(_machine_load())


def _warm_table(
    cases: Sequence[Case],
    engines: Mapping[str, Engine],
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
        agreed = _compare(case, asked, keys)
        found = _measure(case, asked, keys, rounds)
        cells = []
        for name in engines:
            times = found.get(name, [])
            cells += [_shown(statistics.median(times)), _shown(_p95(times))] if times else ["n/a", ""]
        ratio = _ratio({name: statistics.median(times) for name, times in found.items()})
        table.add_row(case.title, *cells, ratio if agreed else MISMATCH)
    return table


def _cold_table(names: Sequence[str], arguments: argparse.Namespace, work: Path) -> Table:
    table = Table("first question of a fresh process, opening included, ms")
    for name in names:
        table.add_column(name, justify="right")
    table.add_column("x best other", justify="right")
    for title in (title for title in COLD_TITLES if arguments.only in title):
        took = {name: _child("--cold", [name, title], arguments, work) * 1000 for name in names}
        table.add_row(title, *(_shown(value) for value in took.values()), _ratio(took))
    return table


def _compare(case: Case, engines: dict[str, Engine], keys: Sequence[Parameters]) -> bool:
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
        if any(answer != answers[OWN] for answer in answers.values()):
            counts = ", ".join(f"{name} {len(answer)} rows" for name, answer in answers.items())
            print(f"{MISMATCH}: {case.title}: {counts} for {_brief(parameters)}")
            agreed = False
    return agreed


def _measure(case: Case, engines: Mapping[str, Engine], keys: Sequence[Parameters], rounds: int) -> Times:
    times: Times = {name: [] for name in engines}
    asked = list(keys) * (rounds * max(1, LEAST_KEYS // len(keys)))
    for parameters in asked:
        for name, engine in engines.items():
            if sum(times[name]) < CASE_BUDGET_S * 1000:
                started_s = time.perf_counter()
                engine.ask(case, parameters)
                times[name].append((time.perf_counter() - started_s) * 1000)
    return times


def _comparable(case: Case, rows: Rows) -> Rows:
    plain = [tuple(int(cell) if isinstance(cell, Decimal) else cell for cell in row) for row in rows]
    return plain if case.is_ordered else sorted(plain, key=repr)


def _load(name: str, files: Files, work: Path) -> float:
    started_s = time.perf_counter()
    ENGINES[name].load(files, work)
    return time.perf_counter() - started_s


def _cold(name: str, title: str, work: Path, parameters: Mapping[KeyKind, list[Parameters]]) -> float:
    case = next(case for case in CASES if case.title == title)
    keys = parameters[case.keys]
    started_s = time.perf_counter()
    engine = ENGINES[name](work)
    engine.ask(case, keys[len(keys) // 2])
    took_s = time.perf_counter() - started_s
    engine.close()
    return took_s


def _child(option: str, values: list[str], arguments: argparse.Namespace, work: Path) -> float:
    data = arguments.data or work
    command = [sys.executable, __file__, option, *values, "--work", str(work), "--size", arguments.size]
    ended = subprocess.run([*command, "--data", str(data)], capture_output=True, text=True, check=False)  # noqa: S603 - our own file
    if ended.returncode != 0:
        sys.exit(f"{option} {' '.join(values)} failed\n{ended.stderr}")
    return float(json.loads(ended.stdout))


def _say(answer: float) -> None:
    print(json.dumps(answer))


def _files(dataset: Dataset, size: str, data: Path) -> Files:
    items = data / "Item.parquet"
    if not items.exists():
        pq.write_table(make_items(ITEMS[size]), items)
    return {"social": dataset.parquet, "items": (items,)}


def _ratio(medians: Mapping[str, float]) -> str:
    others = [value for name, value in medians.items() if name != OWN]
    return f"{medians[OWN] / min(others):.2f}" if others else ""


def _p95(times: Sequence[float]) -> float:
    return sorted(times)[math.ceil(0.95 * len(times)) - 1]


def _shown(milliseconds: float) -> str:
    return f"{milliseconds:,.0f}" if milliseconds >= 100 else f"{milliseconds:.2f}"


def _brief(parameters: Parameters) -> str:
    return ", ".join(f"{name}={value}"[:40] for name, value in parameters.items()) or "no parameters"


def _machine_load() -> str:
    return "load " + " ".join(f"{value:.1f}" for value in os.getloadavg())


if __name__ == "__main__":
    main()
