"""One session of Spark for every test of this folder; all of them run in one worker of the test run.

It runs in the cores of this machine; with ``OMNIGRAPH_SPARK_MODE``, as ``make spark-clusters`` sets it, on a cluster.

Every job takes a good part of a second, so that ``make test`` has one test of each ability, marked ``core``. All others
are run by ``make test-more``, which continuous integration runs behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.clusters.modes import MODE, Opened, open_mode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs the session, and is not of the core, as ``more``."""
    for item in items:
        needs_session = "spark" in getattr(item, "fixturenames", ())
        if needs_session and item.path.is_relative_to(_HERE) and item.get_closest_marker("core") is None:
            item.add_marker(pytest.mark.more)


@pytest.fixture(scope="session")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """The session, and the processes behind it."""
    folder = tmp_path_factory.mktemp("spark")
    with open_mode(MODE, folder) as found:
        yield found


@pytest.fixture(scope="session")
def spark(opened: Opened) -> SparkSession:
    """The session: two cores, small, quick to start."""
    return opened.spark


@pytest.fixture(autouse=True)
def _nothing_cached(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test caches ends with it. Views are named by each test for itself: listing them costs as much as a job."""
    yield
    if "spark" in request.fixturenames:
        request.getfixturevalue("spark").catalog.clearCache()
