"""Walks over a version give its edges, whatever of them is sorted in files, and whether those can be trusted."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.engine.query.topology.stored import Graph
from tests.unit.engine.query.topology.test_extension import STEPS, apply, changes, check_all

from omnigraph.engine.query.topology import TopologyCache
from omnigraph.engine.query.topology import cache as caching
from omnigraph.engine.query.topology.edge_base import build_adjacency
from omnigraph.runtime import counting

SIDES = ("out", "in")
DIRECTIONS = (*SIDES, "both")


def go_on(_):
    """Let work go on."""


def persist(graph, targets="a"):
    tables = graph.table("e"), graph.table("a"), graph.table(targets)
    return build_adjacency(*tables, go_on)


def files(graph):
    return sorted((graph.folder / "__projections").rglob("*.arrays"))


def stepped(graph, cache, direction, names, *, targets="a"):
    """What one step from some nodes finds, in ids; None when no version is sorted."""
    tables = graph.table("e"), graph.table("a"), graph.table(targets)
    layers = cache.layers(*tables, direction, go_on)
    if layers is None:
        return None
    near, far = (graph.table("a"), tables[2]) if direction != "in" else (tables[2], graph.table("a"))
    found = layers.step(direction, row_ids(near, names), go_on)
    by_row = {}
    for name, table in (("near", near), ("far", far), ("edge", tables[0])):
        rows = table.read(["id", "_rowid"])
        by_row[name] = dict(zip(rows["_rowid"].to_pylist(), rows["id"].to_pylist(), strict=True))
    triples = zip(found.sources.tolist(), found.targets.tolist(), found.edges.tolist(), strict=True)
    return sorted((by_row["near"][a], by_row["far"][b], by_row["edge"][c]) for a, b, c in triples)


def row_ids(table, names):
    rows = table.read(["id", "_rowid"])
    found = dict(zip(rows["id"].to_pylist(), rows["_rowid"].to_pylist(), strict=True))
    return np.array([found[name] for name in names if name in found], dtype=np.uint64)


def check_steps(graph, cache, *, is_sorted=True):
    for direction in DIRECTIONS:
        expected = graph.expected(direction)
        for names in (sorted(graph.rows["a"]), sorted(graph.rows["a"])[::2], sorted(graph.rows["a"])[-1:], []):
            found = stepped(graph, cache, direction, names)
            assert is_sorted == (found is not None)
            assert found is None or found == [triple for triple in expected if triple[0] in names]
    expected = graph.expected("out", targets="b")
    found = stepped(graph, cache, "out", sorted(graph.rows["a"]), targets="b")
    assert found is None or found == expected


@pytest.fixture
def stored(monkeypatch):
    """However few edges there are, files are looked for."""
    monkeypatch.setattr(caching, "LEAST_EDGES", 0)


@pytest.mark.parametrize("what", sorted(changes(None)))
def test_steps_behind_any_change_find_the_edges_of_the_version(graph, stored, what):
    persist(graph)
    changes(graph)[what]()
    gone = {"edges are replaced", "edges are compacted"}
    check_steps(graph.another_process(), TopologyCache(), is_sorted=what not in gone and bool(graph.rows["e"]))
    check_all(graph.another_process(), TopologyCache())


def test_another_process_sorts_nothing_that_is_sorted_already(graph, stored):
    first = TopologyCache()
    check_all(graph, first)
    assert first.stats.builds > 0
    reader, cache = graph.another_process(), TopologyCache()
    check_all(reader, cache)
    assert cache.stats.builds == 0
    assert cache.stats.maps > 0
    assert cache.stats.mapped_bytes > 0


def test_a_walk_of_what_is_sorted_reads_no_column(graph, stored):
    graph.change("e", {f"z{number}": (f"{number * 2_654_435_761 % 2**32:x}", "bo") for number in range(5_000)})
    graph.change("e", {f"y{number}": ("ann", "bo") for number in range(50)})
    persist(graph)
    reader, cache = graph.another_process(), TopologyCache()
    tables = reader.table("e"), reader.table("a"), reader.table("a")
    with counting() as counters:
        found = cache.adjacency(*tables, "out", go_on)
    assert found.edge_count == len(graph.expected("out"))
    calls = {name: count for name, count in counters.cost().calls.items() if name != "control.get"}
    assert calls == {"projection.map": 1}
    assert found.edge_image.table is tables[0]


def test_a_step_behind_one_write_looks_at_the_rows_of_that_write(graph, stored, monkeypatch):
    graph.change("e", {f"z{number}": ("ann", "bo") for number in range(3_000)})
    persist(graph)
    reader, cache = graph.another_process(), TopologyCache()
    looked = []
    resolve = caching.LayeredEdges._resolve
    monkeypatch.setattr(
        caching.LayeredEdges,
        "_resolve",
        lambda self, rows, ids: looked.append(rows.num_rows) or resolve(self, rows, ids),
    )
    for number in range(4):
        graph.change("e", {f"late{number}": ("cy", "dee")}, deletes=[f"z{number}"])
        reader.pins, reader.rows = dict(graph.pins), graph.rows
        assert stepped(reader, cache, "out", ["cy"]) == [t for t in graph.expected("out") if t[0] == "cy"]
        assert stepped(reader, cache, "out", ["ann"]) == [t for t in graph.expected("out") if t[0] == "ann"]
    assert looked == [1, 1, 1, 1]


def test_damaged_files_are_dropped_and_answers_stay_right(graph, stored):
    persist(graph)
    before = files(graph)
    for path in before:
        data = path.read_bytes()
        path.write_bytes(data[:-70] + bytes(byte ^ 255 for byte in data[-70:]))
    cache = TopologyCache()
    check_all(graph.another_process(), cache)
    assert cache.stats.builds > 0
    assert all(path.read_bytes()[-70:] != b"" for path in files(graph))
    again = TopologyCache()
    check_all(graph.another_process(), again)
    assert again.stats.builds == 0


def test_two_branches_share_what_is_sorted_and_keep_apart_what_is_not(graph, stored):
    main, rows = dict(graph.pins), {name: dict(found) for name, found in graph.rows.items()}
    graph.change("a", {"on main": 1})
    graph.change("e", {"m": ("on main", "ann")})
    persist(graph)
    graph.pins, graph.rows = dict(main), rows
    graph.fork("a", "side")
    graph.fork("e", "side")
    graph.change("a", {"aside": 1})
    graph.change("e", {"s": ("ann", "aside"), "t": ("aside", "aside")})
    cache = TopologyCache()
    check_steps(graph.another_process(), cache)
    check_all(graph.another_process(), cache)
    assert cache.stats.builds <= 1


@pytest.mark.parametrize("is_branch", [False, True], ids=["never any node", "nodes of another branch"])
def test_nodes_that_all_came_later_are_found(tmp_path, stored, is_branch):
    graph = Graph(tmp_path / "graph")
    graph.change("e", {"k1": ("ann", "bo"), "k2": ("bo", "bo")})
    before, rows = dict(graph.pins), {name: dict(found) for name, found in graph.rows.items()}
    if is_branch:
        graph.change("a", {"ann": 1, "cy": 2})
    persist(graph)
    if is_branch:
        graph.pins, graph.rows = before, rows
        graph.fork("a", "side")
        graph.fork("e", "side")
    graph.change("a", {"bo": 1})
    graph.change("a", {"ann": 2})
    check_steps(graph.another_process(), TopologyCache())
    check_all(graph.another_process(), TopologyCache())


@pytest.mark.parametrize("direction", SIDES)
def test_a_node_that_is_written_again_keeps_its_number_when_its_fragment_has_row_ids_in_no_order(
    tmp_path, stored, direction
):
    graph, cache = Graph(tmp_path / "graph"), TopologyCache()
    names = [f"n{number:02}" for number in range(40)]
    graph.change("a", dict.fromkeys(names, 0))
    # Both are written again with the row ids that they had, which do not follow one another.
    graph.change("a", {"n03": 1, "n11": 1})
    graph.change(
        "e", {"to the first": ("n20", "n03"), "to the second": ("n21", "n11"), "from the first": ("n03", "n22")}
    )
    graph.adjacency(cache, direction)
    graph.change("a", {"n03": 2})
    # So few that what is found is not listed for all nodes.
    walked = ["n20"] if direction == "out" else ["n22"]
    expected = [triple for triple in graph.expected(direction) if triple[0] in walked]
    assert stepped(graph, cache, direction, walked) == expected


FILES = st.sampled_from(["keep", "persist", "drop", "damage", "truncate"])


@settings(
    derandomize=True,
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.lists(st.tuples(STEPS, FILES), min_size=2, max_size=8))
@pytest.mark.more
def test_any_sequence_of_changes_and_of_files_gives_the_edges_of_the_version(steps):
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(caching, "LEAST_EDGES", 0)
        graph, lasting = Graph(Path(folder) / "graph"), TopologyCache()
        graph.change("a", {"n0": 1, "n1": 2, "n2": 3})
        graph.change("e", {"e0": ("n0", "n1"), "e1": ("n0", "n1"), "e2": ("n2", "n2"), "e3": ("n1", "n5")})
        versions = []
        for step, what in steps:
            apply(graph, step)
            meddle(graph, what)
            versions.append((dict(graph.pins), {name: dict(rows) for name, rows in graph.rows.items()}))
            if step[0] == "look":
                check_version(graph, lasting)
        for pins, rows in [versions[0], versions[len(versions) // 2], versions[-1]]:
            reader = graph.another_process()
            reader.pins, reader.rows = pins, rows
            check_version(reader, TopologyCache())
            check_version(reader, lasting)


def check_version(graph, cache):
    for direction in DIRECTIONS:
        expected = graph.expected(direction)
        found = stepped(graph, cache, direction, sorted(graph.rows["a"]))
        assert found is None or found == expected
        assert graph.walked(cache, direction) == expected


def meddle(graph, what):
    if what == "persist":
        persist(graph)
    for path in files(graph):
        if what == "drop":
            path.unlink()
        elif what == "damage":
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 255
            path.write_bytes(data)
        elif what == "truncate":
            path.write_bytes(path.read_bytes()[:-100])
