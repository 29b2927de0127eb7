"""Steps over the entries of an earlier version and what changed since find what sorting everything anew would."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.marks import first
from tests.unit.engine.query.topology.stored import Graph
from tests.unit.engine.query.topology.test_extension import STEPS, apply, changes
from tests.unit.engine.query.topology.test_layers import go_on, persist, row_ids, stored  # noqa: F401 - a fixture

from omnigraph.engine.query.topology import TopologyCache, added_edges, incident_edges, neighbour_counts, overlay, reach
from omnigraph.engine.query.topology import cache as caching
from omnigraph.engine.query.topology import layers as layering
from omnigraph.engine.query.topology import neighbours as neighbours_of
from omnigraph.engine.query.topology.adjacency import Links
from omnigraph.engine.query.topology.edge_base import BaseLinks

SIDES = ("out", "in")
NONE = np.zeros(0, dtype=np.int64)


class Walks:
    """A version in one direction as its layers show it, in ids."""

    def __init__(self, graph, cache, direction, targets="a"):
        tables = graph.table("e"), graph.table("a"), graph.table(targets)
        near, far = (tables[2], tables[1]) if direction == "in" else (tables[1], tables[2])
        self.layers = cache.layers(*tables, direction, go_on)
        self.links = self.layers.overlaid(direction)
        order = (self.layers.sources, self.layers.targets)[:: -1 if direction == "in" else 1]
        self.near, self.far = order
        self.near_table = near
        self.far_ids = {row: name for name, row in self._named(far)}
        self.edge_ids = cache.image(tables[0]).column("id").to_pylist()

    def _named(self, table):
        rows = table.read(["id", "_rowid"])
        return zip(rows["id"].to_pylist(), rows["_rowid"].to_pylist(), strict=True)

    def codes(self, names):
        return self.near.of(row_ids(self.near_table, names))

    def named(self, numbers):
        return [self.far_ids[row] for row in self.far.row_ids(numbers).tolist()]


def check_walks(graph, cache, direction, *, targets="a"):
    walks = Walks(graph, cache, direction, targets)
    expected = graph.expected(direction, targets=targets)
    nodes = sorted(graph.rows[targets if direction == "in" else "a"])
    for names in (nodes, nodes[::2], nodes[:1] * 3, nodes[-1:], []):
        codes = walks.codes(names)
        rows, found, edges = incident_edges(walks.links, codes)
        triples = [
            (names[row], name, walks.edge_ids[edge])
            for row, name, edge in zip(rows.tolist(), walks.named(found), edges.tolist(), strict=True)
        ]
        assert rows.tolist() == sorted(rows.tolist())
        assert sorted(triples) == sorted(triple for name in names for triple in expected if triple[0] == name)
        rows, found = neighbours_of(walks.links, codes)
        pairs = list(zip(rows.tolist(), walks.named(found), strict=True))
        once = [{triple[1] for triple in expected if triple[0] == name} for name in names]
        assert sorted(pairs) == sorted((at, name) for at, found in enumerate(once) for name in found)
        assert list(zip(rows.tolist(), found.tolist(), strict=True)) == sorted(
            zip(rows.tolist(), found.tolist(), strict=True)
        )
        assert neighbour_counts(walks.links, codes).tolist() == [len(found) for found in once]
        per_edge = [sum(triple[0] == name for triple in expected) for name in names]
        assert neighbour_counts(walks.links, codes, by_edge=True).tolist() == per_edge
        assert (walks.links.entry_counts(codes) >= per_edge).all()
    if targets == "a":
        check_reach(walks, expected, nodes)


def check_reach(walks, expected, nodes):
    for least, most in ((1, 2), (2, 3), (1, 9)):
        rows, found = reach(walks.links, walks.codes(nodes), least, most, same_type=True, check=go_on)
        reached = {name: set() for name in nodes}
        for row, name in zip(rows.tolist(), walks.named(found), strict=True):
            reached[nodes[row]].add(name)
        assert reached == {name: by_definition(expected, name, least, most) for name in nodes}


def by_definition(expected, start, least, most):
    ends, found = {start}, set()
    for hop in range(1, most + 1):
        ends = {triple[1] for triple in expected if triple[0] in ends and triple[0] != triple[1]}
        if hop >= least:
            found |= ends - {start}
    return found | ({start} if least == 1 and any(triple[:2] == (start, start) for triple in expected) else set())


def check_version(graph, cache):
    for direction in SIDES:
        if cache.layers(graph.table("e"), graph.table("a"), graph.table("a"), direction, go_on) is not None:
            check_walks(graph, cache, direction)


@pytest.mark.parametrize("own_run", first(1, [1, 64]), ids=["sorted apart", "sorted together"])
@pytest.mark.parametrize("what", sorted(changes(None)))
def test_walks_behind_any_change_find_the_edges_of_the_version(graph, stored, monkeypatch, what, own_run):  # noqa: F811
    monkeypatch.setattr(layering, "_OWN_RUN", own_run)
    persist(graph)
    persist(graph, targets="b")
    cache = TopologyCache()
    check_version(graph, cache)
    changes(graph)[what]()
    check_version(graph, cache)
    check_version(graph.another_process(), TopologyCache())
    if graph.rows["e"] and "compacted" not in what and "replaced" not in what:
        check_walks(graph, cache, "out", targets="b")
    graph.change("a", {"late": 7})
    graph.change("e", {"last": ("late", "late"), "but one": ("late", "cy")})
    check_version(graph, cache)


@pytest.mark.parametrize("few_ids", [0, 4], ids=["in one pass", "one by one"])
def test_ends_are_found_by_keys_whatever_is_deleted(graph, stored, monkeypatch, few_ids):  # noqa: F811
    monkeypatch.setattr(added_edges, "_FEW_IDS", few_ids)
    persist(graph)
    cache = TopologyCache()
    cache.image(graph.table("a")).column("id")
    graph.change("a", deletes=["bo"])
    graph.change("a", {"bo": 9})
    cache.image(graph.table("a")).column("id")
    graph.change("e", {"new": ("bo", "cy"), "newer": ("nobody", "bo")})
    check_version(graph, cache)
    graph.change("a", {"nobody": 1})
    cache.image(graph.table("a")).column("id")
    check_version(graph, cache)


def test_a_version_keeps_what_the_one_before_it_has_found(graph, stored):  # noqa: F811
    persist(graph)
    cache = TopologyCache()
    tables = lambda: (graph.table("e"), graph.table("a"), graph.table("a"))  # noqa: E731 - three words
    graph.change("e", {"one": ("ann", "cy")})
    before = cache.layers(*tables(), "out", go_on)
    graph.change("e", {"two": ("cy", "ann")})
    after = cache.layers(*tables(), "out", go_on)
    assert after.sources is before.sources
    kept = before.segments.items()
    assert [after.segments[key] for key, _ in kept] == [segment for _, segment in kept]
    graph.change("a", deletes=["cy"])
    last = cache.layers(*tables(), "out", go_on)
    assert last.sources is not after.sources
    check_version(graph, cache)


@pytest.mark.parametrize("count", [10, pytest.param(1000, marks=pytest.mark.more)])
def test_the_last_of_many_reads_behind_as_many_writes_pays_for_the_last_write(graph, stored, monkeypatch, count):  # noqa: F811
    # More than a write would fold.
    graph.change("e", {f"z{number}": ("ann", "bo") for number in range(9_000)})
    persist(graph)
    reader, cache = graph.another_process(), TopologyCache()
    looked, sorted_rows, matched = [], [], []
    resolve, sort, match = layering.LayeredEdges._resolve, overlay.sorted_run, caching.EdgeBase.match
    monkeypatch.setattr(
        layering.LayeredEdges,
        "_resolve",
        lambda self, rows, ids: looked.append(rows.num_rows) or resolve(self, rows, ids),
    )
    counted = lambda *arguments: sorted_rows.append(len(arguments[0])) or sort(*arguments)  # noqa: E731 - as above
    monkeypatch.setattr(layering, "sorted_run", counted)
    monkeypatch.setattr(added_edges, "sorted_run", counted)
    monkeypatch.setattr(
        caching.EdgeBase, "match", lambda self, edges: matched.append(len(edges.fragments)) or match(self, edges)
    )
    reader.pins = dict(graph.pins)
    for number in range(count):
        known = {files for fragment in reader.table("e").fragments for files in fragment.files}
        graph.change("e", {f"late{number}": ("cy", "dee")})
        reader.pins, reader.rows = dict(graph.pins), graph.rows
        written = sum(item.row_count for item in reader.table("e").fragments if not known.issuperset(item.files))
        for figures in (looked, sorted_rows, matched):
            figures.clear()
        walks = Walks(reader, cache, "out")
        rows, _ = neighbours_of(walks.links, walks.codes(["ann", "cy"]))
        assert rows.tolist() == [0, 1, 1]
        # A write folds small fragments together now and then; what it wrote is all that is looked at.
        assert sum(looked) == written
        assert sum(sorted_rows) <= written + 16 * 64
        assert max(matched) <= 32
    assert len(incident_edges(walks.links, walks.codes(["cy"]))[0]) == count + 1


@settings(
    derandomize=True,
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.lists(STEPS, min_size=2, max_size=8), st.sampled_from([1, 64]))
@pytest.mark.more
def test_walks_behind_any_sequence_of_changes_find_the_edges_of_the_version(steps, own_run):
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(caching, "LEAST_EDGES", 0)
        patch.setattr(layering, "_OWN_RUN", own_run)
        graph, lasting = Graph(Path(folder) / "graph"), TopologyCache()
        graph.change("a", {"n0": 1, "n1": 2, "n2": 3})
        graph.change("e", {"e0": ("n0", "n1"), "e1": ("n0", "n1"), "e2": ("n2", "n2"), "e3": ("n1", "n5")})
        persist(graph)
        versions = []
        for step in steps:
            apply(graph, step)
            versions.append((dict(graph.pins), {name: dict(rows) for name, rows in graph.rows.items()}))
            check_version(graph, lasting)
        for pins, rows in (versions[0], versions[len(versions) // 2]):
            graph.pins, graph.rows = pins, rows
            check_version(graph, lasting)


def test_a_base_without_nodes_leaves_those_that_came_since():
    no_links = Links(offsets=np.zeros(1, dtype=np.int64), targets=NONE)
    links = overlay.OverlaidAdjacency(
        base=BaseLinks(links=no_links, edges=NONE, repeats=NONE, loops=NONE),
        hidden=NONE,
        left=NONE,
        added=[overlay.sorted_run(np.array([0, 1]), np.array([0, 0]), np.array([0, 1]))],
        node_count=2,
        target_count=2,
        edge_image=None,
        edge_codes=lambda numbers: numbers,
    )
    assert links.has_loop.tolist() == [True, False]
    assert neighbour_counts(links, np.array([0, 1, 1])).tolist() == [1, 1, 1]
