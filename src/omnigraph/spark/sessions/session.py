"""Sessions of Spark: one tuned for our work, or the caller's own once its workers have proved fit."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph.distribution import pip_install
from omnigraph.engine.open_graph import OpenGraph
from omnigraph.errors import BadValue, JobFault, MissingThing, SparkMissingError, SparkStartError, UsageError
from omnigraph.operations.local import LocalBackend
from omnigraph.spark.jobs import is_connect
from omnigraph.spark.sessions.gateway import (
    SHORT_OPTIONS,
    Host,
    forget_ended_driver,
    host_of,
    is_driver_ended,
    log_head,
    set_environment,
    spark_home,
    start_host,
)
from omnigraph.spark.sessions.java import find_java
from omnigraph.spark.sessions.reach import cause_of, check_master, check_server, is_answering, trying_once
from omnigraph.spark.sessions.workers import check_workers
from omnigraph.values import check_flags, check_path, check_text, checked_text, unfit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from omnigraph.graph.graph import Graph


# They print every mistake in a query as JSON, beside the exception that tells it anyway.
_LOUD_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")

# A cluster that runs takes a driver on within seconds.
_REGISTERED_S = 20.0
# How often, and with which longest pause in milliseconds, a server that does not answer is tried: half a minute in all.
# Spark's own client tries for ten minutes, without a word.
_TRIES, _PAUSE_MS = 8, 6_000

# What our code relies on wherever it runs; a session of Spark Connect can be given these, and no others.
_RELIED_ON = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Columns from Python are bound by position; unchecked, a wrong one would be read as another type.
    "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
}

_starting = threading.Lock()


def session(
    *,
    master: str | None = None,
    remote: str | None = None,
    conf: Mapping[str, str] | None = None,
    log: str | Path | None = None,
    is_short: bool = False,
) -> SparkSession:
    """Return the session that this process has, or start one that suits our work.

    Args:
        master: Where Spark runs, such as ``local[4]`` or ``spark://host:7077``; all cores of this machine if none.
        remote: The address of a Spark Connect server, ``sc://host:15002``, instead of a master.
        conf: Settings of Spark; they have the last word.
        log: The file for what Spark says; without one it goes to a temporary file that ends with the session.
        is_short: Start sooner, and be slower in long jobs.

    Raises:
        UsageError: both a master and a remote, or an argument of another type.
        ValueFormatError: a text among them cannot be encoded.
        SparkMissingError: PySpark is not installed.
        JavaMissingError, JavaTooOldError: there is no Java for it.
        SparkStartError: it does not start, or cannot be reached.
        SparkWorkerError: its workers cannot run our code.
    """
    for what, text in (("master", master), ("remote", remote)):
        checked_text(what, text)
    _check_conf(conf)
    if log is not None:
        check_path("log", log)
    check_flags(is_short=is_short)
    if master is not None and remote is not None:
        raise UsageError(
            "master and remote cannot be combined",
            details=BadValue(what="session", value=remote, expected="master or remote"),
        )
    # Two threads must not start one each: a process can have only one.
    with _starting:
        running = active_session()
        if running is not None:
            check_workers(running)
            return running
        return _start_fit(master, remote, dict(conf or {}), None if log is None else Path(log), is_short)


def given_or_started(spark: SparkSession | None) -> SparkSession:
    """Return the session that a caller gave, fit for our work, or the one of this process.

    Raises:
        UsageError: it is no session.
        SparkWorkerError: the workers of the caller's session cannot run our code.
    """
    if spark is None:
        return session()
    if isinstance(spark, type) or not callable(getattr(spark, "createDataFrame", None)):
        raise unfit("spark", spark, "a Spark session")
    if is_connect(spark):
        if not is_answering(spark):
            raise _ended("Spark Connect server", "it does not answer, or the session has expired")
    elif is_driver_ended(spark.sparkContext):
        raise _ended("driver", "its process is gone")
    check_workers(spark)
    return spark


def active_session() -> SparkSession | None:
    """Return the session that this process has already, if any; one whose driver or server has ended is none.

    Raises:
        SparkMissingError: PySpark is not installed.
    """
    _require_pyspark()
    from pyspark import SparkContext  # noqa: PLC0415 - Spark is loaded when it is used
    from pyspark.errors import PySparkException  # noqa: PLC0415 - see above
    from pyspark.sql import SparkSession  # noqa: PLC0415 - see above

    forget_ended_driver()
    try:
        # The active one is that of a thread; any other thread has the default one.
        found = SparkSession.active()
    except PySparkException:
        return None
    if is_connect(found):
        if is_answering(found):
            return found
        stop(found)
        return None
    return found if SparkContext._active_spark_context is not None else None  # noqa: SLF001 - see stop


def stop(spark: SparkSession) -> None:
    """Stop a session, and end the process behind it if it was started here; by force if it takes too long.

    A session whose driver or server has ended, however that came about, needs nothing more.
    """
    if is_connect(spark):
        with trying_once(spark):
            spark.stop()
        return
    from pyspark import SparkContext  # noqa: PLC0415 - Spark is loaded when it is used

    gateway = SparkContext._gateway  # noqa: SLF001 - the one place where Spark keeps it
    host = None if gateway is None else host_of(gateway)
    if is_driver_ended(spark.sparkContext):
        forget_ended_driver()
    else:
        spark.stop()
    if host is None:
        return
    # Without this the next session of the process would talk to a host that is gone.
    SparkContext._gateway = None  # noqa: SLF001 - see above
    SparkContext._jvm = None  # noqa: SLF001 - see above
    host.end()


def settings_for(master: str) -> dict[str, str]:
    """Return the settings of a session of ours on a master."""
    chosen = {
        "spark.app.name": "omnigraph",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.worker.reuse": "true",
        "spark.sql.adaptive.enabled": "true",
        **_RELIED_ON,
    }
    if not master.startswith("local"):
        return chosen
    return chosen | {
        "spark.driver.memory": "2g",
        # Nobody else talks to this driver, and the machine's name may lead nowhere.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(2 * _cores(master)),
    }


def _check_conf(conf: object) -> None:
    if conf is None:
        return
    if not isinstance(conf, Mapping):
        raise unfit("conf", conf, "Spark settings by name")
    for name, value in conf.items():
        check_text("conf", name)
        check_text(name, value)


def _start_fit(
    master: str | None,
    remote: str | None,
    conf: Mapping[str, str],
    log: Path | None,
    is_short: bool,
) -> SparkSession:
    for name in _LOUD_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    started = _start(master or "local[*]", conf, log, is_short) if remote is None else _connect(remote, conf)
    try:
        check_workers(started)
    except BaseException:
        stop(started)
        raise
    return started


def _start(master: str, conf: Mapping[str, str], log: Path | None, is_short: bool) -> SparkSession:
    from pyspark import SparkContext  # noqa: PLC0415 - Spark is loaded when it is used

    check_master(master)
    settings = settings_for(master) | {"spark.master": master}
    if SparkContext._gateway is not None:  # noqa: SLF001 - the one place where Spark keeps it
        # The host of a session that the caller has stopped: a process can have one, and this one goes on.
        return _open({**settings, **conf}, _interpreter(), None)
    java, home = find_java(), spark_home(os.environ)
    environment = _interpreter() | {"JAVA_HOME": str(java.home)} | ({} if home is None else {"SPARK_HOME": str(home)})
    options = {"spark.driver.extraJavaOptions": SHORT_OPTIONS} if is_short else {}
    chosen = {**settings, **options, **conf}
    host = start_host(chosen, environment, log=log)
    try:
        return _open(chosen, environment, host)
    except BaseException:
        host.end()
        raise


def _open(settings: Mapping[str, str], environment: Mapping[str, str], host: Host | None) -> SparkSession:
    from py4j.protocol import Py4JError  # noqa: PLC0415 - Spark is loaded when it is used
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - see above
    from pyspark.errors import PySparkException  # noqa: PLC0415 - see above
    from pyspark.sql import SparkSession  # noqa: PLC0415 - see above

    given = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    with set_environment(environment):
        try:
            with _bounded(settings["spark.master"], host):
                context = SparkContext(conf=given, gateway=None if host is None else host.gateway)
            _silence_accumulators(context)
            return SparkSession(context)
        except (Py4JError, PySparkException, ValueError, OSError) as problem:
            raise _not_started(problem, "" if host is None else log_head(host.log)) from problem


def _silence_accumulators(context: Any) -> None:
    """Let nothing be printed when a driver is killed; whoever uses the session hears of it."""
    server = getattr(context, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_: None


@contextmanager
def _bounded(master: str, host: Host | None) -> Iterator[None]:
    """End a driver that a cluster does not take on; it would go on trying for minutes."""
    if host is None or master.startswith("local"):
        yield
        return
    timer = threading.Timer(_REGISTERED_S, host.process.kill)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _connect(remote: str, conf: Mapping[str, str]) -> SparkSession:
    from pyspark.errors import PySparkException  # noqa: PLC0415 - Spark is loaded when it is used
    from pyspark.sql import SparkSession  # noqa: PLC0415 - see above

    builder = SparkSession.builder.remote(remote)
    for name, value in {**_RELIED_ON, **conf}.items():
        builder = builder.config(name, value)
    try:
        from pyspark.sql.connect.client import DefaultChannelBuilder  # noqa: PLC0415 - it needs more libraries
        from pyspark.sql.connect.client.retries import DefaultPolicy  # noqa: PLC0415 - see above

        channel = DefaultChannelBuilder(remote)
        check_server(channel.toChannel(), channel.endpoint)
        started = builder.getOrCreate()
    except ImportError as problem:
        raise SparkMissingError(
            "Spark Connect needs more libraries",
            details=MissingThing(what="library", name="pyspark[connect]"),
            hint=f"install them with `{pip_install('spark-connect')}`, or use a master",
        ) from problem
    except PySparkException as problem:
        raise _not_started(problem) from problem
    started.client.set_retry_policies([DefaultPolicy(max_retries=_TRIES, max_backoff=_PAUSE_MS)])
    return started


def _interpreter() -> dict[str, str]:
    # Spark would take whatever the path calls python3.
    return {} if "PYSPARK_PYTHON" in os.environ else {"PYSPARK_PYTHON": sys.executable}


def _cores(master: str) -> int:
    """How many tasks a local master runs at once.

    >>> _cores("local"), _cores("local[4]"), _cores("local[4,3]")
    (1, 4, 4)
    """
    count = master.removeprefix("local").strip("[]").split(",")[0].strip()
    if count == "*":
        return os.cpu_count() or 1
    return int(count) if count.isdecimal() else 1


def _require_pyspark() -> None:
    # ``spark_home`` finds it too, but not where a home is set or a session exists.
    try:
        import pandas as _pandas  # noqa: F401, PLC0415, ICN001 - mapInArrow refuses to work without it
        import pyspark  # noqa: F401, PLC0415 - Spark is loaded when it is used
    except ImportError as problem:
        name = problem.name or "pyspark"
        raise SparkMissingError(
            f"{name} is not installed", details=MissingThing(what="library", name=name)
        ) from problem


def _ended(what: str, reason: str) -> SparkStartError:
    return SparkStartError(
        f"the {what} of this Spark session has ended",
        details=JobFault(doing="use the session", reason=reason),
        hint="start another one with omnigraph.spark.session()",
    )


def _not_started(problem: Exception, log: str = "") -> SparkStartError:
    reason = cause_of(problem, log)
    return SparkStartError(f"Spark did not start: {reason}", details=JobFault(doing="start", reason=reason))


def engine_of(graph: Graph | LocalBackend | OpenGraph) -> OpenGraph:
    """Return the engine of an open graph, which works on the graph's storage itself.

    Raises:
        UsageError: it is not an open graph, or one that a server holds.
        ForkedProcessError: the graph was opened before this process was forked off.
    """
    if isinstance(graph, OpenGraph):
        return graph
    engine: object = getattr(getattr(graph, "backend", graph), "engine", None)
    if not isinstance(engine, OpenGraph):
        raise unfit("graph", graph, "an open graph")
    return engine
