"""Runs of pipelines on a real Spark: one commit each, with how far sources were read."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph.errors import CheckFailedError, ExpectationFailedError
from omnigraph.history.merge import revert_commit
from omnigraph.pipelines import Pipeline, drop, fail, quarantine, warn
from omnigraph.pipelines.running import run
from tests.load_graph import export, make_graph

SCHEMA = """
node Person { slug: String @key  name: String?  age: I32?  score: F64? }
node Team { code: String @key }
edge WorksIn: Person -> Team { since: Date?  @key(src, dst) }
"""


@pytest.fixture
def graph(tmp_path):
    with make_graph(tmp_path / "graph", SCHEMA) as opened:
        yield opened


def customers(folder, name, rows):
    """Write a file of customers."""
    folder.mkdir(exist_ok=True)
    fields = [("email", pa.string()), ("name", pa.string()), ("age", pa.int32()), ("team", pa.string())]
    schema = pa.schema([*fields, ("updated_at", pa.timestamp("us", tz="UTC"))])
    table = pa.Table.from_pylist(
        [{**row, "updated_at": datetime(2026, 1, 1, 0, row["at"], tzinfo=UTC)} for row in rows]
    )
    pq.write_table(table.select(schema.names).cast(schema), folder / name)


def row(number, at, **values):
    return {"email": f"P{number}@X", "name": f"p {number}", "age": number, "team": f"t{number % 2}", "at": at} | values


def pipeline(folder, incremental="updated_at", **options):
    """Return the pipeline of customers, with teams made of them."""
    crm = Pipeline("crm", **options)
    crm.source("customers", format="parquet", path=str(folder), incremental=incremental)
    crm.node("Team", name="team", sql="SELECT DISTINCT team AS code FROM customers")
    crm.node(
        "Person",
        name="person",
        input="customers",
        set={"slug": "lower(email)"},
        expect=[quarantine("adult", "age >= 0"), warn("young", "age < 100")],
    )
    crm.edge(
        "WorksIn",
        name="works_in",
        input="customers",
        src="Person(lower(email))",
        dst="Team(team)",
        missing_end="quarantine",
    )
    return crm


def people(graph):
    return {one["data"]["slug"]: one["data"] for one in export(graph) if one.get("type") == "Person"}


def test_a_run_is_one_commit_and_the_next_one_reads_only_what_is_new(spark, graph, tmp_path):
    customers(tmp_path / "raw", "a.parquet", [row(n, n) for n in range(6)])
    crm = pipeline(tmp_path / "raw")
    before = graph.snapshot().state.version
    first = run(crm, graph, spark=spark)
    assert (first.outcome, graph.snapshot().state.version) == ("published", before + 1)
    assert {step.name: (step.rows_in, step.written) for step in first.steps if step.rows_in} == {
        "team": (2, 2),
        "person": (6, 6),
        "works_in": (6, 6),
    }
    assert run(crm, graph, spark=spark).outcome == "nothing"
    customers(tmp_path / "raw", "b.parquet", [row(6, 30), row(1, 31, name="other"), row(2, 5, name="late")])
    again = run(crm, graph, spark=spark)
    assert {step.name: (step.rows_in, step.written) for step in again.steps if step.rows_in} == {
        "team": (2, 0),
        "person": (2, 2),
        "works_in": (2, 1),
    }
    assert people(graph)["p1@x"]["name"] == "other"
    # What comes late with a value that was passed is not read: that is what the column promises.
    assert people(graph)["p2@x"]["name"] == "p 2"
    assert graph.snapshot().state.version == before + 2
