"""Drivers, clients and servers killed at a step of a load: nothing is half visible, and the next run completes it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.spark.clusters.domain import ROWS, Domain
from tests.spark.clusters.modes import MODE
from tests.spark.clusters.processes import (
    LOCAL_CLUSTER,
    PATIENCE_S,
    Cluster,
    connect_server,
    kill,
    processes_of,
    standalone,
    until,
)
from tests.spark.deaths import ANCESTORS


@contextmanager
def place(folder: Path) -> Iterator[tuple[Cluster, str]]:
    """What a driver needs to run in the mode, and how it asks for it."""
    folder.mkdir()
    if MODE == "local-cluster":
        cluster = Cluster(folder)
        try:
            yield cluster, json.dumps({"master": LOCAL_CLUSTER})
        finally:
            cluster.end()
    else:
        with standalone(folder) if MODE == "standalone" else connect_server(folder) as (cluster, address):
            yield cluster, json.dumps({"master" if MODE == "standalone" else "remote": address})


@contextmanager
def start(domain: Domain, cluster: Cluster, asked: str, failpoints: str = "") -> Iterator[subprocess.Popen[str]]:
    program = [sys.executable, "-m", "tests.spark.clusters.loader", asked, str(domain.root), str(domain.file)]
    driver = subprocess.Popen(
        program,
        env=os.environ | cluster.inherited | {"OMNIGRAPH_FAILPOINTS": failpoints},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with driver:
        try:
            yield driver
        finally:
            # It has ended, unless the test has failed.
            driver.kill()


def run(domain: Domain, cluster: Cluster, asked: str, failpoints: str = "") -> tuple[int, str]:
    with start(domain, cluster, asked, failpoints) as driver:
        out, err = driver.communicate(timeout=PATIENCE_S)
    assert driver.returncode == 0 or failpoints, err
    return driver.returncode, out


def test_a_driver_killed_at_any_step_leaves_all_or_nothing_and_can_be_run_again(tmp_path):
    domain = Domain(tmp_path / "domain")
    with place(tmp_path / "cluster") as (cluster, asked):
        for step in ("spark.load.after_read", "spark.load.after_write"):
            assert run(domain, cluster, asked, f"{step}=kill") == (-9, "")
            assert domain.found() == domain.before, step
            if MODE != "connect":
                until(lambda: not processes_of(cluster.mark, "Executor"), "the end of its executors")
        assert run(domain, cluster, asked, "txn.publish.after_cas=kill") == (-9, "")
        assert domain.found() == domain.after
        code, said = run(domain, cluster, asked)
        assert (code, json.loads(said)) == (0, {"total": ROWS, "unchanged": ROWS})
        assert domain.found() == domain.after


def test_a_load_whose_driver_or_server_is_lost_fails_with_our_error(tmp_path):
    step = "spark.load.after_read"
    domain, file = Domain(tmp_path / "domain"), tmp_path / "go on"
    with (
        place(tmp_path / "cluster") as (cluster, asked),
        start(domain, cluster, asked, f"{step}=pause:{file}") as driver,
    ):
        until(lambda: Path(f"{file}.reached").exists() or driver.poll() is not None, step)
        assert driver.poll() is None, driver.communicate()
        (lost,) = processes_of(cluster.mark, ANCESTORS["server" if MODE == "connect" else "driver"])
        kill(lost)
        file.touch()
        out, err = driver.communicate(timeout=PATIENCE_S)
        assert driver.returncode == 0, err
        said = json.loads(out)
        assert (said["code"], said["effect"]) == ("spark.job_failed", "staged"), said
        assert "failed to" in said["message"]
        assert said["message"].rstrip("> ")[-1].isalnum(), said
        assert domain.found() == domain.before
    with place(tmp_path / "another") as (cluster, asked):
        assert json.loads(run(domain, cluster, asked)[1]) == {"total": ROWS, "unchanged": 0}
    assert domain.found() == domain.after
