"""Change logs through the tasks of Spark, run in this process, against the embedded load and the plain model."""

from __future__ import annotations

import json
import os
import shutil
from random import Random

import pytest
from tests.load_contract import facts_of, failure_of, told
from tests.load_graph import load_files, load_lines, make_graph
from tests.prop.model_change_log import SCHEMA, dealt, disordered, random_log
from tests.prop.test_apply_model import cuts, is_balanced, rows_of, write
from tests.session_graph import open_session
from tests.unit.spark.load.test_tables import RestlessRunner

from omnigraph.errors import ConstraintViolationError, ExpectedVersionMismatchError, OmnigraphError
from omnigraph.spark.loads.job import SparkLoadRequest
from omnigraph.spark.loads.load_files import run_load
from omnigraph.spark.loads.options import SparkLoadSettings
from omnigraph.spark.runner import InProcessRunner
from omnigraph.txn.manifest.rows import BatchMark

pytestmark = pytest.mark.more

SEEDS = range(100 if os.environ.get("OMNIGRAPH_FUZZ") == "long" else 4)
LENGTH = 60
# Parts of a few lines, and ranges of a few entities.
TINY = SparkLoadSettings(part_bytes=300, merge_rows=8, flush_bytes=2000)


def apply(graph, sources, runner=None, settings=TINY, **options):
    request = SparkLoadRequest(mode="apply", settings=settings, **options)
    return run_load(graph, sources, request, runner or InProcessRunner())


def line(kind, name, op=None, seq=None, **data):
    marks = {key: value for key, value in (("_op", op), ("_seq", seq)) if value is not None}
    return {"type": kind, **marks, "data": {"name": name, **data}}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_log_gives_the_graph_and_the_counts_of_the_embedded_load(seed, tmp_path):
    random = Random(1000 + seed)  # noqa: S311 - a seeded generator is what makes the run repeatable
    log, states = random_log(random, LENGTH)
    make_graph(tmp_path / "graph", SCHEMA).close()
    shutil.copytree(tmp_path / "graph", tmp_path / "other")
    with open_session(tmp_path / "graph") as graph, open_session(tmp_path / "other") as other:
        for begin, end in cuts(random, LENGTH):
            sources = write(tmp_path / "log.jsonl", disordered(random, log[begin:end]))
            result, wanted = apply(graph, sources, RestlessRunner()), load_files(other, sources, "apply")
            assert (told(result), result.changes) == (told(wanted), wanted.changes)
            assert is_balanced(result.changes, result.total)
            assert rows_of(graph) == states[end - 1].rows(), (seed, begin, end)
    assert not list((tmp_path / "graph").glob("__scratch/*"))


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_that_are_dealt_out_to_calls_of_both_engines_give_the_graph_of_all_rows(seed, tmp_path):
    random = Random(2000 + seed)  # noqa: S311 - a seeded generator is what makes the run repeatable
    log, states = random_log(random, LENGTH, ("upsert", "delete"))
    make_graph(tmp_path / "graph", SCHEMA).close()
    shutil.copytree(tmp_path / "graph", tmp_path / "other")
    refused = []
    with open_session(tmp_path / "graph") as graph, open_session(tmp_path / "other") as other:
        for number, rows in enumerate([*dealt(random, log, 10), []]):
            sources = write(tmp_path / "log.jsonl", refused + rows)
            try:
                wanted = load_files(other, sources, "apply")
            except ConstraintViolationError as error:
                facts = facts_of(error)
                refused += rows
            else:
                facts = None
            if facts is not None:
                assert failure_of(apply, graph, sources, limit=100) == facts
                continue
            # What one engine remembers the other one knows.
            result = apply(graph, sources) if number % 3 else load_files(graph, sources, "apply")
            assert (told(result), result.changes) == (told(wanted), wanted.changes), (seed, number)
            assert (result.commit is None) == (wanted.commit is None)
            refused = []
        assert refused == []
        assert rows_of(graph) == rows_of(other) == states[-1].rows(), seed
        runs = [len(one.snapshot().state.sequences[""].runs) for one in (graph, other)]
        assert max(runs) <= 6
    assert not list((tmp_path / "graph").glob("__scratch/*"))


def test_sequences_of_another_kind_than_before_are_told_as_the_embedded_load_tells_it(tmp_path):
    with make_graph(tmp_path / "graph", SCHEMA) as graph:
        apply(graph, write(tmp_path / "log.jsonl", [line("Person", "ada", seq=1)]))
        sources = write(tmp_path / "log.jsonl", [line("Person", "bob", seq="2026-01-01")])
        assert failure_of(apply, graph, sources) == failure_of(load_files, graph, sources, "apply")
        assert list(rows_of(graph)["Person"]) == ["ada"]


BROKEN = {
    "operation": [line("Person", "ada", "drop")],
    "sequence": [line("Person", "ada", seq=1), line("Person", "bob"), line("Person", "cid", seq=2)],
    "kinds": [line("Person", f"p{number}", seq=number) for number in range(30)]
    + [line("Person", "z", seq="2026-01-01")],
    "end": [{"edge": "Knows", "from": "ada", "to": "zoe", "data": {"id": "e"}}],
    "two ends": [
        {"edge": "Knows", "from": f"x{number}", "to": "ada", "data": {"id": f"e{number}"}} for number in range(20)
    ],
    "required": [{"type": "Team", "_op": "patch", "data": {"id": "x"}}],
}


@pytest.mark.parametrize("case", BROKEN)
@pytest.mark.parametrize("errors_to", [False, True])
def test_what_is_wrong_is_told_as_the_embedded_load_tells_it(case, errors_to, tmp_path):
    with make_graph(tmp_path / "graph", SCHEMA) as graph:
        load_lines(graph, tmp_path / "seed.jsonl", json.dumps(line("Person", "ada")) + "\n", "apply")
        before = rows_of(graph)
        sources = write(tmp_path / "log.jsonl", BROKEN[case])
        files = [{"errors_to": tmp_path / name} if errors_to else {} for name in ("theirs", "ours")]
        found = failure_of(apply, graph, sources, limit=3, **files[0])
        with pytest.raises(OmnigraphError) as caught:
            load_files(graph, sources, "apply", limit=3, **files[1])
        assert found == facts_of(caught.value)
        if errors_to:
            assert (tmp_path / "theirs").read_text() == (tmp_path / "ours").read_text()
        assert rows_of(graph) == before


def test_edges_go_with_their_nodes_or_keep_them(tmp_path):
    with make_graph(tmp_path / "graph", SCHEMA) as graph:
        people = [line("Person", f"p{number}") for number in range(30)]
        knows = [
            {"edge": "Knows", "from": f"p{number}", "to": f"p{(number + 1) % 30}", "data": {"id": f"e{number}"}}
            for number in range(30)
        ]
        apply(graph, write(tmp_path / "log.jsonl", people + knows))
        gone = write(tmp_path / "gone.jsonl", [line("Person", f"p{number}", "delete") for number in range(0, 30, 10)])
        wanted = failure_of(load_files, graph, gone, "apply", on_delete="refuse")
        assert failure_of(apply, graph, gone, on_delete="refuse") == wanted
        result = apply(graph, gone)
        assert (result.changes.deleted, result.changes.cascaded, result.changes.written) == (3, 6, 0)
        assert len(rows_of(graph)["Knows"]) == 24
        assert apply(graph, gone).commit is None


def test_row_ids_stay_and_equal_rows_are_left_alone(tmp_path):
    def stored(graph):
        names = ["id", "_rowid", "_row_last_updated_at_version"]
        return {row["id"]: row for row in graph.snapshot().table("node:Person").read(names).to_pylist()}

    with make_graph(tmp_path / "graph", SCHEMA) as graph:
        apply(graph, write(tmp_path / "log.jsonl", [line("Person", f"p{number}", age=1) for number in range(30)]))
        before = stored(graph)
        rows = [line("Person", f"p{number}", "patch", age=1 if number % 2 else 2) for number in range(30)]
        result = apply(graph, write(tmp_path / "log.jsonl", rows))
        assert (result.changes.written, result.changes.unchanged) == (15, 15)
        after = stored(graph)
        assert {key: row["_rowid"] for key, row in after.items()} == {key: row["_rowid"] for key, row in before.items()}
        assert sum(after[key] == before[key] for key in before) == 15


def test_a_log_is_decided_again_when_somebody_else_writes_first(tmp_path):
    with make_graph(tmp_path / "graph", SCHEMA) as graph:
        load_lines(graph, tmp_path / "seed.jsonl", json.dumps(line("Person", "ada", age=1)) + "\n", "apply")

        def meddle():
            rows = [line("Person", "ada", age=5), line("Person", "bob")]
            load_files(graph, write(tmp_path / "other.jsonl", rows), "apply")

        sources = write(
            tmp_path / "log.jsonl", [line("Person", "ada", "patch", city="Oslo"), line("Person", "bob", "delete")]
        )
        with pytest.raises(ExpectedVersionMismatchError):
            apply(graph, sources, RestlessRunner(before={"write the rows": meddle}), on_conflict="refuse")
        load_files(graph, write(tmp_path / "seed.jsonl", [line("Person", "ada", age=1)]), "apply")
        result = apply(graph, sources, RestlessRunner(before={"write the rows": meddle}))
        assert (result.changes.written, result.changes.deleted) == (1, 1)
        assert rows_of(graph)["Person"] == {"ada": {"age": 5, "city": "Oslo"}}


def test_a_batch_is_loaded_once(tmp_path):
    with make_graph(tmp_path / "graph", SCHEMA) as graph:
        sources = write(tmp_path / "log.jsonl", [line("Person", "ada")])
        first = apply(graph, sources, batch=BatchMark(app="nightly", number=7))
        again = apply(graph, [str(tmp_path / "gone.jsonl")], batch=BatchMark(app="nightly", number=7))
        assert (again.commit, again.is_repeat, first.is_repeat) == (first.commit, True, False)
