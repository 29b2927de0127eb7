"""Starting processes that die where they are told to, many crashes to one process."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterable
from dataclasses import asdict

from omnigraph.runtime.failpoints import ENVIRONMENT_VARIABLE
from tests.crash.child import Job
from tests.warm import PROJECT, run_warm

GROUP = 24


def crash_together(jobs: Iterable[Job]) -> None:
    """Run the jobs in one process that kills itself once each of them stands at its point."""
    jobs = list(jobs)
    ended = _run(jobs, {})
    report = json.loads(ended.stdout or b"{}")
    strays = {job.name: report.get(job.name, "silent") for job in jobs if report.get(job.name) != "arrived"}
    assert not strays, f"jobs that did not reach their point: {strays}\n{ended.stderr.decode()}"
    assert ended.returncode == -signal.SIGKILL


def crash_alone(job: Job, point: str, nth: int) -> None:
    """Run one job in a process that dies in the very moment that it passes the point."""
    ended = _run([job], {ENVIRONMENT_VARIABLE: f"{point}=kill@{nth}"})
    assert ended.stdout == b"", f"the process was not killed at its point: {ended.stdout}"
    assert ended.returncode == -signal.SIGKILL, ended.stderr


def _run(jobs, environment):
    inherited = {key: value for key, value in os.environ.items() if key != ENVIRONMENT_VARIABLE}
    return run_warm(
        jobs[0].module,
        cwd=PROJECT,
        env={**inherited, **environment},
        stdin=json.dumps([asdict(job) for job in jobs]).encode(),
        timeout=300,
    )


class Places:
    """Where graphs of one store live."""

    def __init__(self, store, folder, endpoint):
        self._store = store
        self._folder = folder
        self._endpoint = endpoint
        self._count = 0

    @property
    def options(self):
        return None if self._store == "local" else self._endpoint.storage_options

    def fresh(self) -> str:
        """Return the root of a graph that does not exist yet."""
        if self._store == "s3":
            return self._endpoint.fresh_prefix()
        self._count += 1
        return str(self._folder / f"g{self._count}")


def chunks(cases):
    """Return the cases in the groups that share a process."""
    return [cases[at : at + GROUP] for at in range(0, len(cases), GROUP)]


class Morgue:
    """Crashes by name, each brought about once, together with its neighbours in the list."""

    def __init__(self, cases, places, make_jobs):
        self._chunks = chunks(cases)
        self._places = places
        self._make_jobs = make_jobs
        self._storages = {}

    def storage_of(self, case):
        """Return the storage of the graph that the case has crashed upon."""
        if case.name not in self._storages:
            chunk = next(chunk for chunk in self._chunks if case in chunk)
            self._storages |= self._make_jobs(chunk, self._places)
        return self._storages[case.name]
