"""A small pipeline of customers, the files it reads, and what it makes of them."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.pipelines import Pipeline, quarantine, warn
from tests.load_graph import export

SCHEMA = """
node Person { slug: String @key  name: String?  age: I32?  score: F64? }
node Team { code: String @key }
edge WorksIn: Person -> Team { since: Date?  @key(src, dst) }
"""
_COLUMNS = pa.schema(
    [
        ("email", pa.string()),
        ("name", pa.string()),
        ("age", pa.int32()),
        ("team", pa.string()),
        ("updated_at", pa.timestamp("us", tz="UTC")),
    ]
)


def write_customers(folder, name, rows):
    """Write a file of customers."""
    folder.mkdir(exist_ok=True)
    rows = [{**one, "updated_at": datetime(2026, 1, 1, one["at"] // 60, one["at"] % 60, tzinfo=UTC)} for one in rows]
    table = pa.Table.from_pylist([{key: one[key] for key in _COLUMNS.names} for one in rows], schema=_COLUMNS)
    pq.write_table(table, folder / name)


def row(number, at, **values):
    """Return a customer as it was at a minute."""
    return {"email": f"P{number}@X", "name": f"p {number}", "age": number, "team": f"t{number % 2}", "at": at} | values


def pipeline(folder, incremental="updated_at", name="crm", **options):
    """Return the pipeline of customers, with teams made of them."""
    crm = Pipeline(name, **options)
    crm.source("customers", format="parquet", path=str(folder), incremental=incremental)
    crm.node("Team", name="team", sql="SELECT DISTINCT team AS code FROM customers WHERE team IS NOT NULL")
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
    """Return the persons of main by their keys."""
    return {one["data"]["slug"]: one["data"] for one in export(graph) if one.get("type") == "Person"}
