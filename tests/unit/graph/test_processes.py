"""Graphs and processes: what a fork may use, and that it never hangs."""

from __future__ import annotations

from tests.e2e.process import clean_environment
from tests.warm import run_warm

SCRIPT = """
import os, sys, warnings
import omnigraph

warnings.filterwarnings("ignore", message="lance is not fork-safe")
READ = "query q() { match { $a: A } return { $a.k } }"

def child(work):
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        work()
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(pid, 0)

def early():
    with omnigraph.init("early", "node A { k: String @key }") as graph:
        print(len(graph.query(READ)))

def late():
    for use in (lambda: graph.query(READ), lambda: graph.changes(), lambda: graph.session, lambda: omnigraph.open("g")):
        try:
            use()
        except omnigraph.OmnigraphError as error:
            print(error.code)
    graph.close()
    print(graph)

child(early)
graph = omnigraph.init("g", "node A { k: String @key }")
child(late)
print(len(graph.query(READ)))
graph.close()
"""


def test_a_fork_gets_an_error_and_one_before_anything_is_opened_works(tmp_path):
    (tmp_path / "forks.py").write_text(SCRIPT)
    ended = run_warm("tests.warm.script", [str(tmp_path / "forks.py")], cwd=tmp_path, env=clean_environment())
    shown = f"<Graph {str(tmp_path / 'g')!r}, read_write>"
    assert ended.stderr == b""
    assert ended.stdout.decode().splitlines() == ["0", *["storage.forked_process"] * 4, shown, "0"]
