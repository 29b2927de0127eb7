"""The main job end to end: a graph from nothing to two merged branches, searched, looked back on, and filled by Spark.

Run it with ``make demo``. It works in a temporary folder and leaves nothing behind. The pipeline of ``examples/crm``
follows in the same session of Spark, because starting one takes longer than anything else here.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

import omnigraph
from omnigraph.spark import load, session, stop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parent
PEOPLE = EXAMPLES / "people"
NOTES = {
    "lance": ("Lance in a week", "columnar tables with versions"),
    "graphs": ("Why graphs", "questions about who knows whom"),
    "merge": ("Merging facts", "two branches, one table of versions"),
}
SEARCH = """
query about($text: String) {
    match { $n: Note }
    return { $n.slug as note, $n.title as title }
    order { bm25($n.body, $text) }
    limit 2
}
"""
PROMOTE = 'query promote($slug: String) { update Person set { level: "senior" } where slug = $slug }'
OPEN_LAB = 'query lab() { insert Team { code: "lab", name: "Lab" } }'
COUNT = "query people() { match { $p: Person } return { count($p) as people } }"
REACH = """
query reach($slug: String) {
    match { $me: Person { slug: $slug } $me knows{1,3} $far }
    return { count($far) as within_three_hops }
}
"""


class Story:
    """Says what happens, does it, and remembers how long it took."""

    def __init__(self) -> None:
        # Without a terminal there is no width to ask for, and long lines would be folded.
        self.console = Console(width=None if sys.stdout.isatty() else 110, highlight=False)
        self._laps: list[tuple[str, float]] = []

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Run one step under its title."""
        self.console.print(f"\n[bold]{title}[/bold]")
        start = time.perf_counter()
        yield
        self._laps.append((title, time.perf_counter() - start))

    def say(self, *lines: object) -> None:
        """Show lines of a result as they are."""
        for line in (part for text in lines for part in str(text).splitlines()):
            self.console.print(f"  {line}", markup=False, soft_wrap=True)

    def show_times(self) -> None:
        """Show how long every step took."""
        table = Table(title="seconds per step", title_justify="left", show_header=False)
        for title, seconds in self._laps:
            table.add_row(title, f"{seconds:.2f}")
        self.console.print()
        self.console.print(table)


def main(folder: Path, spark: SparkSession | None = None, *, people: int = 20_000) -> None:
    """Tell the story in ``folder``; the larger file has this many people and three times as many edges."""
    story, place = Story(), folder / "staff.omni"
    with ExitStack() as ending:
        _branch_and_merge(place, story, folder)
        if spark is None:
            with story.step("Spark starts, once for everything below"):
                spark = session(is_short=True)
                ending.callback(stop, spark)
                story.say(f"Spark {spark.version} in this machine's cores")
        with omnigraph.open(place) as graph:
            _load_on_spark(graph, story, folder, spark, people)
        _module("crm/story").main(folder, spark, story.say, story.step)
    story.show_times()


def _branch_and_merge(place: Path, story: Story, folder: Path) -> None:
    with story.step("A graph from a schema, and its first rows"):
        graph = omnigraph.init(str(place), str(PEOPLE / "schema.pg"))
        _write_notes(folder / "notes.jsonl")
        graph.load([str(PEOPLE / "staff.jsonl"), str(folder / "notes.jsonl")], actor="mira", message="first rows")
        story.say(*(f"{entry.operation:12} {entry.message or ''}" for entry in graph.log()))
    with graph:
        with story.step("A branch, and two processes that write to it at the same moment"):
            review = graph.create_branch("review")
            _write_at_once(place, {"zoe": (PROMOTE, {"slug": "bo"}), "yan": (OPEN_LAB, {})})
            story.say(*(f"{entry.actor or '-':6} {entry.operation}" for entry in review.log()))
        with story.step("What the branch changed, row by row"):
            story.say(review.diff("main"))
        with story.step("Merged, as one commit"):
            story.say(graph.merge(review, actor="mira").outcome.value, f"branches: {len(graph.branches())}")
        with story.step("Looking back: who is senior, before and after"):
            level = 'query l() { match { $p: Person { slug: "bo" } } return { $p.level as level } }'
            story.say(f"before the merge: {graph.at('main~1').query(level).rows()[0]['level']}")
            story.say(f"after it:         {graph.query(level).rows()[0]['level']}")
        with story.step("Search: notes about 'tables versions', best first"):
            found = graph.query(SEARCH, {"text": "tables versions"})
            story.say(*(f"{row['note']:8} {row['title']}" for row in found))


def _write_at_once(place: Path, writers: dict[str, tuple[str, dict[str, str]]]) -> None:
    """Start one process per writer; every one of them commits, in whatever order."""
    started = [
        subprocess.Popen(  # noqa: S603 - our own command
            [
                *(sys.executable, "-m", "omnigraph", "mutate", "--store", str(place), "--branch", "review"),
                *("--as", actor, "-e", text, "--params", json.dumps(params)),
            ],
            stdout=subprocess.DEVNULL,
        )
        for actor, (text, params) in writers.items()
    ]
    for process in started:
        if process.wait(60) != 0:
            raise SystemExit(process.returncode)


def _load_on_spark(graph: omnigraph.Graph, story: Story, folder: Path, spark: SparkSession, people: int) -> None:
    file = folder / "people.jsonl"
    with story.step(f"A larger file: {people:,} people who know {3 * people:,} others"):
        _write_people(file, people)
        story.say(f"{file.stat().st_size / 1e6:.0f} MB of JSON lines")
    with story.step("Loaded through Spark onto a branch of its own, all rules checked, one commit"):
        crowd = graph.create_branch("crowd")
        done = load(graph, [str(file)], "append", spark=spark, branch="crowd", actor="spark")
        story.say(f"{done.total:,} rows in {done.fragments} fragments, commit {done.commit.id if done.commit else '-'}")
    with story.step("Merged too, indexed, and walked"):
        story.say(graph.merge(crowd).outcome.value)
        graph.optimize()
        story.say(f"people: {graph.query(COUNT).rows()[0]['people']:,}")
        story.say(f"within three hops of p1: {graph.query(REACH, {'slug': 'p1'}).rows()[0]['within_three_hops']}")


def _module(name: str) -> Any:
    """Return another example, which is in no package."""
    spec = importlib.util.spec_from_file_location(name.replace("/", "_"), EXAMPLES / f"{name}.py")
    if spec is None or spec.loader is None:
        raise SystemExit(f"{name}.py is missing")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _write_notes(file: Path) -> None:
    with file.open("w", encoding="utf-8") as out:
        for slug, (title, body) in NOTES.items():
            data = {"slug": slug, "title": title, "body": body, "created_at": "2026-03-01T09:00:00Z"}
            out.write(json.dumps({"type": "Note", "data": data}) + "\n")


def _write_people(file: Path, count: int) -> None:
    with file.open("w", encoding="utf-8") as out:
        for number in range(count):
            data = {
                "slug": f"p{number}",
                "name": f"Person {number}",
                "level": "junior",
                "created_at": "2026-01-01T00:00:00Z",
            }
            out.write(json.dumps({"type": "Person", "data": data}) + "\n")
        for number in range(count):
            for step in (1, 7, 1001):
                out.write(
                    json.dumps({"edge": "Knows", "from": f"p{number}", "to": f"p{(number + step) % count}"}) + "\n"
                )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        try:
            main(Path(temporary))
        except omnigraph.OmnigraphError as problem:
            sys.exit(f"error: {problem}")
