"""The driver of runs that dies: ``python -m tests.spark.pipelines.killed_child``, jobs as JSON on standard input.

Every job is a run on a thread of its own, upon a graph of its own, and stops at its failpoint. When all have arrived
the process kills itself, so that one session of Spark serves many deaths.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import traceback
from functools import partial
from pathlib import Path

from omnigraph.engine.open_graph import OpenGraph
from omnigraph.pipelines.running import run
from omnigraph.runtime import Runtime, start_thread
from omnigraph.spark import session
from omnigraph.store.location import Storage
from tests.crash.child import stop_at
from tests.load_graph import RELAXED
from tests.spark.pipelines.crm import pipeline
from tests.spark.pipelines.persons import person_pipeline

PIPELINES = {"customers": pipeline, "persons": partial(person_pipeline, incremental="files")}
_LONGEST_S = 540
CONF = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2", "spark.sql.adaptive.enabled": "false"}


def main() -> None:
    """Run all jobs until each is where it dies, and die."""
    jobs = json.load(sys.stdin)
    spark = session(master="local[2]", conf=CONF, is_short=True)
    arrived: queue.Queue[str] = queue.Queue()

    def work(job):
        runtime = Runtime.system()
        stop_at(runtime, job["point"], 1, lambda: arrived.put(job["point"]))
        try:
            with OpenGraph.open(Storage.open(job["root"]), runtime=runtime, settings=RELAXED) as engine:
                run(PIPELINES[job["of"]](Path(job["raw"]), publish=job["publish"]), engine, spark=spark)
            arrived.put(f"{job['point']} was never reached")
        except Exception:  # noqa: BLE001 - told to the test
            arrived.put(f"{job['point']}: {traceback.format_exc()}")

    for job in jobs:
        start_thread(f"run {job['point']}", lambda job=job: work(job))
    for _ in jobs:
        print(arrived.get(timeout=_LONGEST_S), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
