"""Whatever is given as a setting or an argument is taken as it is meant, or refused with an error of ours."""

from __future__ import annotations

import math
import pickle

import pytest

import omnigraph
from omnigraph.errors import Kind, OmnigraphError, UsageError
from omnigraph.store.location import Storage

RELAXED = omnigraph.TxnSettings(durability="relaxed")
SCHEMA = "node Person { name: String @key  age: I32? }"
EVERYBODY = "query q() { match { $p: Person } return { $p.name } }"
NOT_NUMBERS = ["x", True, None, [], math.nan, math.inf, -1]
SETTINGS = {
    omnigraph.TxnSettings: {
        "durability": ["Full", "FULL", "", None, 1],
        **dict.fromkeys(("grace_s", "claim_wait_s"), NOT_NUMBERS),
        **{name: [*NOT_NUMBERS, 0, 1.5] for name in ("max_attempts", "tail_limit", "max_group", "threads")},
    },
    omnigraph.MaintenanceSettings: {
        "threads": [*NOT_NUMBERS, 0, 10_000],
        **dict.fromkeys(("auto_every", "auto_max_rows", "unnamed_age_s", "settle_s"), NOT_NUMBERS),
    },
    omnigraph.LoadSettings: {
        **{name: [*NOT_NUMBERS, 0] for name in ("chunk_bytes", "max_line_bytes", "batch_rows", "threads")},
        "memory_bytes": NOT_NUMBERS,
        "check_sums": ["no", 1, None],
    },
    omnigraph.ExportSettings: {
        **{name: [*NOT_NUMBERS, 0] for name in ("rows_per_file", "threads")},
        "is_durable": ["no", 1, None],
    },
    omnigraph.QueryOptions: {
        "mode": ["Auto", "", 1],
        **{name: ["x", True, 1.5, math.nan, -1] for name in ("memory_bytes", "timeout_ms", "max_rows")},
    },
}
CASES = [(kind, name, value) for kind, names in SETTINGS.items() for name, values in names.items() for value in values]


@pytest.mark.parametrize(("kind", "name", "value"), CASES)
def test_a_setting_that_makes_no_sense_is_refused_when_it_is_made(kind, name, value):
    with pytest.raises(OmnigraphError) as refused:
        kind(**{name: value})
    assert (refused.value.kind, refused.value.details.what) == (Kind.INVALID, name)


def test_the_word_that_was_meant_is_suggested():
    with pytest.raises(UsageError) as refused:
        omnigraph.TxnSettings(durability="Full")
    assert refused.value.hint == "did you mean 'full'?"


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    with omnigraph.init(str(tmp_path_factory.mktemp("g") / "g"), SCHEMA, settings=RELAXED) as graph:
        graph.mutate('query a() { insert Person { name: "x" } }')
        yield graph


NOT_TEXTS = [7, None, b"x", [], "\ud800"]
BY_NAME = {
    "branch": lambda graph, name: graph.branch(name),
    "create_branch": lambda graph, name: graph.create_branch(name),
    "delete_branch": lambda graph, name: graph.delete_branch(name),
    "tag": lambda graph, name: graph.tag(name),
    "delete_tag": lambda graph, name: graph.delete_tag(name),
    "commit": lambda graph, name: graph.commit(name),
    "at": lambda graph, name: graph.at(name),
    "diff": lambda graph, name: graph.diff(name),
    "merge": lambda graph, name: graph.merge(name),
    "revert": lambda graph, name: graph.revert(name),
    "blame": lambda graph, name: graph.blame(name, name),
    "query": lambda graph, name: graph.query(name),
    "load": lambda graph, name: graph.load(7 if name == [] else name),
    "apply_schema": lambda graph, name: graph.apply_schema(name),
}


@pytest.mark.parametrize("name", NOT_TEXTS, ids=ascii)
@pytest.mark.parametrize("verb", BY_NAME)
def test_a_name_that_is_not_a_text_is_an_error_of_ours(graph, verb, name):
    with pytest.raises(OmnigraphError) as refused:
        BY_NAME[verb](graph, name)
    assert refused.value.code != "internal"


ARGUMENTS = {
    "keep": lambda graph: graph.cleanup(keep="x"),
    "keep as a flag": lambda graph: graph.cleanup(keep=True),
    "keep of a half": lambda graph: graph.cleanup(keep=1.5),
    "older_than nan": lambda graph: graph.cleanup(older_than_s=math.nan),
    "older_than inf": lambda graph: graph.cleanup(older_than_s=math.inf),
    "older_than text": lambda graph: graph.cleanup(older_than_s="x"),
    "limit": lambda graph: graph.log(limit="x"),
    "limit as a flag": lambda graph: graph.log(limit=True),
    "the name of a query": lambda graph: graph.query(EVERYBODY, None, 7),
    "a list as the name of a query": lambda graph: graph.query(EVERYBODY, None, []),
    "types": lambda graph: graph.optimize(7),
    "one type as types": lambda graph: graph.optimize("Person"),
    "settings of a load": lambda graph: graph.load("/dev/null", settings="x"),
    "a path of a load": lambda graph: graph.load("n" * 5000),
    "a path of an export": lambda graph: graph.export("n" * 5000),
    "settings": lambda graph: omnigraph.open(graph.uri, settings="x"),
    "maintenance": lambda graph: omnigraph.open(graph.uri, maintenance=7),
    "group_commit": lambda graph: omnigraph.open(graph.uri, group_commit="no"),
    "mode": lambda graph: omnigraph.open(graph.uri, mode="ro"),
    "storage_options": lambda graph: omnigraph.open(graph.uri, storage_options="x"),
    "a storage option": lambda graph: omnigraph.open(graph.uri, storage_options={"a": 1}),
    "half a character in a schema": lambda graph: omnigraph.init(f"{graph.uri}2", SCHEMA + " // \ud800"),
    "half a character in a query": lambda graph: graph.query(EVERYBODY + " // \ud800"),
    "a pickled difference": lambda graph: pickle.dumps(graph.diff("~1")),
}


@pytest.mark.parametrize("case", ARGUMENTS)
def test_an_argument_that_makes_no_sense_is_an_error_of_ours(graph, case):
    with pytest.raises(OmnigraphError) as refused:
        ARGUMENTS[case](graph)
    assert refused.value.code != "internal"


def test_results_logs_and_storage_can_be_sent_to_another_process(graph):
    assert pickle.loads(pickle.dumps(graph.query(EVERYBODY))).rows() == [{"p.name": "x"}]  # noqa: S301 - our own
    assert len(pickle.loads(pickle.dumps(graph.log()))) == len(graph.log())  # noqa: S301 - our own
    assert pickle.loads(pickle.dumps(Storage.open(graph.uri))).root == graph.uri  # noqa: S301 - our own
