"""Clusters of Spark on this machine: real masters, workers and servers, which end with their block.

Every process inherits a variable with a value of its own cluster, so that those that Spark starts, in groups of
their own, are found as well.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from omnigraph.spark.sessions.gateway import SHORT_OPTIONS, spark_home
from omnigraph.spark.sessions.java import find_java
from tests.e2e.process import ROOT

MARK = "OMNIGRAPH_TEST_CLUSTER"
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
# Long for a machine that is busy with other things; nothing waits for as long as this when it works.
PATIENCE_S = 300.0
# Two executors with a process each, of one core and 1024 MB.
LOCAL_CLUSTER = "local-cluster[2,1,1024]"
# What a driver and its executors need here: small, quick to start, and nothing that other machines could see.
SMALL = {
    "spark.driver.memory": "768m",
    "spark.executor.memory": "768m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": SHORT_OPTIONS,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.default.parallelism": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
}


def until(found: Callable[[], object], what: str) -> None:
    """Return when ``found`` is true; nothing is timed, but a thing that never happens ends the test."""
    ends = time.monotonic() + PATIENCE_S
    while not found():
        if time.monotonic() > ends:
            raise AssertionError(f"never happened: {what}")
        time.sleep(0.02)


def processes_of(mark: str, *words: str) -> list[int]:
    """Return the processes of a cluster whose command line has all of these words."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            # It may end while it is looked at.
            with suppress(OSError):
                lines = (folder / "cmdline").read_bytes().decode(errors="replace")
                if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0") and all(
                    word in lines for word in words
                ):
                    found.append(int(folder.name))
    return sorted(found)


def kill(pid: int) -> None:
    """End a process as a machine that loses power does."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@dataclass
class Cluster:
    """What a test starts; ``mark`` is the value that all of its processes inherit."""

    folder: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def inherited(self) -> dict[str, str]:
        """What drivers must have in their environment as well: workers of a cluster run in folders of their own."""
        places = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
        return {MARK: self.mark, "PYTHONPATH": os.pathsep.join(filter(None, places))}

    @property
    def environment(self) -> dict[str, str]:
        """What processes of the cluster get."""
        home = spark_home({"OMNIGRAPH_CACHE": str(self.folder)})
        assert home is not None
        return {
            **os.environ,
            **self.inherited,
            "JAVA_HOME": str(find_java().home),
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
            # The heap of a Connect server too, which refuses to start with less than half of it.
            "SPARK_DAEMON_MEMORY": "768m",
            "SPARK_DAEMON_JAVA_OPTS": SHORT_OPTIONS,
            "PYSPARK_PYTHON": sys.executable,
        }

    def start(self, name: str, *command: str) -> Path:
        """Start a program of Spark's; return the file that it writes to."""
        log = self.folder / f"{name}.log"
        environment = self.environment
        with log.open("wb") as file:
            program = Path(environment["SPARK_HOME"]) / "bin" / command[0]
            self.started.append(
                subprocess.Popen(
                    [str(program), *command[1:]],
                    env=environment,
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=file,
                )
            )
        return log

    def said(self, log: Path, form: str) -> str:
        """Return what a log says in the group of ``form``, once it does."""
        found: list[str] = []

        def look() -> bool:
            text = log.read_text(errors="replace")
            assert self.started[-1].poll() is None, text[-3000:]
            found.extend(re.findall(form, text))
            return bool(found)

        until(look, form)
        return found[0]

    def end(self) -> None:
        """End every process, those that Spark started too, and make sure that none is left."""
        for process in self.started:
            process.terminate()
        for pid in processes_of(self.mark):
            kill(pid)
        for process in self.started:
            process.wait()
        until(lambda: not processes_of(self.mark), "the end of a cluster")


@contextmanager
def standalone(folder: Path, workers: int = 2) -> Iterator[tuple[Cluster, str]]:
    """A master and workers of one core each; yields the address for drivers."""
    cluster = Cluster(folder)
    try:
        log = cluster.start("master", "spark-class", MASTER, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        address = cluster.said(log, r"Starting Spark master at (spark://\S+)")
        add_workers(cluster, address, [f"worker-{number}" for number in range(workers)])
        yield cluster, address
    finally:
        cluster.end()


def add_workers(cluster: Cluster, address: str, names: Sequence[str]) -> None:
    """Start workers, and wait until the master has them."""
    place = ("--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0")
    logs = [
        cluster.start(name, "spark-class", WORKER, *place, "--work-dir", str(cluster.folder / f"of-{name}"), address)
        for name in names
    ]
    for log in logs:
        cluster.said(log, r"(Successfully registered with master)")


@contextmanager
def connect_server(folder: Path, master: str = LOCAL_CLUSTER) -> Iterator[tuple[Cluster, str]]:
    """A Spark Connect server with executors of its own; yields the address for clients."""
    cluster = Cluster(folder)
    settings = {
        **SMALL,
        "spark.driver.extraJavaOptions": SHORT_OPTIONS,
        "spark.ui.enabled": "false",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    try:
        log = cluster.start(
            "connect", "spark-submit", "--class", CONNECT, "--master", master, *options, "spark-internal"
        )
        yield cluster, "sc://127.0.0.1:" + cluster.said(log, r"Spark Connect server started at: \S*?:(\d+)")
    finally:
        cluster.end()
