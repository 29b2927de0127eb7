"""Workers, executors and machines killed during a load: Spark does their tasks again, and the graph is the same."""

from __future__ import annotations

import pytest

from omnigraph.spark.loads.job import SparkLoadRequest
from omnigraph.spark.loads.load_files import run_load
from omnigraph.spark.runner import SparkRunner
from tests.session_graph import open_session
from tests.spark.clusters.domain import ROWS, Domain
from tests.spark.clusters.loader import SETTINGS
from tests.spark.clusters.modes import MODE
from tests.spark.clusters.processes import add_workers
from tests.spark.deaths import UnluckyRunner

READ, WRITE = "read the input", "write the rows"
CASES = [("killed", READ), ("killed", WRITE), ("executor", READ), ("executor", WRITE)]
if MODE == "standalone":
    # The workers of a local cluster, of a Connect server too, are part of its driver.
    CASES.append(("node", WRITE))


@pytest.mark.parametrize(("victim", "step"), CASES)
def test_a_load_outlives_what_its_tasks_run_on(opened, victim, step, tmp_path):
    domain = Domain(tmp_path / "domain")
    (tmp_path / "deaths").mkdir()
    runner = UnluckyRunner(SparkRunner(spark=opened.spark), tmp_path / "deaths", {step: victim})
    with open_session(domain.root) as graph:
        request = SparkLoadRequest(mode="merge", settings=SETTINGS)
        assert run_load(graph, [str(domain.file)], request, runner).total == ROWS
    assert domain.found() == domain.after
    assert [path.name for path in (tmp_path / "deaths").iterdir()] == [step]
    if victim == "node":
        add_workers(opened.cluster, opened.asked["master"], ["worker-again"])
