"""The driver of a load on Spark that dies: ``python -m tests.crash.spark_child``.

Its tasks run in the driver itself, so that a death costs no start of a session; what workers can do is tested where
there are some.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import ClassVar

from omnigraph.runtime import Runtime
from omnigraph.spark.loads.job import SparkLoadRequest
from omnigraph.spark.loads.load_files import run_load
from omnigraph.spark.loads.options import SparkLoadSettings
from omnigraph.spark.runner import InProcessRunner
from omnigraph.store.location import Storage
from omnigraph.txn.manifest.rows import BatchMark
from tests.crash.child import Job, main
from tests.crash.kinds import ACTOR
from tests.crash.matrix import IS_FULL, WRITER_POINTS
from tests.crash.session_kinds import STREAM, SessionKind

SPARK_POINTS = ("spark.load.after_read", "spark.load.after_check", "spark.load.after_write")
_PLAIN = {
    ("append", "spark.load.after_write"),
    ("merge", "txn.commit.after_table"),
    ("overwrite", "txn.publish.before_cas"),
    ("apply", "spark.load.after_check"),
}


def _load(mode):
    settings = SparkLoadSettings(part_bytes=100)
    batch = BatchMark(app=STREAM[0], number=STREAM[1]) if mode == "apply" else None

    def write(session, inputs):
        request = SparkLoadRequest(mode=mode, actor=ACTOR, batch=batch, settings=settings)
        return run_load(session, [str(inputs / f"{mode}.jsonl")], request, InProcessRunner())

    return write


SPARK_LOADS = {
    mode: SessionKind(name=mode, tables=tables, commits=tables, write=_load(mode))
    for mode, tables in (("append", 3), ("merge", 2), ("overwrite", 3), ("apply", 4))
}
CHOSEN = [
    (mode, point)
    for mode in SPARK_LOADS
    for point in (*SPARK_POINTS, "txn.stage.after_table", *WRITER_POINTS)
    if IS_FULL or (mode, point) in _PLAIN
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SparkLoadJob(Job):
    """A crash of a driver. ``inputs`` holds what loads read."""

    module: ClassVar[str] = "tests.crash.spark_child"

    inputs: str

    def run(self, runtime: Runtime) -> None:
        """Do the work of the job."""
        SPARK_LOADS[self.kind].run(Storage.open(self.root, self.options), runtime, Path(self.inputs))


if __name__ == "__main__":
    main(SparkLoadJob)
