"""A program that loads a file on Spark; it ends as its failpoints say, or prints what came of it.

``python -m tests.spark.clusters.loader '{"master": …}' GRAPH FILE`` merges the rows of the file.
"""

from __future__ import annotations

import json
import sys
import warnings

from omnigraph.errors import OmnigraphError
from omnigraph.spark import session, stop
from omnigraph.spark.loads import SparkLoadSettings, load
from tests.session_graph import open_session
from tests.spark.clusters.processes import SMALL

SETTINGS = SparkLoadSettings(part_bytes=4_000, merge_rows=100)


def main() -> None:
    asked, root, path = json.loads(sys.argv[1]), *sys.argv[2:]
    # Spark's client warns when it gives up, beside the error.
    warnings.simplefilter("ignore")
    spark = session(**asked, conf={} if "remote" in asked else SMALL, is_short=True)
    try:
        with open_session(root) as graph:
            result = load(graph, [path], "merge", spark=spark, settings=SETTINGS)
        said = {"total": result.total, "unchanged": sum(result.unchanged.values())}
    except OmnigraphError as error:
        said = {"code": error.code, "effect": error.effect.value, "message": error.message}
    finally:
        stop(spark)
    print(json.dumps(said))


if __name__ == "__main__":
    main()
