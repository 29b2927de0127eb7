"""The example from raw files to a reviewed graph: run, check, propose, merge, rank, report, and run again.

``make demo`` ends with it; alone it is ``python examples/crm/story.py``. It works in a temporary folder.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import omnigraph
from omnigraph import pipelines
from omnigraph.pipelines.report import history_lines, report_page, run_lines
from omnigraph.spark import session, stop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
CUSTOMER = "ben.alves.1@example.org"
TOP = """
query top() {
    match { $p: Person }
    return { $p.name as name, $p.influence as influence }
    order { $p.influence desc }
    limit 3
}
"""


@contextmanager
def print_step(title: str) -> Iterator[None]:
    """Print the title of a step, and leave a line free behind it."""
    print(title)
    yield
    print()


def main(
    folder: Path,
    spark: SparkSession | None = None,
    say: Callable[[object], None] = print,
    step: Callable[[str], AbstractContextManager[None]] = print_step,
) -> None:
    """Tell the story in ``folder``, step by step; every line of a result goes to ``say``."""
    raw = folder / "raw"
    data = _module("make_raw")
    data.make_raw(raw)
    os.environ["CRM_RAW"] = str(raw)
    crm = pipelines.load_declaration(HERE / "pipeline.py")
    used = session(is_short=True) if spark is None else spark
    try:
        with omnigraph.init(folder / "crm.omni", HERE / "schema.pg") as graph:
            with step("A pipeline: three exports become a graph, bad rows are put aside, checks are made"):
                first = pipelines.run(crm, graph, spark=used, actor="nightly")
                _say_all(say, run_lines(first))
                page = report_page(first)
                (folder / "report.html").write_text(page, encoding="utf-8")
                say(f"the same as a page: report.html, {len(page) // 1000} kB")
            with step("What it proposes is approved by a person, and merged"):
                _merge(graph, first, say)
            with step("Who brought the customers that brought others (PageRank, written by the same run)"):
                for row in graph.query(TOP):
                    say(f"{row['name']}: {row['influence']:.4f}")
            with step("The same files again, and then new ones: customers moved, referrals were taken back"):
                again = pipelines.run(crm, graph, spark=used, actor="nightly")
                say(f"run again: {again.outcome}")
                data.make_more(raw)
                second = pipelines.run(crm, graph, spark=used, publish="audit", actor="nightly")
                _say_all(say, run_lines(second))
            with step("All runs, newest first"):
                _say_all(say, history_lines(pipelines.status(graph, "crm")))
            with step("Where the values of one customer come from"):
                _say_all(say, map(_source_line, graph.blame("Person", CUSTOMER).properties))
    finally:
        if spark is None:
            stop(used)


def _source_line(value: Any) -> str:
    """Return who wrote a value, from which files or by which step, and who merged it."""
    source = " and ".join(Path(file).name for file in value.files) or value.author.message
    merged = "" if value.merge is None else f", merged by {value.merge.actor}"
    return f"{value.name:10} by {value.author.actor} from {source}{merged}"


def _merge(graph: omnigraph.Graph, report: pipelines.RunReport, say: Callable[[object], None]) -> None:
    """Review what a run proposes, and merge it."""
    if report.proposal is None:
        raise SystemExit(f"nothing was proposed: {report.outcome}")
    proposal = graph.proposals.get(report.proposal)
    say(f"proposal {proposal.number}: {proposal.title}")
    proposal.approve(actor="mira")
    say(proposal.merge(actor="mira"))


def _say_all(say: Callable[[object], None], lines: Any) -> None:
    for line in lines:
        say(line)


def _module(name: str) -> Any:
    """Return a module of this folder, which is no package."""
    spec = importlib.util.spec_from_file_location(f"crm_{name}", HERE / f"{name}.py")
    if spec is None or spec.loader is None:
        raise SystemExit(f"{name}.py is missing")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        try:
            main(Path(temporary))
        except omnigraph.OmnigraphError as problem:
            sys.exit(f"error: {problem}")
