"""How long short commands take from start to end, beside the imports that none of them can do without.

Each row is a process of its own, run several times in turn with the others; the least is shown, as processor time,
which a busy machine distorts less, and as time on the clock. It never fails: a figure depends on the machine, and the
machine is printed with it.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROUNDS = int(os.environ.get("OMNIGRAPH_BENCH_ROUNDS", "7"))
PEOPLE = 1_000
SCHEMA = "node Person {\n  name: String @key\n  age: I32?\n}\n"
POINT = 'query q() { match { $p: Person { name: "p7" } } return { $p.age } }'
CHANGE = 'query u() { update Person set { age: 7 } where name = "p7" }'
BARE = "pyarrow and lance"
TARGETS_S = {"omnigraph --help": 0.25, "point query": 0.6}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """The least that a process took."""

    cpu_s: float
    wall_s: float


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        make_graph(root)
        figures = measure(commands(root))
    Console(width=100).print(table(figures))


def make_graph(root: Path) -> None:
    (root / "schema.pg").write_text(SCHEMA, encoding="utf-8")
    rows = ({"type": "Person", "data": {"name": f"p{number}", "age": number % 90}} for number in range(PEOPLE))
    (root / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    omnigraph = [sys.executable, "-m", "omnigraph"]
    for arguments in (
        ["init", "--schema", str(root / "schema.pg"), str(root / "graph")],
        ["load", "--store", str(root / "graph"), "--data", str(root / "rows.jsonl"), "--mode", "append"],
    ):
        subprocess.run([*omnigraph, *arguments], check=True, capture_output=True)  # noqa: S603 - our own command


def commands(root: Path) -> Mapping[str, Sequence[str]]:
    omnigraph, store = [sys.executable, "-m", "omnigraph"], ["--store", str(root / "graph")]
    return {
        "python": [sys.executable, "-c", "pass"],
        BARE: [sys.executable, "-c", "import pyarrow, lance"],
        "omnigraph --help": [*omnigraph, "--help"],
        "point query": [*omnigraph, "query", *store, "-e", POINT],
        "one-row mutate": [*omnigraph, "mutate", *store, "-e", CHANGE],
    }


def measure(every: Mapping[str, Sequence[str]]) -> dict[str, Figure]:
    runs: dict[str, list[Figure]] = {name: [] for name in every}
    # Compiled modules belong to an installed package: what is measured is not the compiler.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(ROUNDS):
        for name, command in every.items():
            runs[name].append(run_once(command, environment))
    return {
        name: Figure(cpu_s=min(run.cpu_s for run in found), wall_s=min(run.wall_s for run in found))
        for name, found in runs.items()
    }


def run_once(command: Sequence[str], environment: Mapping[str, str]) -> Figure:
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)  # noqa: S603 - our own command
    wall_s, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Figure(cpu_s=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall_s=wall_s)


def table(figures: Mapping[str, Figure]) -> Table:
    shown = Table(
        title=f"start-up, least of {ROUNDS}: Python {platform.python_version()} on {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.1f}"
    )
    for heading in ("process", "cpu ms", "clock ms", "target ms", f"cpu beside {BARE}"):
        shown.add_column(heading, justify="left" if heading == "process" else "right")
    bare = figures[BARE].cpu_s
    for name, figure in figures.items():
        target = TARGETS_S.get(name)
        shown.add_row(
            name,
            f"{figure.cpu_s * 1000:.0f}",
            f"{figure.wall_s * 1000:.0f}",
            "" if target is None else f"{target * 1000:.0f}",
            f"{figure.cpu_s / bare:.2f}",
        )
    return shown


if __name__ == "__main__":
    main()
