"""A declarative pipeline of Spark from files to a graph, and from the graph to a table of the catalog."""

from __future__ import annotations

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()
FOLDER = os.environ["CREW_FOLDER"]
GRAPH = {"graph": f"{FOLDER}/graph", "mode": "merge"}

# One flow of several types: what a file says of a person and of a team is one commit.
dp.create_sink("crew", "omnigraph", GRAPH)


@dp.append_flow(target="crew")
def crew() -> DataFrame:
    """Lines of the load format, which name their types themselves."""
    return spark.readStream.text(f"{FOLDER}/lines")


# Two flows, which run side by side: the edges wait for people that the other one has not written yet.
dp.create_sink("people", "omnigraph", {**GRAPH, "type": "Person"})
dp.create_sink("knows", "omnigraph", {**GRAPH, "type": "Knows", "wait_for_ends": "300"})


@dp.append_flow(target="people")
def people() -> DataFrame:
    """The nodes."""
    return spark.readStream.schema("name string, age int").json(f"{FOLDER}/people")


@dp.append_flow(target="knows")
def knows() -> DataFrame:
    """The edges between them."""
    return spark.readStream.schema("`from` string, `to` string").json(f"{FOLDER}/knows")


@dp.materialized_view
def elders() -> DataFrame:
    """A type of the graph, as a table of the catalog."""
    return spark.read.format("omnigraph").options(graph=GRAPH["graph"], type="Person").load().where("age >= 60")
