"""How many rows go through a frame, counted by Spark itself while a job reads them: no job is started for that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnigraph.runtime import Runtime
from omnigraph.spark.jobs import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ROWS = "rows"


class RowCounter:
    """Counts rows of frames by name. The first job that reads a frame to its end tells how many rows it has."""

    def __init__(self) -> None:
        self._asked: dict[str, tuple[Any, Any]] = {}

    def watch(self, name: str, frame: DataFrame) -> DataFrame:
        """Return a frame with the same rows, which are counted when they are read."""
        from pyspark.sql import Observation  # noqa: PLC0415 - Spark is loaded where it is used
        from pyspark.sql import functions as fn  # noqa: PLC0415 - see above

        observation = Observation(f"{name}-{Runtime.system().ids.ulid()}")
        self._asked[name] = (observation, frame.sparkSession)
        return frame.observe(observation, fn.count(fn.lit(1)).alias(_ROWS))

    def rows(self, name: str) -> int | None:
        """Return how many rows a frame has, after a job has read it; None where Spark did not have to count them."""
        from pyspark.errors import PySparkException  # noqa: PLC0415 - Spark is loaded where it is used

        if name not in self._asked:
            return None
        observation, spark = self._asked[name]
        if not is_connect(spark) and not _is_told(observation, spark):
            return None
        try:
            found = observation.get.get(_ROWS)
        except PySparkException:
            # A plan over the frame that Spark refused: it takes that for the answer.
            return None
        return None if found is None else int(found)


def _is_told(observation: Any, spark: Any) -> bool:
    """Whether a count has come. What is asked for it waits for ever where no job had to read the frame."""
    # The public doors wait for ever, or for a while that somebody has to choose.
    context = spark.sparkContext._jsc.sc()  # noqa: SLF001 - see above
    context.listenerBus().waitUntilEmpty()
    return bool(observation._jo.future().isCompleted())  # noqa: SLF001 - see above
