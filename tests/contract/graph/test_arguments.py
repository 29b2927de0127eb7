"""Whatever is given as a setting or an argument is taken as it is meant, or refused with an error of ours."""

from __future__ import annotations

import io
import math
import pickle
import threading
from pathlib import Path

import pytest

import omnigraph
from omnigraph.engine.embedding import Secret
from omnigraph.errors import Kind, OmnigraphError, UsageError
from omnigraph.operations.maintenance import OptimizeRequest
from omnigraph.operations.reads import QueryRequest
from omnigraph.operations.writes import LoadRequest
from omnigraph.store.location import Storage
from omnigraph.store.staging.compaction import CompactionPolicy

RELAXED = omnigraph.TxnSettings(durability="relaxed")
SCHEMA = "node Person { name: String @key  age: I32? }"
EVERYBODY = "query q() { match { $p: Person } return { $p.name } }"
NODES = "query q() { match { $p: Person } return { $p } }"
INSERT = "query a($name: String) { insert Person { name: $name } }"
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
        "mode": ["Auto", "", 1, []],
        **{name: ["x", True, 1.5, math.nan, -1, 1 << 64] for name in ("memory_bytes", "timeout_ms", "max_rows")},
        "rules_off": ["push_filters", 7, None, [7], [[]], ["\ud800"]],
        "cancel": [True, "x", object(), threading.Event],
        "streams": ["no", 1, None],
    },
    omnigraph.EmbeddingSettings: {
        "provider": ["Mock", "", None, 7, []],
        "model": [7, b"x", [], "\ud800"],
        "base_url": [7, b"http://x", [], "x", "http://\ud800"],
        "api_key": ["sk-1", 7, Secret(7), Secret("\ud800")],  # type: ignore[arg-type]
        "timeout_ms": [*NOT_NUMBERS, 0, 1.5],
        "attempts": [*NOT_NUMBERS, 0, 1.5],
        **{name: [*NOT_NUMBERS, 1.5] for name in ("deadline_ms", "backoff_ms")},
    },
    omnigraph.PageLimits: {name: [*NOT_NUMBERS, 0, 1.5] for name in ("changes", "size_bytes", "commits")},
}


def refusal(call):
    """Return the error of ours that a call ends with, or None."""
    try:
        call()
    except OmnigraphError as error:
        return error
    return None


def taken(calls):
    """Return which of some calls, by name, do not end with an error of ours that says what is wrong."""
    refused = {name: refusal(call) for name, call in calls.items()}
    return [name for name, error in refused.items() if error is None or error.code == "internal"]


@pytest.mark.parametrize("kind", SETTINGS)
def test_a_setting_that_makes_no_sense_is_refused_when_it_is_made(kind):
    for name, values in SETTINGS[kind].items():
        for value in values:
            refused = refusal(lambda name=name, value=value: kind(**{name: value}))
            assert refused is not None, (name, value)
            assert (refused.kind, refused.details.what) == (Kind.INVALID, name), (name, value)


@pytest.mark.parametrize(
    ("make", "meant"),
    [
        (lambda: omnigraph.TxnSettings(durability="Full"), "full"),  # type: ignore[arg-type]
        (lambda: omnigraph.QueryOptions(mode="Indexd"), "indexed"),  # type: ignore[arg-type]
        (lambda: omnigraph.EmbeddingSettings(provider="Gemini"), "gemini"),  # type: ignore[arg-type]
    ],
    ids=["durability", "mode", "provider"],
)
def test_the_word_that_was_meant_is_suggested(make, meant):
    with pytest.raises(OmnigraphError) as refused:
        make()
    assert f"did you mean '{meant}'?" in refused.value.hint


@pytest.fixture(scope="module")
def graph(tmp_path_factory, backend):
    with omnigraph.init(str(tmp_path_factory.mktemp("g") / "g"), SCHEMA, settings=RELAXED) as graph:
        graph.mutate('query a() { insert Person { name: "x" } }')
        graph.create_branch("side")
        yield graph


NOT_TEXTS = [7, None, b"x", [], "\ud800"]
BY_NAME = {
    "branch": lambda graph, name: graph.branch(name),
    "create_branch": lambda graph, name: graph.create_branch(name),
    "delete_branch": lambda graph, name: graph.delete_branch(name),
    "tag": lambda graph, name: graph.create_tag(name),
    "delete_tag": lambda graph, name: graph.delete_tag(name),
    "commit": lambda graph, name: graph.get_commit(name),
    "at": lambda graph, name: graph.at(name),
    "diff": lambda graph, name: graph.diff(name),
    "merge": lambda graph, name: graph.merge(name),
    "revert": lambda graph, name: graph.revert(name),
    "blame": lambda graph, name: graph.blame(name, name),
    "query": lambda graph, name: graph.query(name),
    "load": lambda graph, name: graph.load(7 if name == [] else name),
    "apply_schema": lambda graph, name: graph.apply_schema(name),
}


@pytest.mark.parametrize("verb", BY_NAME)
def test_a_name_that_is_not_a_text_is_an_error_of_ours(graph, verb):
    assert taken({ascii(name): lambda name=name: BY_NAME[verb](graph, name) for name in NOT_TEXTS}) == []


ARGUMENTS = {
    "keep": lambda graph: graph.cleanup(keep="x"),
    "keep as a flag": lambda graph: graph.cleanup(keep=True),
    "keep of a half": lambda graph: graph.cleanup(keep=1.5),
    "older_than nan": lambda graph: graph.cleanup(older_than=math.nan),
    "older_than inf": lambda graph: graph.cleanup(older_than=math.inf),
    "older_than text": lambda graph: graph.cleanup(older_than="x"),
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
    "options": lambda graph: graph.query(EVERYBODY, options="x"),
    "options of a plan": lambda graph: graph.explain(EVERYBODY, options={}),
    "run": lambda graph: graph.explain(EVERYBODY, run="no"),
    "a rule that is not there": lambda graph: graph.query(
        EVERYBODY, options=omnigraph.QueryOptions(rules_off=frozenset({"push_filter"}))
    ),
    "embedding": lambda graph: omnigraph.open(graph.uri, embedding="mock"),
    "embedding of a number": lambda graph: omnigraph.open(graph.uri, embedding=7),
    "embedding of a dict": lambda graph: omnigraph.open(graph.uri, embedding={"provider": "mock"}),
    "embedding of a class": lambda graph: omnigraph.open(graph.uri, embedding=omnigraph.EmbeddingSettings),
    "embedding of a new graph": lambda graph: omnigraph.init(f"{graph.uri}2", SCHEMA, embedding="mock"),
    "storage": lambda graph: graph.status(storage="no"),
    "dry_run of a cleanup": lambda graph: graph.cleanup(keep=1000, dry_run="no"),
    "patch": lambda graph: graph.load("/dev/null", "merge", patch="no"),
    "mode of a load": lambda graph: graph.load("/dev/null", "Merge"),
    "mode of a load as a list": lambda graph: graph.load("/dev/null", []),
    "on_delete of a load": lambda graph: graph.load("/dev/null", "apply", on_delete="never"),
    "on_delete of a merge": lambda graph: graph.load("/dev/null", "merge", on_delete="refuse"),
    "batch of a load": lambda graph: graph.load("/dev/null", "apply", batch="nightly"),
    "number of a batch": lambda graph: graph.load("/dev/null", "apply", batch=("nightly", -1)),
    "progress of a load": lambda graph: graph.load("/dev/null", progress="x"),
    "errors_to": lambda graph: graph.load("/dev/null", errors_to=7),
    "errors_to of a name that is none": lambda graph: graph.load("/dev/null", errors_to="a\0b"),
    "errors_to of half a character": lambda graph: graph.load("/dev/null", errors_to="\ud800"),
    "allow_data_loss": lambda graph: graph.apply_schema(SCHEMA, allow_data_loss="no"),
    "target of an export": lambda graph: graph.export(7),
    "format": lambda graph: graph.export(f"{graph.uri}-out", "JSONL"),
    "format as a list": lambda graph: graph.export(f"{graph.uri}-out", []),
    "types of an export": lambda graph: graph.export(f"{graph.uri}-out", types="Person"),
    "types of an export that are none": lambda graph: graph.export(f"{graph.uri}-out", types=[[]]),
    "progress of an export": lambda graph: graph.export(f"{graph.uri}-out", progress=7),
    "settings of an export": lambda graph: graph.export(f"{graph.uri}-out", settings="x"),
    "sink": lambda graph: graph.export_stream("out.jsonl"),
    "no sink": lambda graph: graph.export_stream(None),
    "a sink for texts": lambda graph: graph.export_stream(io.StringIO()),
    "a closed sink": lambda graph: graph.export_stream(_closed(io.BytesIO())),
    "a sink for reading": lambda graph: graph.export_stream(io.BufferedReader(io.BytesIO())),
    "progress of a stream": lambda graph: graph.export_stream(io.BytesIO(), progress=7),
    "types of a stream": lambda graph: graph.export_stream(io.BytesIO(), types="Person"),
    "a type that is a list": lambda graph: graph.optimize([[]]),
    "after": lambda graph: graph.log(after=7),
    "after half a character": lambda graph: graph.log(after="\ud800"),
    "limit of 0": lambda graph: graph.log(limit=0),
    "actor of a log": lambda graph: graph.log(actor=7),
    "operation of a log": lambda graph: graph.log(operation=[]),
    "type of a log": lambda graph: graph.log(type_name=[]),
    "since": lambda graph: graph.log(since=7),
    "until": lambda graph: graph.log(until=[]),
    "limit of a history": lambda graph: graph.blame("Person", "x", limit="x"),
    "limit of a history nan": lambda graph: graph.blame("Person", "x", limit=math.nan),
    "limit of a history below": lambda graph: graph.blame("Person", "x", limit=-1),
    "limit of a network": lambda graph: graph.to_networkx(limit="x"),
    "limit of a network nan": lambda graph: graph.to_networkx(limit=math.nan),
    "limit of a network below": lambda graph: graph.to_networkx(limit=-1),
    "limit of a network of rows": lambda graph: graph.query(NODES).to_networkx(limit="x"),
    "limit of a network of rows below": lambda graph: graph.query(NODES).to_networkx(limit=-1),
    "width of a table": lambda graph: graph.query(EVERYBODY).to_table(max_column_width="x"),
    "layout of a table": lambda graph: graph.query(EVERYBODY).to_table(layout="Wrap"),
    "javascript": lambda graph: graph.query(EVERYBODY).to_json(javascript="no"),
    "start of a feed": lambda graph: graph.feed(7),
    "interval of a feed": lambda graph: graph.feed("now", interval_s=0),
    "whether to follow": lambda graph: graph.feed("now", follow="yes"),
    "batch": lambda graph: graph.apply({}),
    "batches": lambda graph: graph.apply([7]),
    "page token of a commit": lambda graph: graph.commit_changes(graph.log()[0], page_token=7),
    "limits": lambda graph: graph.feed("now", limits=7),
    "kinds": lambda graph: graph.feed("now", kinds="node"),
    "kinds that are none": lambda graph: graph.feed("now", kinds=[[]]),
    "kinds as a number": lambda graph: graph.feed("now", kinds=7),
    "types of a feed": lambda graph: graph.feed("now", types="Person"),
    "types of a feed that are none": lambda graph: graph.feed("now", types=[7]),
    "ops": lambda graph: graph.diff("~1", ops=["Insert"]),
    "ops as a text": lambda graph: graph.diff("~1", ops="insert"),
    "ids": lambda graph: graph.diff("~1", ids=[[]]),
    "ids as a text": lambda graph: graph.diff("~1", ids="x"),
    "resolve": lambda graph: graph.merge("side", resolve="Ours"),
    "resolve by wrong keys": lambda graph: graph.merge("side", resolve={"Person": "ours"}),
    "rest of nothing": lambda graph: graph.merge("side", rest="ours"),
    "rest of a mapping": lambda graph: graph.merge("side", resolve={}, rest="Ours"),
    "resolve as a list": lambda graph: graph.preview_merge("side", resolve=[]),
    "resolve of a revert": lambda graph: graph.revert(graph.log()[0], resolve=7),
    "expected_head": lambda graph: graph.mutate(EVERYBODY, expected_head=7),
    "rows of a batch": lambda graph: graph.mutate_batch(INSERT, 7),
    "rows of a batch as a text": lambda graph: graph.mutate_batch(INSERT, "x"),
    "params": lambda graph: graph.mutate(INSERT, 7),
    "actor": lambda graph: graph.mutate(INSERT, {}, actor=7),
    "message": lambda graph: graph.create_tag("t", message=7),
    "policy": lambda graph: graph.backend.execute(OptimizeRequest(policy="x")),
    "limit of problems": lambda graph: graph.backend.execute(LoadRequest(sources=["/dev/null"], limit="x")),
    "the form of parameters": lambda graph: graph.backend.execute(QueryRequest(text=EVERYBODY, params_form="Host")),
}
FLAGS = ("confirm", "force", "discard")
NOT_FLAGS = ("x", "no", 1, None, [])
NOT_POLICIES = {
    "target_rows": [*NOT_NUMBERS, 0, 1.5],
    "fair_share": NOT_NUMBERS,
    "deleted_share": [*NOT_NUMBERS, 1.5],
    "max_rows": ["x", True, -1, math.nan, 1.5],
}


def _closed(sink):
    sink.close()
    return sink


@pytest.mark.parametrize("name", FLAGS)
def test_a_repair_decides_nothing_by_what_is_not_a_flag(graph, name):
    for value in NOT_FLAGS:
        refused = refusal(lambda value=value: graph.repair(**{"confirm": True, name: value}))
        assert isinstance(refused, UsageError), value
        assert refused.details.what == name


@pytest.mark.parametrize("name", NOT_POLICIES)
def test_a_policy_that_makes_no_sense_compacts_nothing(graph, name):
    for value in NOT_POLICIES[name]:
        refused = refusal(
            lambda value=value: graph.backend.execute(OptimizeRequest(policy=CompactionPolicy(**{name: value})))
        )
        assert isinstance(refused, UsageError), value
        assert refused.details.what == name


def test_an_argument_that_makes_no_sense_is_an_error_of_ours(graph):
    head = graph.log()[0].id
    assert taken({case: lambda call=call: call(graph) for case, call in ARGUMENTS.items()}) == []
    assert graph.log()[0].id == head
    assert not Path(f"{graph.uri}2").exists()
    assert not Path(f"{graph.uri}-out").exists()


def test_results_logs_and_storage_can_be_sent_to_another_process(graph):
    assert pickle.loads(pickle.dumps(graph.query(EVERYBODY))).rows() == [{"p.name": "x"}]  # noqa: S301 - our own
    assert len(pickle.loads(pickle.dumps(graph.log()))) == len(graph.log())  # noqa: S301 - our own
    assert pickle.loads(pickle.dumps(Storage.open(graph.uri))).root == graph.uri  # noqa: S301 - our own
