"""Resolutions in runs: entities keep their ids over runs, people overrule, and all of it is part of one commit."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph.errors import PipelineInvalidError, UsageError
from omnigraph.pipelines import Pipeline, quarantine
from omnigraph.pipelines.running import run
from tests.load_graph import export, make_graph

SCHEMA = """
node Customer { code: String @key  name: String?  email: String? }
node Person { canonical: String @key  name: String?  note: String? }
edge SameAs: Customer -> Person { @key(src, dst) }
edge Compared: Customer -> Customer { decision: String  score: F64?  score_name: F64?  @key(src, dst) }
"""
COLUMNS = pa.schema([("code", pa.string()), ("name", pa.string()), ("email", pa.string())])


def write(folder, file, *rows):
    """Write a file of customers: code, name and email."""
    folder.mkdir(exist_ok=True)
    table = pa.Table.from_pylist([dict(zip(COLUMNS.names, row, strict=True)) for row in rows], schema=COLUMNS)
    pq.write_table(table, folder / file)


def declared(folder, incremental=None, **options):
    """Return a pipeline of customers and the persons that they are."""
    crm = Pipeline("crm", **options)
    crm.source("customers", format="parquet", path=str(folder), incremental=incremental)
    crm.node("Customer", input="customers")
    crm.resolve(
        "people",
        input="customers",
        id="code",
        blocking=["lower(substring(name, 1, 1))"],
        compare=[("name", "jaro_winkler", 1.0)],
        threshold=0.9,
        review=0.7,
        same_as="SameAs",
        evidence="Compared",
    )
    return crm


@pytest.fixture
def graph(tmp_path):
    with make_graph(tmp_path / "graph", SCHEMA) as opened:
        yield opened


def members(graph):
    """Return the person of each customer."""
    return {one["from"]: one["to"] for one in export(graph) if one.get("edge") == "SameAs"}


def persons(graph, name="canonical"):
    """Return a property of each person, by its key."""
    found = [one["data"] for one in export(graph) if one.get("type") == "Person"]
    return {one["canonical"]: one[name] for one in found}


def pairs(graph):
    """Return what was decided about pairs."""
    return {(one["from"], one["to"]): one["data"]["decision"] for one in export(graph) if one.get("edge") == "Compared"}


def decide(graph, one, two, decision):
    """Decide a pair as people do."""
    graph.mutate(f'query d() {{ update Compared set {{ decision: "{decision}" }} where from = "{one}" and to = "{two}" }}')


def test_entities_keep_their_ids_and_people_overrule_them(spark, graph, tmp_path):
    raw = tmp_path / "raw"
    write(raw, "a.parquet", ("c2", "Mira Lowe", None), ("c3", "mira löwe", None), ("c4", "Bo Ek", None))
    crm = declared(raw, "files")
    first = run(crm, graph, spark=spark)
    assert members(graph) == {"c2": "c2", "c3": "c2", "c4": "c4"}
    assert first.changes["Person"] == {"inserted": 2, "updated": 0, "deleted": 0}
    assert first.changes["SameAs"]["inserted"] == 3
    assert len([*graph.store.iter_commits(graph.snapshot())]) == 2
    assert run(crm, graph, spark=spark).outcome == "nothing"

    # A smaller id joins, another one is new: only what is new is read, and compared with what is stored.
    graph.mutate('query n() { update Person set { note: "vip" } where canonical = "c2" }')
    write(raw, "b.parquet", ("c1", "Mira LOWE", None), ("c6", "Mira Lowen", None), ("d1", "Bo Eck", None))
    second = run(crm, graph, spark=spark)
    assert {step.name: step.rows_in for step in second.steps}["Customer"] == 3
    assert members(graph) == {"c1": "c2", "c2": "c2", "c3": "c2", "c4": "c4", "c6": "c2", "d1": "c4"}
    assert persons(graph, "note") == {"c2": "vip", "c4": None}

    # People say that c6 is somebody else: there is no new file, and the run finds their decision.
    decide(graph, "c2", "c6", "different by overrule")
    third = run(crm, graph, spark=spark)
    assert third.outcome == "published"
    assert members(graph) == {"c1": "c2", "c2": "c2", "c3": "c2", "c4": "c4", "c6": "c6", "d1": "c4"}
    assert pairs(graph)["c2", "c6"] == "different by overrule"
    assert pairs(graph)["c1", "c6"] == "cut by overrule"
    assert run(crm, graph, spark=spark).outcome == "nothing"

    # They join two that are not alike, whose ids meet: one of them is retired and gone.
    graph.mutate('query d() { insert Compared { from: "c6", to: "c4", decision: "same by overrule" } }')
    fourth = run(crm, graph, spark=spark)
    assert members(graph) == {"c1": "c2", "c2": "c2", "c3": "c2", "c4": "c4", "c6": "c4", "d1": "c4"}
    assert persons(graph, "note") == {"c2": "vip", "c4": None}
    assert fourth.changes["Person"]["deleted"] == 1
    assert run(crm, graph, spark=spark).outcome == "nothing"
