"""What a write of one row does not do: syncs that nothing needs, scans for rows that the keys find."""

import os
from collections import Counter
from pathlib import Path

import pytest
from lance import LanceDataset

import omnigraph
from omnigraph.engine.constraints import kernel
from omnigraph.store.projections.keys import build_keys
from omnigraph.values import MAIN

SCHEMA = """
node Person { slug: String @key  name: String?  age: I32? }
node Org { slug: String @key }
edge Knows: Person -> Person
edge WorksAt: Person -> Org
"""
INSERT = "query q($s: String, $n: String) { insert Person { slug: $s, name: $n } }"
UPDATE = "query q($s: String, $n: String) { update Person set { name: $n } where slug = $s }"
DELETE = "query q($s: String) { delete Person where slug = $s }"
EDGE = "query q($s: String, $t: String) { insert Knows { from: $s, to: $t } }"
THREE = """query q($s: String) {
  insert Person { slug: $s }
  insert Org { slug: $s }
  insert WorksAt { from: $s, to: $s }
}"""


@pytest.fixture
def graph(tmp_path):
    """A durable graph of some people, of which each table has been written to."""
    with omnigraph.init(tmp_path / "g", SCHEMA) as made:
        made.mutate_batch(INSERT, [{"s": f"p{at}", "n": "x"} for at in range(200)])
        made.mutate(THREE, {"s": "first"})
        made.mutate(EDGE, {"s": "p0", "t": "p1"})
        made.mutate(INSERT, {"s": "second", "n": "x"})
        yield made


def files_below(folder):
    return {path for path in folder.rglob("*") if path.is_file()}


def table_of(graph, key):
    """Return a table at the newest version."""
    return graph._backend.engine.store.snapshot(MAIN).table(key)


@pytest.fixture
def counted(monkeypatch):
    """Return a function that counts the calls of a method of a class."""

    def count(owner, name):
        calls, real = [], getattr(owner, name)

        def spy(*args, **kwargs):
            calls.append(args)
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, name, spy)
        return calls

    return count


@pytest.fixture
def synced(monkeypatch):
    """Paths in the order in which they were synced, for real."""
    paths, real = [], os.fsync

    def spy(descriptor):
        paths.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    return paths


@pytest.mark.parametrize(
    ("text", "given"),
    [
        (INSERT, {"s": "new", "n": "x"}),
        (UPDATE, {"s": "p3", "n": "y"}),
        (EDGE, {"s": "p4", "t": "p5"}),
        (THREE, {"s": "new"}),
    ],
)
def test_a_write_syncs_each_file_that_it_leaves_once(graph, tmp_path, synced, text, given):
    """What each table brings and the version of each table, and the same of the manifest."""
    graph.mutate(UPDATE, {"s": "p2", "n": "y"})
    graph.mutate(INSERT, {"s": "warm", "n": "x"})
    before = files_below(tmp_path)
    synced.clear()
    graph.mutate(text, given)
    # Nothing is lost with files of transactions, nor with what tells others that a write has been acknowledged.
    left = {path for path in files_below(tmp_path) - before if not {"_transactions", "__recovery"} & {*path.parts}}
    assert left
    times = Counter(synced)
    assert {path: times[path] for path in left} == dict.fromkeys(left, 1)
    assert {path.parent for path in left} <= times.keys()
    assert not [path for path in times if "_transactions" in path.parts]


@pytest.mark.parametrize("is_fresh", [False, True])
@pytest.mark.parametrize(
    ("text", "given"),
    [
        (INSERT, {"s": "p7", "n": "again"}),
        (UPDATE, {"s": "p7", "n": "y"}),
        (DELETE, {"s": "p8"}),
        (EDGE, {"s": "p4", "t": "p5"}),
    ],
)
def test_a_row_that_is_written_by_its_key_is_found_without_a_scan(graph, tmp_path, counted, text, given, is_fresh):
    """By keys that this process has in memory, or by those that a file beside the table has."""
    graph.optimize()
    graph.mutate(UPDATE, {"s": "p2", "n": "y"})
    build_keys(table_of(graph, "node:Person"))
    with omnigraph.open(tmp_path / "g") as other:
        scans = counted(LanceDataset, "scanner")
        (other if is_fresh else graph).mutate(text, given)
    # Which edges a node has is asked of their index.
    assert [handle.uri for handle, *_ in scans if "/nodes/" in handle.uri] == []


@pytest.mark.parametrize(
    ("text", "given"),
    [
        (INSERT, {"s": "p9", "n": "y"}),
        (UPDATE, {"s": "p9", "n": "z"}),
        (EDGE, {"s": "p1", "t": "p2"}),
        (THREE, {"s": "t"}),
    ],
)
def test_a_write_that_keeps_every_rule_opens_no_relational_engine(graph, counted, text, given):
    opened = counted(kernel, "open_connection")
    graph.mutate(text, given)
    assert opened == []
