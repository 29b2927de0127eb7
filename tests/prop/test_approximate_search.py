"""Approximate search of a graph that changes: what it returns is always a true part of what is stored.

With every partition it is the exact answer, whatever was inserted, rewritten, deleted, optimized or branched before.
"""

from __future__ import annotations

import numpy as np
import pytest

import omnigraph
from omnigraph import QueryOptions
from tests.marks import first

SCHEMA = "node Doc { slug: String @key  n: I32  v: Vector(4)? @index(ann) }"
BODY = (
    "query q($q: Vector(4), $least: I32) { match { $d: Doc  $d.n >= $least }"
    " return { $d.slug, nearest($d.v, $q) as far } order { nearest($d.v, $q) } limit 7 }"
)
EXACT, EVERYTHING, ONE = QueryOptions(nearest="exact"), QueryOptions(probes=1 << 20), QueryOptions(probes=1)
KEYS = 5000


class _Docs:
    """What is stored on each branch, by plain dictionaries."""

    def __init__(self, graph, random):
        self.graph = graph
        self.branches = {"main": (graph, {})}
        self.random = random

    def write(self, name, count):
        graph, known = self.branches[name]
        keys = self.random.choice(KEYS, size=count, replace=False).tolist()
        numbers = self.random.integers(-50, 50, size=(count, 4)).astype(np.float32)
        # Whole numbers make many ties, and some rows have no vector.
        vectors = [None if key % 97 == 0 else row.tolist() for key, row in zip(keys, numbers, strict=True)]
        known.update(zip(keys, vectors, strict=True))
        rows = [{"slug": f"d{key:04}", "n": key % 10, "v": row} for key, row in zip(keys, vectors, strict=True)]
        graph.load({"Doc": rows}, mode="merge")

    def remove(self, name):
        graph, known = self.branches[name]
        if known:
            gone = int(self.random.integers(10))
            graph.mutate(
                "query m($n: I32, $s: String) { delete Doc where n = $n and slug < $s }", {"n": gone, "s": "d1000"}
            )
            for key in [key for key in known if key % 10 == gone and key < 1000]:
                del known[key]

    def fork(self, name):
        _, known = self.branches[name]
        other = f"b{len(self.branches)}"
        self.branches[other] = (self.graph.create_branch(other, name), dict(known))

    def check(self, name):
        graph, known = self.branches[name]
        approximate = 0
        for least in (0, 4, 9):
            query = self.random.integers(-50, 50, size=4).astype(float).tolist()
            given = {"q": query, "least": least}
            true = sorted(
                (float(np.sqrt(((np.asarray(row) - query) ** 2).sum())), f"d{key:04}")
                for key, row in known.items()
                if row is not None and key % 10 >= least
            )
            asked = {
                how: [(row["far"], row["d.slug"]) for row in graph.query(BODY, given, options=options)]
                for how, options in (("exact", EXACT), ("all", EVERYTHING), ("one", ONE))
            }
            assert asked["exact"] == asked["all"] == true[:7]
            assert set(asked["one"]) <= set(true)
            assert asked["one"] == sorted(asked["one"])
            assert len(asked["one"]) == min(7, len(true))
            approximate += sum(
                one["is_approximate"] for one in graph.explain(BODY, given, run=True, options=ONE).to_json()["searches"]
            )
        return approximate


@pytest.mark.parametrize("seed", first(1, range(4)))
def test_an_approximate_search_never_says_what_is_not_so(tmp_path, seed):
    random = np.random.default_rng(seed)
    with omnigraph.init(str(tmp_path / "graph"), SCHEMA) as graph:
        docs = _Docs(graph, random)
        docs.write("main", 4000)
        graph.optimize()
        approximate = docs.check("main")
        for step in range(6):
            name = str(random.choice(sorted(docs.branches)))
            match int(random.integers(5)):
                case 0:
                    docs.write(name, int(random.integers(1, 40)))
                case 1:
                    docs.write(name, 1500)
                case 2:
                    docs.remove(name)
                case 3:
                    docs.fork(name)
                case _:
                    docs.branches[name][0].optimize()
            if step % 2:
                docs.branches[name][0].optimize()
            for known in docs.branches:
                approximate += docs.check(known)
    # Otherwise nothing was tested.
    assert approximate
