"""The ways in which a session can be opened: in this machine's cores, or on one of three kinds of cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from omnigraph.spark import session, stop
from tests.spark.clusters.processes import LOCAL_CLUSTER, SMALL, Cluster, connect_server, standalone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODES = ("standalone", "local-cluster", "connect")
# Which of them the tests run on; none of them in a plain run.
MODE = os.environ.get("OMNIGRAPH_SPARK_MODE", "local")
_LOCAL = {
    "spark.driver.memory": "1g",
    "spark.default.parallelism": "2",
    "spark.sql.shuffle.partitions": "2",
}
# In ``make test``: a plan for a few rows takes longer to compile than to interpret. ``make test-more`` compiles plans,
# as sessions of users do.
_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
if os.environ.get("OMNIGRAPH_SPARK_PLANS") == "interpreted":
    _LOCAL |= _INTERPRETED


@dataclass(frozen=True)
class Opened:
    """A session, its mode, how it was asked for, and the processes that it works with."""

    spark: SparkSession
    mode: str
    asked: Mapping[str, str]
    cluster: Cluster | None = None


@contextmanager
def open_mode(mode: str, folder: Path) -> Iterator[Opened]:
    """Start what a mode needs and open a session there; all of it ends with the block."""
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("OMNIGRAPH_CACHE", str(folder))
        cluster, asked = None, {}
        if mode == "local":
            # A task that fails is tried again, as on a cluster.
            asked, conf = {"master": "local[2,3]"}, _LOCAL
        elif mode == "standalone":
            cluster, address = stack.enter_context(standalone(folder))
            asked, conf = {"master": address}, SMALL
        elif mode == "local-cluster":
            cluster = Cluster(folder)
            stack.callback(cluster.end)
            asked, conf = {"master": LOCAL_CLUSTER}, SMALL
        elif mode == "connect":
            cluster, address = stack.enter_context(connect_server(folder))
            asked, conf = {"remote": address}, {}
        else:
            raise AssertionError(f"OMNIGRAPH_SPARK_MODE is {mode}, none of {', '.join(MODES)}")
        with pytest.MonkeyPatch.context() as starting:
            if cluster is not None:
                for name, value in cluster.inherited.items():
                    starting.setenv(name, value)
            spark = session(**asked, conf=conf, log=folder / "spark.log", is_short=True)
        stack.callback(stop, spark)
        yield Opened(spark=spark, mode=mode, asked=asked, cluster=cluster)
