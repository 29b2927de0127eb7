"""Ctrl-C while a load runs on Spark: its jobs end, nothing is visible, and no file is left that no commit names."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from omnigraph.spark import load
from tests.auditor import audit
from tests.e2e.process import clean_environment
from tests.session_graph import create_graph, open_session, read_graph
from tests.warm import WarmProcess

SCHEMA = "node Person { name: String @key  age: I32? }\n"


def lines(first, last, age):
    rows = [{"type": "Person", "data": {"name": f"p{at}", "age": age}} for at in range(first, last)]
    return "".join(json.dumps(row) + "\n" for row in rows)


def files(root):
    """What lies in the graph's tables and in its scratch place."""
    found = (path.relative_to(root) for path in Path(root).rglob("*") if path.is_file())
    return {str(path) for path in found if "data" in path.parts or "__scratch" in path.parts}


@pytest.fixture
def folder(tmp_path):
    create_graph(tmp_path / "g", SCHEMA, lines(0, 3, 1))
    (tmp_path / "rows.jsonl").write_text(lines(2, 6, 2))
    return tmp_path


def interrupt_at(gate):
    """Send this process the signal once a failpoint waits at a gate."""

    def run():
        while not gate.with_name("gate.reached").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=run, daemon=True).start()


@pytest.mark.core
def test_an_interrupted_load_removes_what_its_tasks_wrote_and_can_be_repeated(spark, folder, monkeypatch):
    gate, before = folder / "gate", files(folder / "g")
    monkeypatch.setenv("OMNIGRAPH_FAILPOINTS", f"spark.load.after_write=pause:{gate}")
    interrupt_at(gate)
    with open_session(folder / "g") as graph, pytest.raises(KeyboardInterrupt):
        load(graph, [str(folder / "rows.jsonl")], "merge", spark=spark)
    assert files(folder / "g") == before
    monkeypatch.delenv("OMNIGRAPH_FAILPOINTS")
    with open_session(folder / "g") as graph:
        load(graph, [str(folder / "rows.jsonl")], "merge", spark=spark)
        ages = {name: row["age"] for name, row in read_graph(graph)["node:Person"].items()}
    assert ages == {"p0": 1, "p1": 1, "p2": 2, "p3": 2, "p4": 2, "p5": 2}
    assert audit(str(folder / "g"), {}) == []


# It starts drivers of its own.
@pytest.mark.more
def test_an_interrupted_command_ends_its_jobs_and_says_nothing(folder):
    gate, before = folder / "gate", files(folder / "g")
    (folder / "rows.jsonl").write_text(lines(3, 6, 2))
    arguments = ("load", "g", "--data", "rows.jsonl", "--mode", "append", "--engine", "spark", "--quiet", "--json")
    environment = clean_environment(
        OMNIGRAPH_FAILPOINTS=f"spark.load.after_part=pause:{gate}", PYTHONPATH=os.environ.get("PYTHONPATH", "")
    )
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        process = WarmProcess("omnigraph", arguments, cwd=folder, env=environment, out=out.fileno(), err=err.fileno())
        # The task waits for ever: only the end of its job ends it.
        while not gate.with_name("gate.reached").exists():
            assert process.poll() is None, (folder / "err").read_text()
            time.sleep(0.01)
        assert len(files(folder / "g")) > len(before)
        process.send_signal(signal.SIGINT)
        assert process.wait(300) == 130
    assert ((folder / "out").read_text(), (folder / "err").read_text()) == ("", "")
    assert files(folder / "g") == before
    with open_session(folder / "g") as graph:
        assert sorted(read_graph(graph)["node:Person"]) == ["p0", "p1", "p2"]
