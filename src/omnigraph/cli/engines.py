"""Which engine a command runs on: in this process, or on Spark; and the session that the latter needs.

Nothing here loads Spark unless a command is to run on it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from omnigraph.cli.lazy import show_pandas
from omnigraph.cli.output import write_line
from omnigraph.cli.usage import usage_error
from omnigraph.errors import JavaMissingError, JavaTooOldError
from omnigraph.records import record

if TYPE_CHECKING:
    from omnigraph.engine.load import Source
    from omnigraph.operations import Backend
    from omnigraph.operations.local import LocalBackend

# Below these a load in process is done before Spark has started.
LARGE_BYTES = 256 << 20
LARGE_RECORDS = 2_000_000
LOG_VARIABLE = "OMNIGRAPH_SPARK_LOG"


class Engine(StrEnum):
    """Who does the work."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


EngineName = Annotated[
    Engine | None,
    typer.Option(
        "--engine", help="Run in this process (local), on Spark, or on whichever suits the command (auto, the default)."
    ),
]
Master = Annotated[
    str | None, typer.Option("--master", metavar="URL", help="The Spark master, such as local[4] or spark://host:7077.")
]
SparkConf = Annotated[
    list[str] | None, typer.Option("--spark-conf", metavar="NAME=VALUE", help="A Spark setting; may be repeated.")
]
Remote = Annotated[
    str | None, typer.Option("--remote", metavar="URL", help="A Spark Connect server, such as sc://host:15002.")
]


@record
class SparkOptions:
    """The options of a command that can run on Spark."""

    engine: EngineName = None
    master: Master = None
    remote: Remote = None
    spark_conf: SparkConf = None

    def request(self) -> SparkRequest:
        """Return what they ask for, as :func:`spark_request` reads it."""
        return spark_request(self.engine, self.master, self.remote, self.spark_conf)


@record
class SparkRequest:
    """What the options say about Spark."""

    engine: Engine | None
    master: str | None
    remote: str | None
    conf: Mapping[str, str]

    @property
    def names_spark(self) -> bool:
        """Whether an option was given that only Spark understands."""
        return self.master is not None or self.remote is not None or bool(self.conf)


@record
class Choice:
    """The engine that was chosen, and why; ``is_told`` says whether people should hear of it."""

    engine: Literal["local", "spark"]
    reason: str
    is_told: bool

    @property
    def is_spark(self) -> bool:
        """Whether Spark does the work."""
        return self.engine == "spark"

    def to_json(self) -> dict[str, Any]:
        """The choice as JSON values."""
        return {"name": self.engine, "reason": self.reason}

    def to_remarks(self) -> Iterator[str]:
        """The choice in one line, if it is worth one."""
        if self.is_told:
            yield f"engine: {self.engine}, because {self.reason}"


@record
class InputSize:
    """How much there is to load; None is what nobody knows before reading."""

    size_bytes: int | None
    records: int | None = None


def spark_request(
    engine: Engine | None, master: str | None, remote: str | None, conf: Sequence[str] | None
) -> SparkRequest:
    """Return what the options ask for.

    Raises:
        UsageError: they do not go together, or a setting is not of its form.
    """
    settings: dict[str, str] = {}
    for text in conf or ():
        name, equals, value = text.partition("=")
        if not (name.startswith("spark.") and equals):
            raise usage_error(f"invalid --spark-conf '{name}'", value=name, expected="spark.NAME=VALUE")
        settings[name] = value
    request = SparkRequest(engine=engine, master=master, remote=remote, conf=settings)
    if master is not None and remote is not None:
        raise usage_error("--master and --remote cannot be combined", value=remote, expected="one of them")
    if engine is Engine.LOCAL and request.names_spark:
        raise usage_error("--master, --remote and --spark-conf need Spark", value="local", expected="--engine spark")
    return request


def choose_plainly(request: SparkRequest) -> Choice:
    """Return the engine of a command that goes to Spark only when it is told to."""
    if request.engine is Engine.SPARK or (request.engine is not Engine.LOCAL and request.names_spark):
        return Choice(engine="spark", reason="it was requested", is_told=False)
    reason = "it was requested" if request.engine is Engine.LOCAL else "nothing requests Spark"
    return Choice(engine="local", reason=reason, is_told=False)


def choose_for_load(request: SparkRequest, size: InputSize, *, local_only: str | None = None) -> Choice:
    """Return the engine of a load.

    Args:
        request: what the options ask for.
        size: how much there is to load.
        local_only: why Spark cannot do it, if it cannot.
    """
    told = request.engine is Engine.AUTO
    if request.engine is Engine.LOCAL or request.engine is Engine.SPARK:
        engine: Literal["local", "spark"] = "spark" if request.engine is Engine.SPARK else "local"
        return Choice(engine=engine, reason="it was requested", is_told=False)
    if request.names_spark:
        return Choice(engine="spark", reason="Spark settings are given", is_told=told)
    amount = _amount(size)
    if not _is_large(size):
        return Choice(engine="local", reason=f"{amount} is small", is_told=told)
    if local_only is not None:
        return Choice(engine="local", reason=local_only, is_told=True)
    missing = _missing()
    if missing is not None:
        return Choice(engine="local", reason=f"{amount} is large for one process, but {missing}", is_told=True)
    return Choice(engine="spark", reason=f"{amount} is large for one process", is_told=True)


def input_size(sources: Sequence[Source]) -> InputSize:
    """Return how much there is in sources, each of them one file; rows are counted where the files tell."""
    sizes = [source.size_bytes for source in sources]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        return InputSize(size_bytes=None)
    total = sum(known)
    # Asking every file costs a read each, and is of no use when the bytes decide.
    is_parquet = all(source.kind == "parquet" for source in sources)
    if total >= LARGE_BYTES or not is_parquet or not sources:
        return InputSize(size_bytes=total)
    return InputSize(size_bytes=total, records=_parquet_rows(sources))


@contextmanager
def open_spark(request: SparkRequest, *, is_short: bool) -> Iterator[Any]:
    """Start a session for one command and end it with everything behind it; one that exists is used and goes on.

    Raises:
        SparkMissingError, JavaMissingError, JavaTooOldError: what it needs is not there.
        SparkStartError, SparkWorkerError: it does not start, or cannot run our code.
    """
    show_pandas()
    from omnigraph.spark import session, stop  # noqa: PLC0415 - loaded for the commands that use it
    from omnigraph.spark.session import active_session  # noqa: PLC0415 - see above

    is_ours = active_session() is None
    started = session(
        master=request.master,
        remote=request.remote,
        conf=request.conf,
        log=os.environ.get(LOG_VARIABLE),
        is_short=is_short,
    )
    try:
        if request.conf.get("spark.ui.enabled") == "true" and request.remote is None:
            write_line(f"spark ui: {started.sparkContext.uiWebUrl}", sys.stderr)
        yield started
    finally:
        if is_ours:
            stop(started)


@contextmanager
def on_engine(backend: LocalBackend, request: SparkRequest) -> Iterator[Backend]:
    """Give what executes merges, reverts and differences: the backend itself, or executors if the options ask for them.

    Raises:
        SparkMissingError, JavaMissingError, JavaTooOldError: what Spark needs is not there.
        SparkStartError, SparkWorkerError: it does not start, or cannot run our code.
    """
    if not choose_plainly(request).is_spark:
        yield backend
        return
    with open_spark(request, is_short=False) as started:
        from omnigraph.spark.history.operations import ExecutorBackend  # noqa: PLC0415 - loaded for the runs that use it

        yield ExecutorBackend(backend, started)


def _is_large(size: InputSize) -> bool:
    return (size.size_bytes or 0) >= LARGE_BYTES or (size.records or 0) >= LARGE_RECORDS


def _amount(size: InputSize) -> str:
    if size.size_bytes is None:
        return "input of unknown size"
    if size.size_bytes < LARGE_BYTES and size.records is not None:
        return f"input of {size.records:,} records"
    return f"input of {size.size_bytes / (1 << 20):,.1f} MiB"


def _missing() -> str | None:
    if find_spec("pyspark") is None or find_spec("pandas") is None:
        return "PySpark is not installed"
    from omnigraph.spark.java import find_java  # noqa: PLC0415 - loaded for loads that are large enough

    try:
        find_java()
    except (JavaMissingError, JavaTooOldError) as problem:
        return problem.message
    return None


def _parquet_rows(sources: Sequence[Source]) -> int | None:
    from pyarrow import ArrowException  # noqa: PLC0415 - loaded for what needs it
    from pyarrow.parquet import read_metadata  # noqa: PLC0415 - loaded for what needs it

    try:
        rows = 0
        for source in sources:
            with source.open() as file:
                rows += read_metadata(file).num_rows
    except (ArrowException, OSError):
        # The load itself will say what is wrong with the file.
        return None
    return rows
