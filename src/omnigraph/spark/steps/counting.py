"""How many rows go through a frame, counted by Spark itself while a job reads them: no job is started for that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from omnigraph.runtime import Runtime
from omnigraph.spark.jobs import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession

_ROWS = "rows"


class RowCounter:
    """Counts rows of frames by name. The first job that reads a frame to its end tells how many rows it has."""

    def __init__(self) -> None:
        self._watched: dict[str, tuple[DataFrame, Observation]] = {}
        self._rows: dict[str, int | None] = {}

    def watch(self, name: str, frame: DataFrame) -> DataFrame:
        """Return a frame with the same rows, which are counted when they are read."""
        from pyspark.sql import Observation  # noqa: PLC0415 - Spark is loaded where it is used
        from pyspark.sql import functions as fn  # noqa: PLC0415 - see above

        observation = Observation(f"{name}-{Runtime.system().ids.ulid()}")
        self._watched[name] = (frame, observation)
        return frame.observe(observation, fn.count(fn.lit(1)).alias(_ROWS))

    def rows(self, name: str) -> int | None:
        """Return how many rows a frame has, after all jobs that read it; None where Spark did not count them.

        Adaptive execution takes what is empty out of a plan, and the count with it: that of the empty frame, and those
        of frames that it is joined with. So a count that is missing is zero only for a frame without rows.
        """
        if name not in self._rows and name in self._watched:
            frame, observation = self._watched[name]
            rows = _counted(observation, frame.sparkSession)
            self._rows[name] = 0 if rows is None and frame.isEmpty() else rows
        return self._rows.get(name)


def _counted(observation: Observation, spark: SparkSession) -> int | None:
    from pyspark.errors import PySparkException  # noqa: PLC0415 - Spark is loaded where it is used

    try:
        found = observation.get if is_connect(spark) else _metrics(observation, spark)
    except PySparkException:
        # A plan over the frame that Spark refused: it takes that for the answer.
        return None
    return None if _ROWS not in found else int(found[_ROWS])


def _metrics(observation: Any, spark: SparkSession) -> Mapping[str, Any]:
    """Return the metrics of an observation, none where no job had to read the frame or its plan lost the count.

    The public door waits for ever in the first case, and fails in the second.
    """
    context = spark.sparkContext._jsc.sc()  # noqa: SLF001 - see above
    context.listenerBus().waitUntilEmpty()
    known = observation._jo  # noqa: SLF001 - see above
    return known.getAsJava() if known.future().isCompleted() else {}
