"""Sessions that cannot begin, and drivers that are killed: the cause is told, and the next session works.

Each case runs in a process of its own, because a process has one Spark.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap

import pytest

from omnigraph.errors import SparkStartError, UsageError
from omnigraph.spark.sessions import reach
from omnigraph.spark.sessions.reach import check_master
from tests.crash.matrix import IS_FULL

START = """
import os, signal
from omnigraph.errors import OmnigraphError
from omnigraph.spark import session, stop, load
from omnigraph.spark.sessions.gateway import _hosts
from omnigraph.spark.sessions.session import given_or_started

def start(master="local[1]"):
    return session(master=master, is_short=True, conf={"spark.driver.memory": "512m"})

def kill(host):
    os.kill(host.process.pid, signal.SIGKILL)
    host.process.wait()

def told(work):
    try:
        work()
    except OmnigraphError as error:
        print(error.code, "|", error.message)
"""


def run(program: str, *, is_quiet: bool = True, **environment: str) -> list[str]:
    finished = subprocess.run(
        [sys.executable, "-c", START + textwrap.dedent(program)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=560,
    )
    assert not is_quiet or finished.stderr == ""
    return finished.stdout.splitlines()


# It starts drivers of its own.
@pytest.mark.more
@pytest.mark.long
def test_killed_driver_is_forgotten():
    # A driver takes ten seconds of the processor to start: that one starts behind a stop, too, is for the long run.
    again = """
        third = start()
        print(third.range(4).count())
        stop(third)
    """
    lines = run(
        """
        first = start()
        kill(_hosts[0])
        told(lambda: given_or_started(first))
        second = start()
        print(second.range(3).count())
        kill(_hosts[1])
        stop(second)
    """
        + (again if IS_FULL else "")
        + """
        print({host.process.poll() is None for host in _hosts}, len(_hosts))
    """,
        # Spark's own library logs a call that the kill meets.
        is_quiet=False,
    )
    assert lines == [
        "spark.start_failed | the driver of this Spark session has ended",
        "3",
        *(["4"] if IS_FULL else []),
        f"{{False}} {3 if IS_FULL else 2}",
    ]


# See above.
@pytest.mark.more
@pytest.mark.long
def test_interpreter_that_is_none_and_unknown_masters_are_told():
    lines = run(
        """
        told(lambda: start("nowhere"))
        told(start)
        print([host.process.poll() is None for host in _hosts])
        """,
        PYSPARK_PYTHON="/no/such/python",
    )
    assert lines[0].startswith("spark.start_failed | Spark did not start: Master must either be yarn")
    assert lines[1].startswith("spark.worker_unfit | Spark workers cannot run omnigraph's Python code: ")
    assert "No such file" in lines[1]
    assert lines[2] == "[False]"


def test_standalone_master_is_looked_for_before_a_driver_starts():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        check_master(f"spark://127.0.0.1:1,127.0.0.1:{port}")
    with pytest.raises(
        SparkStartError, match=r"cannot reach the Spark master: 127.0.0.1:1: connection refused; .*refused"
    ):
        check_master("spark://127.0.0.1:1,localhost:1")
    check_master("local[2]")
    for wrong in ("spark://", "spark://host", "spark://host:port", "spark://host:99999"):
        with pytest.raises(UsageError, match="invalid Spark master"):
            check_master(wrong)


def test_connect_server_is_looked_for_before_spark_waits(monkeypatch):
    from pyspark.sql.connect.client import DefaultChannelBuilder  # noqa: PLC0415 - the client alone needs it

    def check(address: str) -> str:
        builder = DefaultChannelBuilder(f"sc://{address}")
        with pytest.raises(SparkStartError) as caught:
            reach.check_server(builder.toChannel(), builder.endpoint)
        assert "start-connect-server" in (caught.value.hint or "")
        return caught.value.message

    assert check("127.0.0.1:1") == "cannot reach the Spark Connect server: 127.0.0.1:1: connection refused"
    monkeypatch.setattr(reach, "PATIENCE_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        assert check(address).endswith(f"{address}: the server there is a different one")
