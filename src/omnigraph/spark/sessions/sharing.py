"""Whether workers of a cluster have the folder of a graph in common with this process, found out before any work.

A folder of this machine's disk may exist on the machines of a cluster too, under the same name and with other files, or
be made there by whoever writes first. What tasks wrote would then be missing from the graph that the driver publishes.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from omnigraph.errors import BadValue, OmnigraphError, SparkUnsupportedError
from omnigraph.runtime import Runtime
from omnigraph.spark.jobs import is_connect
from omnigraph.spark.runner import SparkRunner
from omnigraph.spark.sessions.session import given_or_started
from omnigraph.store.location import Storage
from omnigraph.store.scratch import ScratchPlace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A session is marked with the folders that its workers see, because asking again would cost a job.
_SHARED = "_omnigraph_shared_folders"
# Enough to meet every worker of a small cluster.
_PROBES = 16
_PROBE = "probe"


def session_for(storage: Storage, spark: SparkSession | None) -> SparkSession:
    """Return the session that a caller gave or the one of this process, whose workers see the files of ``storage``.

    Raises:
        SparkUnsupportedError: they do not; no job of the caller's has started.
        OmnigraphError: whatever :func:`omnigraph.spark.sessions.session.given_or_started` raises.
    """
    ready = given_or_started(spark)
    check_shared(ready, storage)
    return ready


def check_shared(spark: SparkSession, storage: Storage) -> None:
    """Make sure that workers see the files of a folder; an object store, and workers of this machine, always do.

    Raises:
        SparkUnsupportedError: they do not.
    """
    found: set[str] = getattr(spark, _SHARED, set())
    if not storage.is_local or storage.root in found or _is_here(spark):
        return
    probe = ScratchPlace(storage=storage, operation_id=str(Runtime.system().ids.ulid()))
    probe.put(_PROBE, probe.operation_id.encode())
    try:
        seen = SparkRunner(spark=spark).run(partial(sees, probe), range(_PROBES), "look for the folder of the graph")
    finally:
        probe.clear()
    if not all(seen):
        raise SparkUnsupportedError(
            f"workers of this Spark do not see the folder '{storage.root}' of this machine",
            details=BadValue(what="folder", value=storage.root, expected="storage that all workers reach"),
            hint="use a file system that all machines mount under this name, or an s3:// address",
        )
    setattr(spark, _SHARED, found | {storage.root})


def sees(probe: ScratchPlace, _: int) -> bool:
    """Return whether this process finds what the driver has just written."""
    try:
        return probe.get(_PROBE) == probe.operation_id.encode()
    except OmnigraphError:
        return False


def _is_here(spark: Any) -> bool:
    return not is_connect(spark) and str(spark.sparkContext.master).startswith("local")
