"""A pipeline on Spark: clean raw files with ordinary DataFrame code, load them into a branch, review, merge.

Run it with ``python examples/spark_pipeline.py``; it works in a temporary folder and leaves nothing behind. It needs
``pip install 'omnigraphdb[spark]'`` and Java, or ``'omnigraphdb[spark,spark-jre]'``.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody uses

import omnigraph
from omnigraph.spark import load, load_frames, session, stop

PEOPLE = Path(__file__).parent / "people"
# As somebody else's system exports it: names in any case, one person twice, one without a level.
RAW_PEOPLE = """\
login,full_name,grade,joined
 MIRA ,Mira,lead,2024-01-08
cem,Cem Aydin,Senior,2025-03-01
cem,Cem Aydin,Senior,2025-03-01
ida,Ida Holm,,2025-06-15
"""
RAW_TEAMS = """\
login,team,since
cem,Core,2025-03-01
ida,Core,2025-06-15
"""


def main(folder: Path, spark: SparkSession) -> None:
    """Build a graph in ``folder`` and bring the raw files into it."""
    (folder / "people.csv").write_text(RAW_PEOPLE, encoding="utf-8")
    (folder / "teams.csv").write_text(RAW_TEAMS, encoding="utf-8")
    with omnigraph.init(folder / "staff.omni", PEOPLE / "schema.pg") as graph:
        load(graph, [str(PEOPLE / "staff.jsonl")], "append", spark=spark)
        branch = graph.create_branch("import")
        people = clean_people(spark.read.csv(str(folder / "people.csv"), header=True))
        works_in = clean_teams(spark.read.csv(str(folder / "teams.csv"), header=True))
        # Both types become one commit of the branch, or nothing does.
        frames = {"Person": people, "WorksIn": works_in}
        done = load_frames(graph, frames, "merge", spark=spark, branch=branch.name)
        print(f"loaded {done.total} rows into branch {done.branch}, {sum(done.unchanged.values())} were there already")
        for change in sorted(branch.diff("main"), key=lambda change: (change.op, change.id)):
            print(f"  {change.op} {change.type.name} {change.id}")
        print(f"conflicts: {len(graph.preview_merge(branch).conflicts)}")
        print(f"merged: {graph.merge(branch, message='people from the old system').outcome.value}")


def clean_people(raw: DataFrame) -> DataFrame:
    """Return one row per person, as the schema wants it."""
    return raw.dropDuplicates().select(
        F.lower(F.trim("login")).alias("slug"),
        F.trim("full_name").alias("name"),
        F.coalesce(F.lower("grade"), F.lit("junior")).alias("level"),
        F.to_timestamp("joined").alias("created_at"),
    )


def clean_teams(raw: DataFrame) -> DataFrame:
    """Return who works where; edges name the ids of the nodes that they join."""
    return raw.select(F.lower("login").alias("from"), F.lower("team").alias("to"), F.to_date("since").alias("since"))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        try:
            started = session(master="local[2]", is_short=True)
            main(Path(place), started)
            stop(started)
        except omnigraph.OmnigraphError as problem:
            sys.exit(f"{problem}\n{problem.hint or ''}")
