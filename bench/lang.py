"""How fast the front end is: one typical query from text to plan, and a large schema from text to catalog.

Prints a table with the targets beside the figures. It never fails: a figure depends on the machine, and the machine is
printed with it.
"""

from __future__ import annotations

import gc
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from omnigraph.catalog import compile_schema
from omnigraph.ir import PlanCache, compile_query
from omnigraph.lang.gq import parse_queries
from omnigraph.lang.pg import parse_schema

SCHEMA = Path(__file__).parents[1] / "examples" / "people" / "schema.pg"
QUERY = """\
query colleagues($slug: String) {
    match {
        $me: Person { slug: $slug }
        $me worksIn $team
        $other worksIn $team
        $other.slug != $slug
    }
    return { $other.name as name, $team.name as team } order { name } limit 20 }
"""
# A test that only wants to see the table has it made of fewer runs.
_LESS = int(os.environ.get("OMNIGRAPH_BENCH_LESS", "1"))
FRESH_RUNS = 400 // _LESS
CACHED_RUNS = 20_000 // _LESS
GROWTH_RUNS = SCHEMA_RUNS = max(1, 5 // _LESS)
SCHEMA_LINES = 2_000 // _LESS
REPEATED = [
    ("$p.a = 1", " or "),
    ("$p knows $q", "\n"),
    ("not { $p.a = 1 }", "\n"),
    ("lower($p.a) in ['x', $y]", " and "),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A measured value, with its target if it has one."""

    what: str
    value: str
    target: str = ""
    verdict: str = ""


def main() -> None:
    console = Console(width=None if sys.stdout.isatty() else 110)
    console.print(machine(), highlight=False)
    table = Table("what", "measured", "target", "")
    for figure in (*query_figures(), *growth_figures(), *schema_figures()):
        table.add_row(figure.what, figure.value, figure.target, figure.verdict)
    console.print(table)


def machine() -> str:
    return (
        f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}, "
        f"Python {platform.python_version()} ({platform.python_implementation()})"
    )


def query_figures() -> list[Figure]:
    catalog = compile_schema(parse_schema(SCHEMA.read_bytes(), SCHEMA.name))
    cache = PlanCache()
    fresh = median_ms(lambda: compile_query(QUERY, None, catalog), runs=FRESH_RUNS)
    cached = median_ms(lambda: cache.compile(QUERY, None, catalog), runs=CACHED_RUNS)
    lines = len(QUERY.splitlines())
    return [
        timing(f"parse + check + lower, query of {lines} lines (median of {FRESH_RUNS})", fresh, 3.0),
        timing(f"the same from the plan cache (median of {CACHED_RUNS})", cached, 0.05),
        Figure(what="ratio of the two", value=f"{fresh / cached:,.0f} x"),
    ]


def growth_figures() -> list[Figure]:
    """What a text that is ten times as long takes beside the shorter one: some ten times as much."""
    figures = []
    for unit, between in REPEATED:
        texts = [
            f"query q() {{ match {{ {between.join([unit] * times)} }} return {{ $p }} }}" for times in (100, 1_000)
        ]
        short, long = (median_ms(partial(parse_queries, text), runs=GROWTH_RUNS) for text in texts)
        figures.append(
            Figure(what=f"parse 1,000 beside 100 of: {unit}", value=f"{long / short:.1f} x", target="some 10 x")
        )
    return figures


def schema_figures() -> list[Figure]:
    text = generated_schema(SCHEMA_LINES)
    lines = text.count("\n")
    parse = median_ms(lambda: parse_schema(text), runs=SCHEMA_RUNS)
    whole = median_ms(lambda: compile_schema(parse_schema(text)), runs=SCHEMA_RUNS)
    return [
        Figure(what=f"parse a schema of {lines:,} lines", value=f"{parse:,.0f} ms"),
        Figure(what="parse + compile it", value=f"{whole:,.0f} ms"),
        Figure(what="lines per second, parse + compile", value=f"{lines / whole * 1000:,.0f}"),
    ]


def generated_schema(lines: int) -> str:
    """Return a schema of at least ``lines`` lines: node types that use every construct, each with an edge."""
    parts: list[str] = []
    total = 0
    while total < lines:
        number = len(parts)
        part = (
            f'node Thing{number} @description("Thing number {number}") {{\n'
            "    slug: String @key\n"
            "    title: String @index\n"
            "    state: enum(open, blocked, done)?\n"
            "    tags: [String]?\n"
            "    score: F64?\n"
            "    created_at: DateTime\n"
            "    vector: Vector(8)? @embed(title)\n"
            "    // between nothing and everything\n"
            "    @range(score, 0..1)\n"
            '    @check(slug, "^[a-z0-9-]+$")\n'
            "}\n"
            f"edge Follows{number}: Thing{number} -> Thing{max(0, number - 1)} @card(0..1) {{\n"
            "    since: Date?\n"
            "    @key(src, dst)\n"
            "}\n"
        )
        parts.append(part)
        total += part.count("\n")
    return "".join(parts)


def timing(what: str, milliseconds: float, target: float) -> Figure:
    verdict = "met" if milliseconds <= target else "missed"
    return Figure(what=what, value=f"{milliseconds:.4f} ms", target=f"<= {target} ms", verdict=verdict)


def median_ms(work: Callable[[], object], *, runs: int) -> float:
    work()
    durations: list[int] = []
    gc.disable()
    try:
        for _ in range(runs):
            start = time.perf_counter_ns()
            work()
            durations.append(time.perf_counter_ns() - start)
    finally:
        gc.enable()
    return statistics.median(durations) / 1e6


if __name__ == "__main__":
    main()
