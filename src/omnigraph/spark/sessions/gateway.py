"""The process that hosts Spark's driver: started quietly, and ended when the session is."""

from __future__ import annotations

import atexit
import os
import subprocess
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from omnigraph.errors import JobFault, MissingThing, SparkMissingError, SparkStartError
from omnigraph.records import record
from omnigraph.runtime.caches import cache_folder
from omnigraph.spark.sessions.caches import cache_key
from omnigraph.spark.sessions.reach import cause_of

# It removes its temporary files as it ends, which takes a moment; longer than this it is stuck.
_ENDING_S = 15.0
_LOG_HEAD_BYTES = 1 << 16

_environment_lock = threading.Lock()
_hosts: list[Host] = []


@record(frozen=False)
class Host:
    """A process of ours that hosts a driver, and the file that it writes its noise to."""

    process: subprocess.Popen[bytes]
    gateway: Any
    log: Path
    is_log_kept: bool
    is_ended: bool = False
    # A fork of this process has the object, and no say in the matter.
    owner: int = field(default_factory=os.getpid)

    def end(self) -> None:
        """End the process and wait until it is gone; twice does no harm."""
        if self.is_ended or self.owner != os.getpid():
            return
        self.is_ended = True
        with suppress(Exception):
            self.gateway.shutdown()
        # The process ends by itself when its input does, and takes the Python workers with it.
        if self.process.stdin is not None:
            self.process.stdin.close()
        _wait(self.process)
        if not self.is_log_kept:
            self.log.unlink(missing_ok=True)


def start_host(conf: Mapping[str, str], environment: Mapping[str, str], *, log: Path | None) -> Host:
    """Start the process for a driver, with everything that it says going to a file.

    Raises:
        SparkStartError: it ended before it could be reached.
    """
    from pyspark import SparkConf  # noqa: PLC0415 - Spark is loaded when it is used
    from pyspark.errors import PySparkRuntimeError  # noqa: PLC0415 - see above
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415 - see above

    given = SparkConf(loadDefaults=False).setAll(list(conf.items()))
    file, path = _open_log(log)
    with file, set_environment(environment), warnings.catch_warnings():
        # Lance warns of every fork; this one only starts another program.
        warnings.filterwarnings("ignore", message="lance is not fork-safe", category=UserWarning)
        try:
            # The process must not hold our own streams: whoever reads them would wait for it.
            gateway = launch_gateway(given, {"stdout": file, "stderr": file})  # type: ignore[no-untyped-call]  # Spark's door
        except PySparkRuntimeError as problem:
            reason = cause_of(problem, log_head(path))
            raise SparkStartError(
                f"Spark did not start: {reason}",
                details=JobFault(doing="start", reason=reason),
                hint=f"the log of its driver is {path}",
            ) from problem
    host = Host(process=gateway.proc, gateway=gateway, log=path, is_log_kept=log is not None)
    _hosts.append(host)
    return host


def host_of(gateway: Any) -> Host | None:
    """Return the process behind a gateway, if it is one of ours."""
    return next((host for host in _hosts if host.gateway is gateway and not host.is_ended), None)


def is_driver_ended(context: Any) -> bool:
    """Whether the process behind a context is gone; one that other programs started is not known."""
    process = getattr(getattr(context, "_gateway", None), "proc", None)
    return process is not None and process.poll() is not None


def forget_ended_driver() -> None:
    """Let Spark forget a driver that was killed: every call to it, its end included, would fail for ever."""
    from pyspark import SparkContext  # noqa: PLC0415 - Spark is loaded when it is used
    from pyspark.sql import SparkSession  # noqa: PLC0415 - see above

    context: Any = SparkContext._active_spark_context  # noqa: SLF001 - the one place where Spark keeps it
    if context is None or not is_driver_ended(context):
        return
    host = host_of(context._gateway)  # noqa: SLF001 - see above
    # What cannot be reached cannot be stopped; the server for accumulators runs in this process.
    context._jsc = None  # noqa: SLF001 - see above
    with suppress(Exception):
        context.stop()
    for owner, names in (
        (SparkContext, ("_active_spark_context", "_gateway", "_jvm")),
        (SparkSession, ("_instantiatedSession", "_activeSession")),
    ):
        for name in names:
            setattr(owner, name, None)
    if host is not None:
        host.end()


@contextmanager
def set_environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables for as long as Spark starts, which reads them from nowhere else."""
    with _environment_lock:
        kept = {name: os.environ.get(name) for name in values}
        os.environ.update(values)
        try:
            yield
        finally:
            for name, value in kept.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


@atexit.register
def _end_all() -> None:
    for host in _hosts:
        if not host.is_ended and host.owner == os.getpid():
            _stop_context(host)
            host.end()


def _stop_context(host: Host) -> None:
    from pyspark import SparkContext  # noqa: PLC0415 - Spark is loaded when it is used

    # It listens to its host, and would report every connection that breaks off.
    context = SparkContext._active_spark_context  # noqa: SLF001 - the one place where Spark keeps it
    if context is not None and context._gateway is host.gateway:  # noqa: SLF001 - see above
        with suppress(Exception):
            context.stop()


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_ENDING_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _open_log(log: Path | None) -> tuple[IO[bytes], Path]:
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        return log.open("ab"), log
    handle, name = tempfile.mkstemp(prefix="omnigraph-spark-", suffix=".log")
    return os.fdopen(handle, "wb"), Path(name)


def log_head(log: Path) -> str:
    """Return the beginning of what a driver has said, nothing where that cannot be read."""
    try:
        with log.open("rb") as file:
            return file.read(_LOG_HEAD_BYTES).decode(errors="replace")
    except OSError:
        return ""


# Without ``python``: workers then import the installed package, which is compiled, and not the zip file, which is not.
_HOME_PARTS = ("bin", "jars", "sbin", "data")
# Options of a runtime that is quick to start and small, and slower by half or more in long jobs.
SHORT_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def spark_home(environment: Mapping[str, str]) -> Path | None:
    """Return a home of Spark that starts workers sooner; None if one is set, or none can be made.

    Raises:
        SparkMissingError: PySpark is not installed.
    """
    package = _package_folder()
    if os.name != "posix" or environment.get("SPARK_HOME"):
        return None
    home = cache_folder("spark", environment) / "home" / cache_key(str(package))
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        for part in _HOME_PARTS:
            _link(home / part, package / part)
    except OSError:
        return None
    return home


def _package_folder() -> Path:
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise SparkMissingError("pyspark is not installed", details=MissingThing(what="library", name="pyspark"))
    return Path(found.origin).parent


def _link(link: Path, target: Path) -> None:
    if link.is_symlink() and link.readlink() == target:
        return
    try:
        link.symlink_to(target)
    except FileExistsError:
        # Another process was faster, or the package was installed elsewhere under the same name.
        if not link.samefile(target):
            raise
