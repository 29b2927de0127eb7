"""The two languages at work: a schema, its queries and its next version, without a stored graph.

Run it with ``python examples/languages.py``. It reads the files in ``examples/people``, shows what omnigraph makes of
them, and leaves nothing behind.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from omnigraph.catalog import Catalog, assign_identities, compile_schema
from omnigraph.catalog.migration import Tier, plan_migration
from omnigraph.errors import OmnigraphError
from omnigraph.ir import PlanCache
from omnigraph.ir.lint import LintReport, lint_queries
from omnigraph.lang.gq import parse_queries
from omnigraph.lang.pg import parse_schema

PEOPLE = Path(__file__).parent / "people"
# Plans between files belong to no graph; a graph would bring a ULID of its own.
IDENTITY_DOMAIN = "0" * 26
BROKEN_QUERY = """\
query broken($slug: String) {
    match { $p: Person { slug: $slug } }
    return { $p.nmae, $p.level }
}
"""

T = TypeVar("T")


class Stopwatch:
    """Runs things and remembers how long each took."""

    def __init__(self) -> None:
        self.laps: list[tuple[str, float]] = []

    def measure(self, what: str, work: Callable[[], T]) -> T:
        """Run ``work`` and note its duration under ``what``."""
        start = time.perf_counter()
        result = work()
        self.laps.append((what, (time.perf_counter() - start) * 1000))
        return result


def main() -> int:
    """Show everything once; the exit code is that of a command."""
    # Without a terminal there is no width to ask for, and narrow tables would be cut.
    console = Console(width=None if sys.stdout.isatty() else 110)
    watch = Stopwatch()
    catalog = show_catalog(console, watch)
    show_queries(console, watch, catalog)
    show_plans(console, watch, catalog)
    show_mistake(console, catalog)
    show_migration(console, watch, catalog)
    show_timings(console, watch)
    return 0


def show_catalog(console: Console, watch: Stopwatch) -> Catalog:
    """Compile the example schema and print its types as a table."""
    console.rule("1. the schema, compiled")
    text = (PEOPLE / "schema.pg").read_bytes()
    tree = watch.measure("parse the schema (first use builds the parser)", lambda: parse_schema(text, "schema.pg"))
    catalog = watch.measure(
        "compile it (first use loads Arrow for @check)",
        lambda: assign_identities(compile_schema(tree), IDENTITY_DOMAIN),
    )
    table = Table("type", "key", "properties", "constraints")
    for node in catalog.nodes.values():
        rules = [f"{rule.property} {_bounds(rule.low, rule.high)}" for rule in node.ranges]
        rules += [f"{rule.property} ~ {rule.pattern}" for rule in node.checks]
        rules += [f"unique {', '.join(columns)}" for columns in node.uniques]
        properties = [f"{prop.name}: {prop.type}" for prop in node.properties]
        table.add_row(*_cells(f"node {node.name}", ", ".join(node.key or ()), "\n".join(properties), "\n".join(rules)))
    for edge in catalog.edges.values():
        properties = [f"{prop.name}: {prop.type}" for prop in edge.properties]
        head = f"edge {edge.name}\n{edge.from_type} -> {edge.to_type}"
        cardinality = "" if edge.cardinality.maximum is None else f"card {edge.cardinality}"
        table.add_row(*_cells(head, ", ".join(edge.key or ()), "\n".join(properties), cardinality))
    console.print(table)
    console.print(f"shape {catalog.shape_hash[:23]}...", highlight=False)
    return catalog


def show_queries(console: Console, watch: Stopwatch, catalog: Catalog) -> None:
    """Check every query of the example and print what each returns and touches."""
    console.rule("2. the queries, checked")
    text = (PEOPLE / "queries.gq").read_bytes()
    report: LintReport = watch.measure(
        "check all queries (first use builds the parser)", lambda: lint_queries(text, "queries.gq", catalog)
    )
    table = Table("query", "kind", "returns", "reads", "writes")
    for result in report.results:
        operation = result.operation
        if operation is None:
            table.add_row(*_cells(result.name, result.kind, f"does not fit: {result.error}", "", ""))
            continue
        reads = ", ".join(use.type_name for use in operation.reads)
        writes = ", ".join(use.type_name for use in operation.writes)
        columns = ", ".join(f"{column.name} {column.kind}" for column in operation.result)
        table.add_row(*_cells(result.name, result.kind, columns, reads, writes))
    console.print(table)
    console.print(f"{report.errors} errors, {report.warnings} warnings", highlight=False)


def show_plans(console: Console, watch: Stopwatch, catalog: Catalog) -> None:
    """Print the plan of every query as a tree."""
    console.rule("3. the plan of each query")
    text = (PEOPLE / "queries.gq").read_text(encoding="utf-8")
    cache = PlanCache()
    names = [decl.name.text for decl in parse_queries(text, "queries.gq").queries]
    plans = watch.measure(
        f"compile {len(names)} plans", lambda: [cache.compile(text, name, catalog).plan for name in names]
    )
    watch.measure("the same from the cache", lambda: [cache.compile(text, name, catalog) for name in names])
    for plan in plans:
        head, *lines = plan.describe().split("\n")
        console.print(_tree(head, lines))


def show_mistake(console: Console, catalog: Catalog) -> None:
    """Compile a query with a misspelt property, to show how errors look."""
    console.rule("4. a mistake")
    console.print(Syntax(BROKEN_QUERY.rstrip(), "text", background_color="default"))
    try:
        PlanCache().compile(BROKEN_QUERY, None, catalog, "broken.gq")
    except OmnigraphError as error:
        console.print(Text(str(error), style="red"))
        facts = f"code={error.code} kind={error.kind.word} exit={error.kind.exit_code} retry={error.retry.value}"
        console.print(facts, highlight=False)


def show_migration(console: Console, watch: Stopwatch, catalog: Catalog) -> None:
    """Plan the way to the next version of the schema."""
    console.rule("5. the way to schema-v2.pg")
    desired = parse_schema((PEOPLE / "schema-v2.pg").read_bytes(), "schema-v2.pg")
    plan = watch.measure("plan the migration", lambda: plan_migration(catalog, desired))
    table = Table("step", "tier")
    for step in plan.steps:
        style = "red" if step.tier is Tier.DESTRUCTIVE else None
        table.add_row(Text(step.describe()), step.tier.value if step.tier else "refused", style=style)
    console.print(table)
    console.print(f"supported: {'yes' if plan.is_supported else 'no'}, {len(plan.steps)} steps", highlight=False)


def show_timings(console: Console, watch: Stopwatch) -> None:
    """Print how long each part took."""
    console.rule("6. timings")
    table = Table("what", "ms")
    table.columns[1].justify = "right"
    for what, milliseconds in watch.laps:
        table.add_row(what, f"{milliseconds:.2f}")
    console.print(table)


def _tree(head: str, lines: list[str]) -> Tree:
    """Turn indented lines into a tree; two spaces are one level."""
    root = Tree(Text(head, style="bold"))
    levels = [root]
    for line in lines:
        text = line.lstrip(" ")
        depth = (len(line) - len(text)) // 2
        del levels[depth:]
        levels.append(levels[-1].add(Text(text)))
    return root


def _cells(*texts: str) -> list[Text]:
    # Brackets in types are not markup.
    return [Text(text) for text in texts]


def _bounds(low: float | None, high: float | None) -> str:
    return f"{'' if low is None else low}..{'' if high is None else high}"


if __name__ == "__main__":
    sys.exit(main())
