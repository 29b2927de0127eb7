"""Files as a new user brings them: tasks of Spark and the embedded load make the same graph, or say the same."""

from __future__ import annotations

import shutil

import pytest
from tests.load_contract import export_of, failure_of, told
from tests.load_graph import load_files, make_graph
from tests.raw_files import SCHEMA, spoil, write_raw
from tests.session_graph import open_session
from tests.unit.spark.load.test_contract import TINY, run_tasks

from omnigraph.engine.load import Dialect, Source
from omnigraph.engine.load.sources.expand import expand_sources
from omnigraph.spark.loads.options import SparkLoadSettings


@pytest.mark.parametrize("settings", [TINY, SparkLoadSettings()])
def test_both_engines_make_the_same_graph(tmp_path, settings):
    folder = write_raw(tmp_path / "raw")
    with make_graph(tmp_path / "graph", SCHEMA) as graph:
        shutil.copytree(tmp_path / "graph", tmp_path / "other")
        result = run_tasks(graph, [str(folder)], "append", settings)
        with open_session(tmp_path / "other") as other:
            assert told(result) == told(load_files(other, [str(folder)], "append"))
            assert export_of(graph) == export_of(other)
    assert result.total == 9


@pytest.mark.parametrize("settings", [TINY, SparkLoadSettings()])
@pytest.mark.parametrize("limit", [1, 100])
def test_both_engines_tell_the_same_problems(tmp_path, settings, limit):
    folder = write_raw(tmp_path / "raw")
    spoil(folder)
    with make_graph(tmp_path / "graph", SCHEMA) as graph:
        theirs = failure_of(load_files, graph, [str(folder)], "append", limit=limit)
        assert failure_of(run_tasks, graph, [str(folder)], "append", settings, limit=limit) == theirs
    groups = [
        (one["sample"]["source"].rpartition("/")[2], one["sample"]["property"], one["count"])
        for one in theirs["details"]["groups"]
    ]
    assert groups == [
        ("cities.jsonl", "sze", 30),
        ("cities.jsonl", "size", 30),
        ("knows.tsv", None, 1),
        ("knows.tsv", "to", 1),
        ("lives.parquet", "too", 1),
        ("lives.parquet", "dst", 1),
        ("people-2.csv", "born", 40),
        ("people-2.csv", "active", 20),
    ]
    assert (theirs["details"]["total"], len(theirs["details"]["items"])) == (124, limit)


def test_wrong_columns_of_many_parts_are_told_once(tmp_path):
    lines = "".join(f'{{"id": {number}}}\n' for number in range(100))
    (tmp_path / "cities.jsonl").write_text(lines)
    source = Source(path=str(tmp_path / "cities.jsonl"), type_name="City", columns={"kee": "id"}, dialect=Dialect())
    assert len(expand_sources([source])) == 1
    with make_graph(tmp_path / "graph", SCHEMA) as graph:
        theirs = failure_of(load_files, graph, [source], "append")
        assert failure_of(run_tasks, graph, [source], "append") == theirs
    assert theirs["details"]["total"] == 1
