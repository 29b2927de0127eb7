"""The process that dies: ``python -m tests.crash.child``, jobs as JSON on standard input.

In a group every job runs on a thread of its own, upon a graph of its own, and stops at its failpoint. When all of
them have arrived the process reports that and kills itself, so that one process start serves many crashes. A single
job with ``point`` null runs until the failpoint that the environment asks for kills the process.
"""

from __future__ import annotations

import dataclasses
import json
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from typing import ClassVar

from omnigraph.runtime import Runtime, start_thread
from omnigraph.store.location import Storage
from tests.crash.kinds import KINDS, clean_up, create_branch, delete_branch, initialise, migrate, optimize

BEFORE_TABLE, AFTER_TABLE = "txn.commit.before_table", "txn.commit.after_table"
_LONGEST_S = 300


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """One crash: what to do, on which graph, and where to die."""

    module: ClassVar[str] = "tests.crash.child"

    name: str
    root: str
    options: dict[str, str] | None
    kind: str
    act: str
    point: str | None
    nth: int = 1

    def run(self, runtime: Runtime) -> None:
        """Do the work of the job."""
        storage = Storage.open(self.root, self.options)
        match self.act:
            case "write":
                KINDS[self.kind].run(storage, runtime)
            case "recover":
                KINDS[self.kind].open(storage, runtime=runtime).close()
            case "init":
                initialise(storage, runtime)
            case "branch":
                create_branch(storage, runtime)
            case "delete":
                delete_branch(storage, runtime)
            case "cleanup":
                clean_up(storage, runtime)
            case "migrate":
                migrate(storage, runtime)
            case "optimize":
                optimize(storage, runtime)


def stop_at(runtime: Runtime, point: str, nth: int, arrive) -> None:
    """Make the ``nth`` thread that comes to ``point``, and every later one, stay there."""
    lock, seen, forever = threading.Lock(), 0, threading.Event()

    def stay():
        nonlocal seen
        with lock:
            seen += 1
            due = seen
        if due >= nth:
            if due == nth:
                arrive()
            forever.wait()

    runtime.failpoints.enable(point, stay)
    if point == AFTER_TABLE:
        # Tables commit side by side: let exactly as many of them move as shall have moved.
        _let_pass(runtime, nth, forever)


def _let_pass(runtime, count, forever):
    lock, passed = threading.Lock(), 0

    def gate():
        nonlocal passed
        with lock:
            passed += 1
            is_late = passed > count
        if is_late:
            forever.wait()

    runtime.failpoints.enable(BEFORE_TABLE, gate)


def _start(job, events):
    runtime = Runtime.system()
    if job.point is not None:
        stop_at(runtime, job.point, job.nth, lambda: events.put((job.name, "arrived")))

    def run():
        try:
            job.run(runtime)
        except BaseException:  # noqa: BLE001 - whatever it is, the parent must hear of it
            events.put((job.name, traceback.format_exc()))
        else:
            events.put((job.name, "passed"))

    start_thread(f"job-{job.name}", run)


def main(make_job: Callable[..., Job] = Job) -> None:
    """Run the jobs, report, die."""
    jobs = [make_job(**raw) for raw in json.load(sys.stdin)]
    events: queue.Queue[tuple[str, str]] = queue.Queue()
    for job in jobs:
        _start(job, events)
    report: dict[str, str] = {}
    try:
        while len(report) < len(jobs):
            name, what = events.get(timeout=_LONGEST_S)
            report.setdefault(name, what)
    except queue.Empty:
        pass
    json.dump(report, sys.stdout)
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
