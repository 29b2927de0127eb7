"""Graphs and processes: what a fork may use, and that it never hangs."""

from __future__ import annotations

import subprocess
import sys

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
    feed = lambda: next(iter(graph.feed("beginning")))
    for use in (lambda: graph.query(READ), feed, graph.status, lambda: omnigraph.open("g")):
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


QUIET = """
import sys, omnigraph
from omnigraph.errors import OmnigraphError
root = sys.argv[1]
with omnigraph.init(root, "node Person { name: String @key  age: I32? @index }") as graph:
    graph.mutate('query a() { insert Person { name: "x" } }')
    graph.create_branch("draft").mutate('query a() { insert Person { name: "y" } }')
    graph.merge("draft")
    graph.optimize()
    graph.status()
    graph.cleanup(keep=1)
    print(len(graph.query("query q() { match { $p: Person } return { $p.name } }").to_pandas()))
try:
    omnigraph.open(root + "-not-there")
except OmnigraphError as error:
    print(error.code)
from pathlib import Path
for path in sorted(Path(root).glob("nodes/*/data/*")):
    path.write_bytes(path.read_bytes()[:-1])
with omnigraph.open(root) as graph:
    try:
        graph.query("query q() { match { $p: Person } return { $p.name } }").rows()
    except OmnigraphError as error:
        print(error.code)
"""


def test_no_library_says_anything_on_standard_error(tmp_path):
    command = [sys.executable, "-W", "error", "-c", QUIET, str(tmp_path / "g")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.stdout.split(), done.stderr, done.returncode) == (["2", "graph.not_found", "storage.corrupt"], "", 0)
