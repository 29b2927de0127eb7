"""How a server starts and ends."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import omnigraph
from omnigraph.values.formats import STORAGE_FORMAT
from tests.e2e.process import omnigraph as run_omnigraph
from tests.server.process import LISTENING, run_server


def test_health_needs_nothing(http):
    assert http.get("/healthz").json() == {
        "status": "ok",
        "version": omnigraph.__version__,
        "internal_schema_version": STORAGE_FORMAT,
    }


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_it_in_order(served_people: Path, tmp_path: Path, number: int):
    command = ["omnigraph", "serve", str(served_people), "--bind", "127.0.0.1:0", "--unauthenticated"]
    with run_server(command, tmp_path / "log") as server:
        with server.client() as client:
            assert client.get("/healthz").status_code == 200
        assert server.stop(number) == 0
        assert LISTENING not in server.stdout.read()


def test_graph_that_is_not_there_keeps_it_from_starting(tmp_path: Path):
    done = run_omnigraph("serve", "missing.omni", "--bind", "127.0.0.1:0", "--unauthenticated", cwd=tmp_path)
    assert done.code != 0
    assert LISTENING not in done.out
    assert "missing" in done.err
