"""A stored graph of two node types, whose rows can be loaded in any order."""

from __future__ import annotations

import json

import numpy as np
from tests.session_graph import RELAXED

import omnigraph

SCHEMA = """
node Person { name: String @key  score: F64?  small: F32?  place: I64?  tiny: I32?  must: F64  text: String?
  v: Vector(4)?  photo: Blob? }
node Team { code: String @key  score: F64? }
edge Knows: Person -> Person { w: F64?  n: I32?  d: Decimal(6, 2)?  note: String?  neg: F64? }
edge In: Person -> Team { w: F64? }
"""
# What each algorithm must be told; the rest has defaults.
REQUIRED = {"shortest_paths": {"sources": ["p00", "p01", "p02"]}, "fast_rp": {"dimension": 4}}


def lines(seed=0, people=30, teams=4):
    """Return the rows of a random graph, with parallel edges, loops and people without any."""
    random = np.random.default_rng(seed)
    found = [{"type": "Person", "data": {"name": f"p{n:02}", "must": 1.0}} for n in range(people)]
    found += [{"type": "Team", "data": {"code": f"t{n}"}} for n in range(teams)]
    for number in range(3 * people):
        source, target = random.integers(0, people - 5, 2)
        values = {"w": float(random.integers(1, 9)) / 4, "n": int(random.integers(0, 4)), "d": "1.25"}
        data = {"id": f"k{number:03}", **values, "neg": float(number - 3)}
        found.append({"edge": "Knows", "from": f"p{source:02}", "to": f"p{target:02}", "data": data})
    for number in range(people):
        person, team = random.integers(0, people - 5), random.integers(0, teams)
        data = {"id": f"i{number:03}", "w": 1.0}
        found.append({"edge": "In", "from": f"p{person:02}", "to": f"t{team}", "data": data})
    return found


def create(folder, rows, schema=SCHEMA):
    """Create a graph and load the rows in their order, edges and nodes alike."""
    graph = omnigraph.init(folder / "g", schema, settings=RELAXED)
    load(graph, folder, rows)
    return graph


def load(graph, folder, rows, mode="append"):
    file = folder / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    graph.load(file, mode)
