"""The pipeline of the example: three exports become one graph, and stay one.

Run it with ``omnigraph pipeline run examples/crm/pipeline.py --graph …`` once the raw files are there.
"""

from __future__ import annotations

import os
from pathlib import Path

from omnigraph.pipelines import Pipeline, drop, fail, quarantine, warn

RAW = Path(os.environ.get("CRM_RAW", Path(__file__).parent / "raw"))

crm = Pipeline("crm", publish="propose")

crm.source(
    "customers",
    format="csv",
    path=str(RAW / "customers-*.csv"),
    options={"header": "true", "sep": ";", "nullValue": "NULL"},
    incremental="files",
)
crm.source("teams", format="parquet", path=str(RAW / "teams.parquet"))
crm.source("referrals", format="json", path=str(RAW / "referrals-*.jsonl"), incremental="files")


@crm.view()
def people(customers):
    """Customers with the names and types that the graph has."""
    return customers.selectExpr(
        "lower(`e-mail`) AS slug",
        "`full name` AS name",
        "`e-mail` AS email",
        "CAST(age AS INT) AS age",
        "active = '1' AS is_active",
        "team",
        "CAST(`hired on` AS DATE) AS since",
    )


@crm.node(
    "Person",
    dedupe="name",
    expect=[
        quarantine("has_email", "email IS NOT NULL", max_ratio=0.05),
        drop("sane_age", "age BETWEEN 0 AND 130"),
        warn("grown_up", "age >= 21"),
    ],
)
def person(people):
    return people.drop("team", "since")


@crm.node("Team", expect=[fail("has_name", "name IS NOT NULL")])
def team(teams):
    return teams.selectExpr("team_code AS code", "title AS name", "location AS city")


@crm.edge("WorksIn", src="Person(slug)", dst="Team(team)", key="slug", dedupe="since DESC", missing_end="quarantine")
def works_in(people):
    return people.where("slug IS NOT NULL").select("slug", "team", "since")


@crm.edge(
    "Referred",
    src="Person(lower(giver))",
    dst="Person(lower(taker))",
    key="id",
    deletes="op = 'D'",
    sequence="changed",
    missing_end="quarantine",
)
def referred(referrals):
    return referrals.selectExpr("id", "giver", "taker", "CAST(amount AS DECIMAL(12, 2)) AS amount", "op", "changed")


@crm.check("every team has somebody")
def empty_teams():
    return "query q() { match { $t: Team  not { $p worksIn $t } } return { $t.code } }"


@crm.check("nobody refers themselves")
def loops():
    return "query q() { match { $p: Person  $p referred $p } return { $p.slug } }"


crm.after("influence", algorithm="pagerank", arguments={"edges": ["Referred"]}, write="Person.influence")
