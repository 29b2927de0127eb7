"""Tasks that die: their Python worker, the executor that runs it, or the machine that hosts the executor."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from omnigraph.spark.loads import written
from omnigraph.spark.runner import SparkRunner
from omnigraph.store.tables.portable import write_fragments_for

# Of what dies with a task, a word of its command line.
ANCESTORS = {
    "executor": "CoarseGrainedExecutorBackend",
    "node": "deploy.worker.Worker",
    "server": "SparkConnectServer",
    "driver": "pyspark-shell",
}


@dataclass(frozen=True)
class UnluckyRunner:
    """Lets the first attempt at the first task of a step die in the way that is asked for.

    Args:
        inner: who works.
        folder: where deaths are noted, by the name of their step.
        deaths: by step: ``failed``, ``killed``, ``killed amid`` (its writing), or what is killed beside the worker.
    """

    cores = None

    inner: SparkRunner
    folder: Path
    deaths: dict[str, str]

    def run(self, function, tasks, doing):
        death = self.deaths.get(doing)
        if death is None:
            return self.inner.run(function, tasks, doing)
        marked = [(self.folder / doing if number == 0 else None, task) for number, task in enumerate(tasks)]
        return self.inner.run(partial(die_once, function, death), marked, doing)


def die_once(function, death, marked):
    marker, task = marked
    if marker is None or marker.exists():
        return function(task)
    if death == "killed amid":
        written.write_fragments_for = partial(die_while_writing, marker)
    function(task)
    marker.touch()
    if death in ANCESTORS:
        os.kill(ancestor(ANCESTORS[death]), signal.SIGKILL)
    if death != "failed":
        os.kill(os.getpid(), signal.SIGKILL)
    msg = "the worker is lost"
    raise OSError(msg)


def die_while_writing(marker, ticket, rows, **options):
    """Die when Lance has taken some of the rows and asks for more."""

    def some():
        yield from rows.slice(0, rows.num_rows // 2).to_batches()
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)

    return write_fragments_for(ticket, some(), **options)


def ancestor(word):
    """Return the process, of those that started this one, whose command line has a word."""
    pid = os.getppid()
    while word not in Path(f"/proc/{pid}/cmdline").read_text():
        (parent,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("PPid:")]
        pid = int(parent.split()[1])
    return pid
