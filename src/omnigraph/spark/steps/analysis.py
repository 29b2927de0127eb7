"""What Spark can tell of frames and expressions by looking at columns alone: no job is started, and no row is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.errors import FileAccessError, UsageError
from omnigraph.records import record
from omnigraph.runtime import Runtime
from omnigraph.spark.sessions.reach import cause_of
from omnigraph.spark.steps.buckets import read_bucket, reads_bucket
from omnigraph.spark.steps.rows import with_set
from omnigraph.spark.steps.sources import reader_format, reader_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_END = "')'"
_CODE = re.compile(r"^\[[A-Z0-9_.]+\]\s*|\s*SQLSTATE: \w+.*$", re.DOTALL)


@record
class Flaw:
    """Why Spark cannot make sense of something, and perhaps what was meant."""

    message: str
    hint: str | None = None


class FrameAnalyst:
    """Asks one session about frames."""

    def __init__(self, spark: SparkSession, storage: Mapping[str, str] | None = None) -> None:
        self.spark = spark
        # How buckets are reached.
        self._storage = storage

    def read(self, format_name: str, paths: Sequence[str], options: Mapping[str, str]) -> DataFrame | Flaw:
        """Return the frame of files or tables of a format; its columns may have to be found in the files."""
        found: DataFrame | Flaw = _attempt(lambda: self.empty(self._read(format_name, paths, options)))
        if isinstance(found, Flaw) and found.message.lower().startswith(f"{format_name.lower()}.default"):
            return Flaw(message=f"unknown format '{format_name}'")
        return found

    def _read(self, format_name: str, paths: Sequence[str], options: Mapping[str, str]) -> DataFrame:
        settings = reader_options(format_name, options)
        if reads_bucket(format_name, paths):
            return read_bucket(self.spark, format_name, paths, settings, self._storage or {})
        reader = self.spark.read.format(reader_format(format_name)).options(**settings)
        return reader.load(list(paths)) if paths else reader.load()

    def empty(self, frame: DataFrame) -> DataFrame:
        """Return a frame with the same columns and no rows, so that whatever is done with it reads nothing."""
        # Of no rows at all Spark knows the answers to most questions without a job.
        return self.spark.createDataFrame([], frame.schema).limit(0)

    def run_sql(self, sql: str, inputs: Mapping[str, DataFrame]) -> DataFrame | Flaw:
        """Return what a statement gives over frames by name."""
        found: DataFrame | Flaw = _attempt(lambda: self._run_sql(sql, inputs))
        return found

    def type_of(self, frame: DataFrame, expression: str) -> pa.DataType | Flaw:
        """Return the type of an expression over the columns of a frame."""
        return _attempt(lambda: columns_of(frame.selectExpr(f"({expression}\n) AS value")).field("value").type)

    def order_flaw(self, frame: DataFrame, order: str) -> Flaw | None:
        """Return why rows cannot be ordered so; None if they can."""
        # The texts are those of people who may run any program in the same session.
        found = self.run_sql(f"SELECT * FROM frame ORDER BY {order}", {"frame": frame})  # noqa: S608 - see above
        return found if isinstance(found, Flaw) else None

    def with_set(self, frame: DataFrame, given: Mapping[str, str]) -> DataFrame:
        """Return a frame as conditions see it; expressions that have no meaning are left out."""
        sound = {name: text for name, text in given.items() if not isinstance(self.type_of(frame, text), Flaw)}
        return with_set(frame, sound)

    def with_text(self, frame: DataFrame, column: str) -> DataFrame:
        """Return a frame with one more column of text."""
        from pyspark.sql import functions as fn  # noqa: PLC0415 - Spark is loaded where it is used

        return frame.withColumn(column, fn.lit(None).cast("string"))

    def _run_sql(self, sql: str, inputs: Mapping[str, DataFrame]) -> DataFrame:
        with _views(inputs) as names:
            made = self.spark.sql(over_views(sql, names))
            # Looked at while the views are there: a session of Spark Connect has done nothing so far.
            return self.empty(made)


def over_views(sql: str, views: Mapping[str, str]) -> str:
    r"""Return a statement that finds its tables in views of other names.

    >>> over_views("SELECT * FROM people", {"people": "og_1"})
    'WITH `people` AS (SELECT * FROM `og_1`) SELECT * FROM (SELECT * FROM people\n)'
    """
    if not views:
        return sql
    told = ", ".join(f"`{name}` AS (SELECT * FROM `{view}`)" for name, view in views.items())  # noqa: S608 - see below
    return f"WITH {told} SELECT * FROM ({sql}\n)"  # noqa: S608 - running the statement of a caller is its purpose


def is_frame(value: object) -> bool:
    """Whether something is a DataFrame."""
    return type(value).__module__.startswith("pyspark.sql") and hasattr(value, "selectExpr")


def columns_of(frame: DataFrame) -> pa.Schema:
    """Return the columns of a frame as Arrow has them, decimals without a fraction as whole numbers."""
    from omnigraph.spark.source.types import plain_schema  # noqa: PLC0415 - it brings Spark

    return plain_schema(frame.schema)


def flaw_of_exception(problem: BaseException) -> Flaw | None:
    """Return what an exception of Spark says, in words for people; None if it is another one."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 - Spark is loaded where it is used
    from pyspark.errors import PySparkException  # noqa: PLC0415 - see above

    if isinstance(problem, Py4JError):
        return Flaw(message=_first_line(cause_of(problem)))
    if not isinstance(problem, PySparkException):
        return None
    condition = problem.getCondition() or ""
    given = problem.getMessageParameters() or {}
    told = {name: text.replace("`", "") for name, text in given.items()}
    if condition.startswith(("UNRESOLVED_COLUMN", "UNRESOLVED_FIELD")):
        near = told.get("proposal")
        name = told.get("objectName") or told.get("fieldName") or ""
        return Flaw(message=f"column '{name}' does not exist", hint=near and f"similar columns: {near}")
    if condition == "TABLE_OR_VIEW_NOT_FOUND":
        return Flaw(message=f"table '{told.get('relationName', '')}' does not exist")
    if condition == "UNRESOLVED_ROUTINE":
        return Flaw(message=f"unknown function '{told.get('routineName', '')}'")
    if condition == "PARSE_SYNTAX_ERROR":
        # What an expression is put into ends with a bracket.
        at = told.get("error", "")
        return Flaw(message=f"syntax error at {'its end' if at in {'', _END, 'end of input'} else at}")
    return Flaw(message=_first_line(str(problem)))


def _first_line(text: str) -> str:
    line = next((one for one in text.strip().splitlines() if one.strip()), "Spark cannot analyse it")
    told = _CODE.sub("", line).strip().rstrip(".")
    return told[:1].lower() + told[1:]


def _attempt(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except (FileAccessError, UsageError) as problem:
        return Flaw(message=problem.message, hint=problem.hint)
    except Exception as problem:
        flaw = flaw_of_exception(problem)
        if flaw is None:
            raise
        return flaw


@contextmanager
def _views(frames: Mapping[str, DataFrame]) -> Iterator[dict[str, str]]:
    """Give frames as views under names that nobody else uses."""
    names: dict[str, str] = {}
    try:
        for name, frame in frames.items():
            names[name] = f"og_{Runtime.system().ids.ulid().lower()}"
            frame.createOrReplaceTempView(names[name])
        yield names
    finally:
        for view in names.values():
            next(iter(frames.values())).sparkSession.catalog.dropTempView(view)
