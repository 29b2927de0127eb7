"""Images: what they hold, and what an image of a later version still has to read."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.engine.query.topology.stored import Graph
from tests.unit.engine.query.topology.test_expansion import SEEDED

from omnigraph.engine.query.topology import TopologyCache, incident_edges
from omnigraph.engine.query.topology import image as image_module
from omnigraph.engine.query.topology import segments as segments_module
from omnigraph.errors import VersionMissingError
from omnigraph.runtime import counting


def content(image):
    """The rows of an image of nodes."""
    ids, values = (image.column(name).to_pylist() for name in ("id", "n"))
    assert len(ids) == image.row_count == len(image.row_ids)
    return dict(zip(ids, values, strict=True))


def calls(counters):
    return counters.cost().total_calls


@pytest.fixture
def cache():
    return TopologyCache()


def test_an_image_holds_the_rows_of_its_version(graph, cache):
    older = cache.image(graph.table("a"))
    before = dict(graph.rows["a"])
    graph.change("a", {"bo": 7, "flo": 8}, deletes=["cy"])
    later = cache.image(graph.table("a"))
    assert content(later) == graph.rows["a"] != before
    assert content(older) == before
    assert (older.pin, later.pin) == (older.table.pin, graph.pins["a"])


def test_row_ids_lead_back_to_codes_and_unknown_ones_to_none(graph, cache):
    graph.change("a", {"bo": 7, "flo": 8}, deletes=["cy", "ann"])
    image = cache.image(graph.table("a"))
    stored = graph.table("a").read(["id", "_rowid"])
    assert image.row_ids.tolist() == stored["_rowid"].to_pylist()
    assert image.codes_of(image.row_ids[::-1]).tolist() == list(range(image.row_count))[::-1]
    unknown = np.array([0, 10**9, 2**64 - 1], dtype=np.uint64)
    assert image.codes_of(unknown).tolist() == [-1, -1, -1]
    assert image.codes_of(unknown[:0]).tolist() == []


@pytest.mark.parametrize("slots_per_row", [0, 8, 10**9], ids=["searched", "either", "in a table"])
def test_codes_are_found_whatever_the_row_ids(monkeypatch, slots_per_row):
    monkeypatch.setattr(segments_module, "_SLOTS_PER_ROW", slots_per_row)
    some = st.integers(0, 400)

    @SEEDED
    @given(st.lists(some, unique=True, max_size=30), st.lists(some, max_size=10))
    def holds(known, asked):
        places = segments_module.RowIdPlaces.of(np.array(known, dtype=np.uint64))
        expected = [known.index(row_id) if row_id in known else -1 for row_id in asked]
        assert places.find(np.array(asked, dtype=np.uint64)).tolist() == expected

    holds()


def test_a_column_is_read_once(graph):
    reader, cache = graph.another_process(), TopologyCache()
    table = reader.table("a")
    with counting() as first:
        image = cache.image(table)
        assert not image.has_column("n")
        found = image.column("n").to_pylist()
    with counting() as second:
        assert image.column("n").to_pylist() == found
    assert image.has_column("n")
    assert calls(first) > 0
    assert calls(second) == 0


def test_a_later_version_reads_only_what_was_written_since(graph):
    graph.change("a", {f"p{number}": number for number in range(5_000)})
    reader, cache = graph.another_process(), TopologyCache()
    table = reader.table("a")
    with counting() as first:
        cache.image(table).column("id")
    graph.change("a", {"late": 1})
    reader.pins = dict(graph.pins)
    table = reader.table("a")
    with counting() as second:
        cache.image(table).column("id")
    assert calls(second) > 0
    assert second.cost().bytes_read * 10 < first.cost().bytes_read
    # The writer has what it wrote in memory.
    mine = TopologyCache()
    table = graph.table("a")
    with counting() as third:
        mine.image(table).column("id")
    assert calls(third) == 0


def test_a_version_with_rows_deleted_reads_no_column_again(graph):
    graph.change("a", {f"p{number}": number for number in range(50)})
    reader, cache = graph.another_process(), TopologyCache()
    cache.image(reader.table("a")).column("id")
    graph.change("a", deletes=["p3", "p40"])
    reader.pins = dict(graph.pins)
    table = reader.table("a")
    with counting() as counters:
        image = cache.image(table)
        opened = calls(counters)
        assert sorted(image.column("id").to_pylist()) == sorted(graph.rows["a"])
    assert calls(counters) == opened


def test_two_images_share_what_their_versions_share(graph, cache):
    older = cache.image(graph.table("a"))
    older.column("id")
    held = cache.stats.size_bytes
    graph.index("a")
    later = cache.image(graph.table("a"))
    assert later.pin != older.pin
    assert later.has_column("id")
    assert later.segments == older.segments
    grown = cache.stats.size_bytes - held
    assert grown < held


def test_a_branch_shares_the_segments_of_its_parent(graph, cache):
    older = cache.image(graph.table("a"))
    graph.fork("a", "side")
    graph.change("a", {"gus": 9})
    later = cache.image(graph.table("a"))
    assert later.pin.branch == "side"
    assert later.segments[: len(older.segments)] == older.segments
    assert content(later) == graph.rows["a"]


def test_an_empty_table_has_columns_of_its_types(tmp_path, cache):
    graph = Graph(tmp_path / "graph")
    image = cache.image(graph.table("a"))
    assert (image.row_count, image.size_bytes) == (0, 0)
    assert image.column("n").type == pa.int64()


def test_an_image_says_what_is_loaded(graph, cache):
    image = cache.image(graph.table("a"))
    before = image.size_bytes
    image.column("n")
    assert image.size_bytes - before == 8 * image.row_count


def test_a_reclaimed_version_is_no_longer_read(graph):
    table = graph.another_process().table("a")
    image = TopologyCache().image(table)
    graph.replace("a", {"solo": 1})
    graph.tables.reclaim_older(graph.pins["a"], ())
    with pytest.raises(VersionMissingError):
        image.column("n")


@pytest.mark.parametrize("ranked_share", [0, 10**9], ids=["all ranked", "only those asked for"])
def test_the_edges_of_a_row_come_in_the_order_of_their_ids(graph, cache, monkeypatch, ranked_share):
    monkeypatch.setattr(image_module, "_RANKED_SHARE", ranked_share)
    graph.change("e", {"k0": ("ann", "ann"), "ä": ("ann", "dee"), "k10": ("ann", "bo"), "j": ("bo", "bo")})
    ids, edges = graph.ids(cache, "a"), graph.ids(cache, "e")
    codes = np.array([ids.index("bo"), ids.index("ann"), ids.index("eli"), ids.index("bo")])
    rows, found, walked = incident_edges(graph.adjacency(cache, "out"), codes)
    named = [(row, ids[node], edges[edge]) for row, node, edge in zip(rows, found, walked, strict=True)]
    of_bo = [("bo", "j"), ("ann", "k3"), ("cy", "k5")]
    of_ann = [("ann", "k0"), ("bo", "k1"), ("bo", "k10"), ("bo", "k2"), ("dee", "ä")]
    assert named == [
        *((0, *entry) for entry in of_bo),
        *((1, *entry) for entry in of_ann),
        *((3, *entry) for entry in of_bo),
    ]
