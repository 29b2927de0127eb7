"""Processes that update and delete rows of one type: every write succeeds, none is lost, disjoint ones run once."""

import json
import os
import sys
import time

import pytest

from tests.auditor import audit
from tests.session_graph import commit_ids, create_graph, open_session, read_graph
from tests.warm import PROJECT, WarmProcess

SCHEMA = "node Counter { name: String @key  n: I64 }"
NAMES = ("ann", "bo", "cy")
EACH = 6
_LONGEST_S = 300


@pytest.fixture
def root(tmp_path):
    names = [*NAMES, "shared", *(f"{name}-spare{number}" for name in NAMES for number in range(1, EACH + 1))]
    rows = [{"type": "Counter", "data": {"name": name, "n": 0}} for name in names]
    create_graph(tmp_path / "g", SCHEMA, "\n".join(map(json.dumps, rows)))
    return tmp_path / "g"


@pytest.fixture
def race(root):
    """Let one process per name begin at the same moment; return what each of them says in the end."""
    processes = []

    def run():
        said = {name: root.with_name(f"{name}.said") for name in NAMES}
        gates = {name: root.with_name(f"{name}.gate") for name in NAMES}
        for name in NAMES:
            with said[name].open("wb") as out:
                arguments = [str(root), name, str(EACH), str(gates[name])]
                process = WarmProcess(
                    "tests.multiprocess.updating",
                    arguments,
                    cwd=PROJECT,
                    env=dict(os.environ),
                    out=out.fileno(),
                    err=sys.__stderr__.fileno(),
                )
            processes.append(process)
        while not all(gate.with_name(f"{gate.name}.reached").exists() for gate in gates.values()):
            assert all(process.poll() is None for process in processes), "a process ended before its gate"
            time.sleep(0.005)
        for gate in gates.values():
            gate.touch()
        for process in processes:
            assert process.wait(_LONGEST_S) == 0
        return {name: json.loads(path.read_text(encoding="utf-8")) for name, path in said.items()}

    yield run
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.wait()


def test_processes_that_change_rows_of_one_type_all_succeed(root, race):
    with open_session(root) as session:
        before = len(commit_ids(session))
    each = {"own": [1] * (2 * EACH), "reruns": 0, "shared": [1] * EACH}
    assert race() == dict.fromkeys(NAMES, each)
    with open_session(root) as session:
        found = read_graph(session)["node:Counter"]
        assert {name: row["n"] for name, row in found.items()} == {
            **dict.fromkeys(NAMES, EACH),
            "shared": len(NAMES) * EACH,
        }
        assert len(commit_ids(session)) == before + len(NAMES) * 3 * EACH
    assert audit(str(root), present={"node:Counter": [*NAMES, "shared"]}) == []
