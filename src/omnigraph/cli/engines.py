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
from shutil import disk_usage
from tempfile import gettempdir
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from omnigraph.cli.graphs import CommandBackend, local_backend
from omnigraph.cli.lazy import show_pandas
from omnigraph.cli.output import write_line
from omnigraph.cli.usage import usage_error
from omnigraph.errors import JavaMissingError, JavaTooOldError
from omnigraph.records import record
from omnigraph.runtime.process import memory_bytes

if TYPE_CHECKING:
    from omnigraph.engine.load import Source
    from omnigraph.operations import Backend

# What a packed byte becomes, about: rows of Parquet and of packed text are known only when they are read.
_UNPACKED_TIMES = 4
# On one machine a load in process is always sooner done, if it fits: ids and what the rules compare take up to half of
# what the input is as text, and rows beyond the memory of a load go to temporary files, while its tables are written.
_SCRATCH_TIMES = 3
LOG_VARIABLE = "OMNIGRAPH_SPARK_LOG"


class Engine(StrEnum):
    """Who does the work."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


EngineName = Annotated[
    Engine | None,
    typer.Option(
        "--engine", help="Run in this process (local), on Spark, or choose by the command (auto, the default)."
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
class Machine:
    """What a load in this process may fill: memory, and space for temporary files."""

    memory_bytes: int
    scratch_bytes: int

    @classmethod
    def this(cls) -> Machine:
        """Look at the machine that we run on."""
        return cls(memory_bytes=memory_bytes(), scratch_bytes=disk_usage(gettempdir()).free)

    def fits(self, size_bytes: int) -> bool:
        """Whether input of so many bytes, as plain text, can be loaded here."""
        return size_bytes <= self.memory_bytes and _SCRATCH_TIMES * size_bytes <= self.scratch_bytes


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


def choose_for_load(
    request: SparkRequest, size_bytes: int | None, machine: Machine, *, local_only: str | None = None
) -> Choice:
    """Return the engine of a load: this process, unless the options name a Spark or the input would not fit.

    Args:
        request: what the options ask for.
        size_bytes: how much there is to load, as plain text; None when nobody knows before reading.
        machine: what this process may fill.
        local_only: why Spark cannot do it, if it cannot.
    """
    told = request.engine is Engine.AUTO
    if request.engine is Engine.LOCAL or request.engine is Engine.SPARK:
        engine: Literal["local", "spark"] = "spark" if request.engine is Engine.SPARK else "local"
        return Choice(engine=engine, reason="it was requested", is_told=False)
    if request.names_spark:
        return Choice(engine="spark", reason="Spark settings were passed", is_told=told)
    if size_bytes is None:
        return Choice(engine="local", reason="the size of the input is unknown", is_told=told)
    if machine.fits(size_bytes):
        return Choice(engine="local", reason=f"{_amount(size_bytes)} fits this machine", is_told=told)
    if local_only is not None:
        return Choice(engine="local", reason=local_only, is_told=True)
    reason, missing = f"{_amount(size_bytes)} might not fit this machine", _missing()
    if missing is not None:
        return Choice(engine="local", reason=f"{missing}, though {reason}", is_told=True)
    return Choice(engine="spark", reason=reason, is_told=True)


def input_size(sources: Sequence[Source]) -> int | None:
    """Return about how much there is in sources as plain text, each of them one file; None when nobody knows."""
    total = 0
    for source in sources:
        size = source.size_bytes
        if size is None:
            return None
        total += size * (_UNPACKED_TIMES if source.kind == "parquet" or source.is_packed else 1)
    return total


@contextmanager
def open_spark(request: SparkRequest, *, is_short: bool) -> Iterator[Any]:
    """Start a session for one command and end it with everything behind it; one that exists is used and goes on.

    Raises:
        SparkMissingError, JavaMissingError, JavaTooOldError: what it needs is not there.
        SparkStartError, SparkWorkerError: it does not start, or cannot run our code.
    """
    show_pandas()
    from omnigraph.spark import session, stop  # noqa: PLC0415 - loaded for the commands that use it
    from omnigraph.spark.sessions.session import active_session  # noqa: PLC0415 - see above

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
def on_engine(backend: CommandBackend, request: SparkRequest) -> Iterator[Backend]:
    """Give what executes merges, reverts and differences: the backend itself, or executors if the options ask for them.

    Raises:
        SparkMissingError, JavaMissingError, JavaTooOldError: what Spark needs is not there.
        SparkStartError, SparkWorkerError: it does not start, or cannot run our code.
        UsageError: the graph is one of a server.
    """
    if not choose_plainly(request).is_spark:
        yield backend
        return
    storage = local_backend(backend)
    with open_spark(request, is_short=False) as started:
        from omnigraph.spark.history.operations import ExecutorBackend  # noqa: PLC0415 - loaded for the runs that use it

        yield ExecutorBackend(storage, started)


def _amount(size_bytes: int) -> str:
    return f"input of {size_bytes / (1 << 20):,.1f} MiB"


def _missing() -> str | None:
    if find_spec("pyspark") is None or find_spec("pandas") is None:
        return "PySpark is not installed"
    from omnigraph.spark.sessions.java import find_java  # noqa: PLC0415 - loaded for loads that are large enough

    try:
        find_java()
    except (JavaMissingError, JavaTooOldError) as problem:
        return problem.message
    return None
