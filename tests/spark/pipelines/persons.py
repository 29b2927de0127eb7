"""A small pipeline of customers and the persons that they are, the files it reads, and what it makes of them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.pipelines import Pipeline
from tests.load_graph import export

SCHEMA = """
node Customer { code: String @key  name: String?  email: String?  note: String? }
node Person { canonical: String @key  name: String?  note: String? }
edge SameAs: Customer -> Person { @key(src, dst) }
edge Compared: Customer -> Customer { decision: String  score: F64?  score_name: F64?  @key(src, dst) }
"""
COLUMNS = pa.schema([("code", pa.string()), ("name", pa.string()), ("email", pa.string())])


def write_records(folder, file, *rows):
    """Write a file of customers: code, name and email."""
    folder.mkdir(exist_ok=True)
    table = pa.Table.from_pylist([dict(zip(COLUMNS.names, row, strict=True)) for row in rows], schema=COLUMNS)
    pq.write_table(table, folder / file)


def person_pipeline(folder, incremental=None, **options):
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
    """Decide a pair as people do, whether or not a run has found it."""
    change = "update Compared set { decision: $decision } where from = $one and to = $two"
    if (one, two) not in pairs(graph):
        change = "insert Compared { from: $one, to: $two, decision: $decision }"
    text = f"query d($one: String, $two: String, $decision: String) {{ {change} }}"
    graph.mutate(text, {"one": one, "two": two, "decision": decision})
