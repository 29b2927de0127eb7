"""The tasks of a load on Spark, run in this process, against the embedded load: same graphs, counts and errors."""

from __future__ import annotations

import json
import os
import shutil

import pytest
from tests.contract import test_constraint_surfaces as surfaces
from tests.corpus.test_load import CASES, input_of
from tests.load_contract import export_of, facts_of, failure_of, told
from tests.load_graph import export, load_files, load_lines, make_graph
from tests.marks import every
from tests.session_graph import create_graph, open_session, read_graph

from omnigraph.engine.load import load
from omnigraph.errors import OmnigraphError
from omnigraph.spark.loads.job import SparkLoadRequest
from omnigraph.spark.loads.load_files import run_load
from omnigraph.spark.loads.options import SparkLoadSettings
from omnigraph.spark.runner import InProcessRunner

pytestmark = pytest.mark.more

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"
KNOWN = [param for param in CASES if "patch" not in param.values[1]]
# Every line is a part of its own, or nearly.
TINY = SparkLoadSettings(part_bytes=64)


def run_tasks(graph, sources, mode, settings=TINY, **options):
    """Load through the tasks of Spark, here."""
    return run_load(graph, sources, SparkLoadRequest(mode=mode, settings=settings, **options), InProcessRunner())


@pytest.mark.parametrize(("case", "mode"), every(3, KNOWN if LONG else KNOWN[::4]))
def test_a_load_ends_as_the_embedded_one_does(case, mode, tmp_path):
    data = tmp_path / "data.jsonl"
    data.write_bytes(input_of(case))
    with make_graph(tmp_path / "graph", case.sections["schema"]) as graph:
        if "seed" in case.sections:
            load_lines(graph, tmp_path / "seed.jsonl", case.sections["seed"], "append")
        before = export(graph)
        if case.sections["expect"].startswith("error"):
            # What fails changes nothing, so that both may try on one graph.
            assert failure_of(run_tasks, graph, [str(data)], mode) == failure_of(load_files, graph, [str(data)], mode)
            assert export(graph) == before
        else:
            shutil.copytree(tmp_path / "graph", tmp_path / "other")
            result = run_tasks(graph, [str(data)], mode)
            with open_session(tmp_path / "other") as other:
                wanted = load_files(other, [str(data)], mode)
                assert export_of(graph) == export_of(other)
            assert told(result) == told(wanted)
    assert not list((tmp_path / "graph").glob("__scratch/*"))


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_a_broken_rule_gives_the_error_of_the_embedded_load(mode, tmp_path, monkeypatch):
    create_graph(tmp_path / "graph", surfaces.SCHEMA, surfaces.SEED)
    surface = f"load {mode}"
    with open_session(tmp_path / "graph") as session:

        def both(branch_writer, catalog, sources, mode):
            failed = failure_of(run_tasks, session, sources, mode)
            with pytest.raises(OmnigraphError) as caught:
                load(branch_writer, catalog, sources, mode)
            assert failed == facts_of(caught.value)
            raise caught.value

        monkeypatch.setattr(surfaces, "load", both)
        before = read_graph(session)
        for case in surfaces.CASES:
            if surface not in case.not_on:
                with pytest.raises(OmnigraphError) as caught:
                    surfaces.SURFACES[surface](session, case, tmp_path)
                assert caught.value.details.items[0].rule == case.rule, case.name
        assert read_graph(session) == before


def test_all_problems_go_to_the_errors_file_as_in_the_embedded_load(tmp_path):
    lines = [
        *({"type": "Person", "data": {"name": f"p{number % 150}", "age": number}} for number in range(300)),
        *({"edge": "Knows", "from": "ada", "to": f"q{number}", "data": {"id": f"e{number}"}} for number in range(120)),
    ]
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps(line) + "\n" for line in lines))
    create_graph(tmp_path / "graph", surfaces.SCHEMA, surfaces.SEED)
    with open_session(tmp_path / "graph") as session:
        for sources in ([str(data)], [str(data), str(data)]):
            parts = SparkLoadSettings(part_bytes=5000)
            ours = failure_of(run_tasks, session, sources, "append", parts, errors_to=tmp_path / "ours")
            theirs = failure_of(load_files, session, sources, "append", errors_to=tmp_path / "theirs")
            assert ours == theirs
            assert (tmp_path / "ours").read_text() == (tmp_path / "theirs").read_text()
            assert len(ours["details"]["items"]) == 100 < ours["details"]["total"]
