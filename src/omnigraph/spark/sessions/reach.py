"""Whether the Spark that an address names answers, found out before Spark waits for it, and what it failed for.

Spark itself tries again for a minute or more, and then says only that it gave up.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import urlsplit

from omnigraph.errors import BadValue, JobFault, SparkStartError, UsageError

# A cluster that is there answers at once; one behind a slow network within this.
PATIENCE_S = 10.0
_STANDALONE = "spark://"
_LONGEST = 300
_CAUSE = re.compile(
    r"""^(?:: |Caused by:\ |Exception in thread "main"\ )(?:[\w.$]+:\ )*(?P<reason>\S.*)$""", re.MULTILINE
)
# The end of a traceback of a worker.
_WORKER = re.compile(r"^Traceback .*\n(?:[ \t].*\n|\n)*(?P<reason>\w[\w.]*: .+)$", re.MULTILINE)
# What an interpreter says that is none of ours.
_INTERPRETER = re.compile(r"^Error from python worker:\n\s*(?P<reason>\S.*)$", re.MULTILINE)
# A call to a server that did not come to an end.
_CALL = re.compile(r'^\s*details = "(?P<reason>.+)"$', re.MULTILINE)
_LINE = re.compile(r"^\s*(?P<reason>\S.*)$", re.MULTILINE)
# What a driver logs when it gives up, such as "… ERROR StandaloneSchedulerBackend: Application has been killed".
_LOGGED = re.compile(r" ERROR (?:\w+: )?(?P<reason>.+)$", re.MULTILINE)


def check_master(master: str) -> None:
    """Return if some machine of a standalone master answers; any other kind of master is Spark's to judge.

    Raises:
        UsageError: it is no address of machines.
        SparkStartError: none answers.
    """
    if not master.startswith(_STANDALONE):
        return
    reasons = []
    for host, port in _machines(master):
        try:
            socket.create_connection((host, port), PATIENCE_S).close()
        except OSError as problem:
            reasons.append(f"{host}:{port}: {_spoken(problem)}")
        else:
            return
    raise _unreachable("Spark master", "; ".join(reasons), "start it, or use the address in its log")


def check_server(channel: Any, address: str) -> None:
    """Return if a Spark Connect server answers at the other end of ``channel``, which is closed.

    Raises:
        SparkStartError: none does.
    """
    from grpc import FutureTimeoutError, channel_ready_future  # noqa: PLC0415 - Spark Connect brings it

    hint = "start one with `sbin/start-connect-server.sh`, or use a master"
    host, _, port = address.rpartition(":")
    with closing(channel):
        try:
            socket.create_connection((host.strip("[]"), int(port)), PATIENCE_S).close()
            channel_ready_future(channel).result(PATIENCE_S)
        except FutureTimeoutError as problem:
            reason = f"{address}: the server there is a different one"
            raise _unreachable("Spark Connect server", reason, hint) from problem
        except (OSError, ValueError) as problem:
            raise _unreachable("Spark Connect server", f"{address}: {_spoken(problem)}", hint) from problem


def is_answering(spark: Any) -> bool:
    """Whether the server of a session of Spark Connect answers, and knows the session; one that began anew does not."""
    from grpc import RpcError  # noqa: PLC0415 - Spark Connect brings it
    from pyspark.errors import PySparkException  # noqa: PLC0415 - Spark is loaded when it is used

    try:
        with trying_once(spark):
            spark.conf.get("spark.sql.session.timeZone")
    except (PySparkException, RpcError, ValueError):
        # The last one says that the session was stopped.
        return False
    return True


@contextmanager
def trying_once(spark: Any) -> Iterator[None]:
    """Let no call to a server of Spark Connect be repeated within a block."""
    tried = spark.client.get_retry_policies()
    spark.client.set_retry_policies([])
    try:
        yield
    finally:
        spark.client.set_retry_policies(tried)


def cause_of(problem: Exception, log: str = "") -> str:
    r"""Return the innermost reason of what Spark raised, or of what its driver logged while it gave up.

    >>> cause_of(ValueError("An error occurred while calling x.\n: a.b.SparkException: could not parse 'y'"))
    "could not parse 'y'"
    """
    told = f"{problem}\n"
    for text, form in (
        (told, _WORKER),
        (told, _INTERPRETER),
        (told, _CAUSE),
        (log, _CAUSE),
        (log, _LOGGED),
        (told, _CALL),
        (told, _LINE),
    ):
        found = [match["reason"].strip() for match in form.finditer(text)]
        if found:
            # What led to the others stands last; of what was logged, and of plain lines, the first says it.
            return found[-1 if form is _CAUSE or form is _WORKER else 0][:_LONGEST]
    return type(problem).__name__


def _machines(master: str) -> Iterator[tuple[str, int]]:
    for text in master.removeprefix(_STANDALONE).split(","):
        try:
            parts = urlsplit(f"//{text}")
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port = None, None
        if host is None or port is None:
            details = BadValue(what="master", value=master, expected="spark://HOST:PORT")
            raise UsageError(f"invalid Spark master '{master}'", details=details)
        yield host, port


def _spoken(problem: Exception) -> str:
    if isinstance(problem, TimeoutError):
        return f"no answer within {PATIENCE_S:.0f} seconds"
    return str(getattr(problem, "strerror", None) or problem).lower()


def _unreachable(what: str, reason: str, hint: str) -> SparkStartError:
    return SparkStartError(
        f"cannot reach the {what}: {reason}", details=JobFault(doing="connect", reason=reason[:_LONGEST]), hint=hint
    )
