"""What is computed of a column: once per segment, and counted as the column is."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from tests.unit.engine.query.topology.stored import Graph

from omnigraph.engine.query.topology import TopologyCache


def lengths(calls):
    def make(array):
        calls.append(len(array))
        return pc.cast(pc.binary_length(array), pa.int64())

    return make


def test_segments_that_stay_are_not_computed_again(tmp_path):
    graph, cache, calls = Graph(tmp_path), TopologyCache(), []
    graph.change("a", upserts={"x": 1, "yy": 2, "zzz": 3})
    image = cache.image(graph.table("a"))
    before = cache.stats.size_bytes
    assert sorted(image.derived("id", "length", lengths(calls)).to_pylist()) == [1, 2, 3]
    image.derived("id", "length", lengths(calls))
    computed = sum(calls)
    assert computed == 3
    assert cache.stats.size_bytes >= before + 3 * 8
    graph.change("a", upserts={"wwww": 4})
    later = cache.image(graph.table("a"))
    assert sorted(later.derived("id", "length", lengths(calls)).to_pylist()) == [1, 2, 3, 4]
    assert sum(calls) == computed + 1


def test_what_is_computed_lies_beside_its_column(tmp_path):
    graph, cache = Graph(tmp_path), TopologyCache()
    graph.change("a", upserts={"x": 1, "yy": 2})
    graph.change("a", upserts={"zzz": 3}, deletes=["x"])
    image = cache.image(graph.table("a"))
    column, derived = image.column("id"), image.derived("id", "length", lengths([]))
    assert [len(chunk) for chunk in derived.chunks] == [len(chunk) for chunk in column.chunks]
    assert derived.to_pylist() == [len(value) for value in column.to_pylist()]
