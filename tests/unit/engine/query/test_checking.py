"""Debug runs compare what is held in memory of a version with its tables, and find whatever is wrong with it."""

import numpy as np
import pytest

import omnigraph
from omnigraph.engine.query.search import versions
from omnigraph.engine.query.search.places import Moves
from omnigraph.engine.query.topology import cache, node_numbers
from omnigraph.engine.query.topology.image import TableImage
from omnigraph.engine.query.topology.layers import LayeredEdges
from omnigraph.engine.query.topology.overlay import OverlaidAdjacency
from omnigraph.engine.query.topology.segments import FragmentSegment
from omnigraph.errors import InternalError
from omnigraph.runtime.environment import CHECKS_VARIABLE

SCHEMA = """
node Person { name: String @key  bio: String? @index }
edge Knows: Person -> Person
"""
NAMES = [f"p{number}" for number in range(40)]
FRIENDS = "query q($name: String) { match { $p: Person { name: $name }  $p knows $f } return { $f.name as name } }"
UPDATE = "query m($names: [String], $bio: String) { update Person set { bio: $bio } where name in $names }"
WORDS = "query q($word: String) { match { $p: Person  search($p.bio, $word) } return { $p.name as name } }"


@pytest.fixture
def graph(tmp_path, monkeypatch):
    monkeypatch.setenv(CHECKS_VARIABLE, "1")
    monkeypatch.setattr(cache, "LEAST_EDGES", 0)
    with omnigraph.init(tmp_path / "g", SCHEMA) as made:
        made.load(
            {
                "Person": [{"name": name, "bio": "tea"} for name in NAMES],
                "Knows": [{"from": "p0", "to": "p3"}, {"from": "p1", "to": "p11"}],
            }
        )
        yield made


def use(graph):
    """Bring every kind of thing into memory, behind several changes."""
    found = []
    for text, parameters in (
        (UPDATE, {"names": ["p3", "p11"], "bio": "green"}),
        (UPDATE, {"names": ["p3"], "bio": "black"}),
        ('query m() { insert Knows { from: "p2", to: "p3" } }', {}),
        ('query m() { delete Knows where from = "p1" }', {}),
    ):
        graph.mutate(text, parameters)
        found = [graph.query(FRIENDS, {"name": name}).rows() for name in ("p0", "p1")]
        found += [graph.query(WORDS, {"word": "black"}).rows()]
    return found


def test_nothing_differs_where_nothing_is_wrong(graph):
    assert use(graph) == [[{"name": "p3"}], [], [{"name": "p3"}]]


def live_rows_only(self, offsets):
    return self.row_ids[np.minimum(offsets - np.searchsorted(self.deleted, offsets), self.row_count - 1)]


WRONG = {
    "row ids of deleted rows": (FragmentSegment, "row_ids_at", live_rows_only),
    "codes of rows": (TableImage, "codes_of", lambda self, row_ids: np.zeros(len(row_ids), dtype=np.int64)),
    "numbers of nodes": (node_numbers.NodeNumbers, "of", lambda self, row_ids: np.arange(len(row_ids))),
    "edges that are gone": (LayeredEdges, "_shown", lambda self, entries, near, far: entries),
    "places of words": (versions, "to_codes", lambda found, table: Moves.of(np.array([0]), np.array([-1]))),
    "entries that came since": (OverlaidAdjacency, "_added_entries", lambda self, codes: (codes[:0],) * 3),
}


@pytest.mark.parametrize("what", WRONG)
def test_whatever_is_wrong_in_memory_is_found_before_it_is_read(graph, monkeypatch, what):
    monkeypatch.setattr(*WRONG[what])
    with pytest.raises(InternalError, match="in memory differs from its table"):
        use(graph)


def test_production_checks_nothing(graph, tmp_path, monkeypatch):
    monkeypatch.setenv(CHECKS_VARIABLE, "0")
    monkeypatch.setattr(FragmentSegment, "row_ids_at", live_rows_only)
    with omnigraph.open(tmp_path / "g") as other:
        use(other)
