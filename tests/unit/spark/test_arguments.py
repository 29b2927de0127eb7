"""What calls on Spark refuse before there is a session of it."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import pytest

import omnigraph
from omnigraph import spark
from omnigraph.engine.constraints.kernel import KernelSettings
from omnigraph.errors import OmnigraphError, UsageError
from omnigraph.spark.rules import RuleSettings
from omnigraph.spark.source.options import SourceOptions
from omnigraph.store.staging.compaction import CompactionPolicy

SCHEMA = "node Person { name: String @key }"
EVERYBODY = "query q() { match { $p: Person } return { $p.name } }"
NOT_NUMBERS = ["x", True, [], math.nan, math.inf, -1, 1.5]
SETTINGS: dict[Any, dict[str, list[Any]]] = {
    spark.SparkLoadSettings: {
        "part_bytes": [*NOT_NUMBERS, 0],
        **{
            name: [*NOT_NUMBERS, 0, None]
            for name in ("part_rows", "fragment_rows", "flush_bytes", "merge_rows", "attempts")
        },
        "read": [None, "x", {}],
        "rules": [None, "x", {}],
    },
    spark.SparkHistorySettings: {
        "whole_rows": [*NOT_NUMBERS, None],
        **{name: [*NOT_NUMBERS, 0, None] for name in ("memory_bytes", "read_rows", "write_rows", "fragment_rows")},
    },
    RuleSettings: {
        "kernel": [None, "x"],
        **{name: [*NOT_NUMBERS, 0, None] for name in ("bucket_rows", "split_rows")},
    },
    KernelSettings: {
        "memory_limit_bytes": [*NOT_NUMBERS, 0, None],
        "threads": [*NOT_NUMBERS, 0, None, 10_000],
        "parallel_from_rows": [*NOT_NUMBERS, None],
        "uses_proofs": ["no", 1, None],
    },
}


@pytest.mark.parametrize("kind", SETTINGS)
def test_a_setting_that_makes_no_sense_is_refused_when_it_is_made(kind):
    for name, values in SETTINGS[kind].items():
        for value in values:
            with pytest.raises(UsageError) as refused:
                kind(**{name: value})
            assert refused.value.details.what == name, value


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    relaxed = omnigraph.TxnSettings(durability="relaxed")
    with omnigraph.init(str(tmp_path_factory.mktemp("g") / "g"), SCHEMA, settings=relaxed) as graph:
        yield graph


@pytest.fixture
def no_spark(monkeypatch):
    def start(*args: object, **options: object) -> None:
        pytest.fail(f"a session was asked for: {args} {options}")

    # The function of this name hides the module.
    monkeypatch.setattr(import_module("omnigraph.spark.sessions.session"), "active_session", start)


ARGUMENTS = {
    "graph": lambda _: spark.load(7, ["-"]),
    "a class as a graph": lambda _: spark.export(omnigraph.Graph, "out"),
    "sources": lambda graph: spark.load(graph, "people.jsonl"),
    "a source": lambda graph: spark.load(graph, [7]),
    "mode": lambda graph: spark.load(graph, ["-"], "Merge"),
    "errors_to": lambda graph: spark.load(graph, ["-"], errors_to=7),
    "progress": lambda graph: spark.load(graph, ["-"], progress="x"),
    "limit": lambda graph: spark.load(graph, ["-"], limit="x"),
    "actor": lambda graph: spark.load(graph, ["-"], actor="\ud800"),
    "expected_head": lambda graph: spark.load(graph, ["-"], expected_head=7),
    "cluster_by": lambda graph: spark.load(graph, ["-"], cluster_by="Key"),
    "cluster_by as a list": lambda graph: spark.load(graph, ["-"], cluster_by=["name"]),
    "cluster_by without names": lambda graph: spark.load(graph, ["-"], cluster_by={"Person": []}),
    "settings": lambda graph: spark.load(graph, ["-"], settings=omnigraph.LoadSettings()),
    "spark": lambda graph: spark.load(graph, ["-"], spark="local[2]"),
    "frames": lambda graph: spark.load_frames(graph, "x"),
    "a frame": lambda graph: spark.load_frames(graph, {"Person": 7}),
    "columns": lambda graph: spark.load_frames(graph, {}, columns="x"),
    "columns of a type": lambda graph: spark.load_frames(graph, {}, columns={"Person": "x"}),
    "mode of frames": lambda graph: spark.load_frames(graph, {}, "Merge"),
    "a stream": lambda graph: spark.write_stream("x", graph, "Person", app="a"),
    "mode of a stream": lambda graph: spark.write_stream("x", graph, "Person", "overwrite", app="a"),
    "name of a stream": lambda graph: spark.write_stream("x", graph, "Person", app=""),
    "format": lambda graph: spark.export(graph, "out", "JSONL"),
    "types of an export": lambda graph: spark.export(graph, "out", types="Person"),
    "progress of an export": lambda graph: spark.export(graph, "out", progress=7),
    "settings of an export": lambda graph: spark.export(graph, "out", settings="x"),
    "types": lambda graph: spark.optimize(graph, types="Person"),
    "policy": lambda graph: spark.optimize(graph, policy="x"),
    "policy of nan": lambda graph: spark.optimize(graph, policy=CompactionPolicy(fair_share=math.nan)),
    "progress of an optimization": lambda graph: spark.optimize(graph, progress="x"),
    "a branch to merge": lambda graph: spark.merge(graph, "none"),
    "a branch to merge into": lambda graph: spark.merge(graph, "main", into=7),
    "resolve": lambda graph: spark.merge(graph, "main", resolve="mine"),
    "rest": lambda graph: spark.preview_merge(graph, "main", rest="ours"),
    "settings of a merge": lambda graph: spark.merge(graph, "main", settings=omnigraph.LoadSettings()),
    "a session to merge with": lambda graph: spark.merge(graph, "main", spark="local[2]"),
    "a commit to revert": lambda graph: spark.revert(graph, "none"),
    "a state to compare": lambda graph: spark.diff(graph, "none"),
    "kinds": lambda graph: spark.diff(graph, "main", kinds=("vertex",)),
    "options": lambda graph: spark.query(graph, EVERYBODY, options="x"),
    "options of a frame": lambda graph: spark.frame(graph, EVERYBODY, options="x"),
    "the form of parameters": lambda graph: spark.query(graph, EVERYBODY, params_form="x"),
    "master": lambda _: spark.session(master=7),
    "remote": lambda _: spark.session(remote="\ud800"),
    "conf": lambda _: spark.session(conf="x"),
    "a value of conf": lambda _: spark.session(conf={"spark.driver.cores": 2}),
    "log": lambda _: spark.session(log=7),
    "log of no name": lambda _: spark.session(log="a\0b"),
    "is_short": lambda _: spark.session(is_short="no"),
}


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize("case", ARGUMENTS)
def test_an_argument_that_makes_no_sense_is_refused_before_spark_starts(graph, case):
    with pytest.raises(OmnigraphError) as refused:
        ARGUMENTS[case](graph)
    assert refused.value.code != "internal"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("partitions", "9" * 5000),
        ("partitions", "1e400"),
        ("max_commits", "-1"),
        ("max_commits", "nan"),
        ("mode", "merg"),
        ("params", "[" * 100_000),
        ("storage_options", "[" * 100_000),
        ("storage_options", 7),
        ("actor", 7),
        ("message", "\ud800"),
        ("type", None),
        ("pushdown", "maybe"),
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_an_option_of_the_source_that_makes_no_sense_is_refused(name, text):
    with pytest.raises(OmnigraphError) as refused:
        SourceOptions.parse({"graph": "nowhere", name: text})
    assert refused.value.details.what == name
    assert "[[[" not in str(refused.value.details) or name != "storage_options"
