"""One session of Spark for every test of this folder; all of them run in one worker of the test run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from omnigraph.spark import session, stop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session: two cores, small, quick to start."""
    folder = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMNIGRAPH_CACHE", str(folder))
        started = session(
            # A task that fails is tried again, as on a cluster.
            master="local[2,3]",
            conf={
                "spark.driver.memory": "1g",
                "spark.default.parallelism": "2",
                "spark.sql.shuffle.partitions": "2",
                "spark.sql.adaptive.enabled": "false",
            },
            log=folder / "spark.log",
            is_short=True,
        )
    yield started
    stop(started)


@pytest.fixture(autouse=True)
def _nothing_cached(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test caches ends with it. Views are named by each test for itself: listing them costs as much as a job."""
    yield
    if "spark" in request.fixturenames:
        request.getfixturevalue("spark").catalog.clearCache()
