"""Which rows of a table are still what they were at an earlier version, and what it costs to know."""

from __future__ import annotations

import pyarrow as pa
import pytest

from omnigraph.runtime import counting
from omnigraph.store.staging import stage_change, stage_compaction, stage_create
from omnigraph.store.tables.moves import edges_added, have_ends, rows_moved

EDGES = pa.schema([pa.field(name, pa.string(), nullable=False) for name in ("id", "src", "dst")])


def edges(*triples):
    columns = zip(*triples, strict=True)
    return pa.table(dict(zip(EDGES.names, map(list, columns), strict=True)), schema=EDGES)


@pytest.fixture
def moved(bench):
    """Ask whether rows have moved between two versions."""
    return lambda before, after, *ids: rows_moved(bench.open(before), bench.open(after), ids)


def test_rows_that_were_not_touched_have_not_moved(bench, moved):
    before = bench.create("a", "b", "c")
    after = bench.change(before, upserts=["b", "new"], deletes=["c"], n=7)
    assert not moved(before, after, "a")
    assert not moved(before, after, "a", "nobody")
    assert not moved(before, after)
    assert not moved(before, before, "b", "c")
    for name in ("b", "c", "new"):
        assert moved(before, after, "a", name)
        # What one has, the other has not, whichever is older.
        assert moved(after, before, name)


def test_a_row_that_came_back_with_the_same_values_is_another_one(bench, moved):
    before = bench.create("a", "b")
    after = bench.change(bench.change(before, deletes=["a"]), upserts=["a"])
    assert moved(before, after, "a")


def test_rows_that_lie_elsewhere_now_are_compared(bench, moved):
    before = bench.create("a", "b", "c")
    for name in ("d", "e"):
        before = bench.change(before, upserts=[name])
    changed = bench.change(before, upserts=["b"], n=7)
    after = bench.commit(stage_compaction(bench.open(changed), **bench.origin))
    assert {item.files for item in bench.open(after).fragments}.isdisjoint(
        item.files for item in bench.open(before).fragments
    )
    assert not moved(before, after, "a", "c", "d", "e", "nobody")
    assert moved(before, after, "b")
    # A row that was written again as it was is the same row.
    same = bench.commit(stage_compaction(bench.open(bench.change(after, upserts=["d"])), **bench.origin))
    assert not moved(before, same, "d")


def test_zeros_of_different_signs_are_different_values(bench, moved):
    before = bench.create("a")
    plain = bench.commit(stage_change(bench.open(before), upserts=bench.rows("a", vec=[0.0, 1.0]), **bench.origin))
    after = plain
    for vec, is_other in (([-0.0, 1.0], True), ([0.0, 1.0], False)):
        after = bench.commit(stage_change(bench.open(after), upserts=bench.rows("a", vec=vec), **bench.origin))
        assert moved(plain, after, "a") is is_other


def test_rows_of_many_fragments_are_told_apart(bench, moved):
    before = bench.create(*(f"r{number}" for number in range(50)))
    for number in range(20):
        before = bench.change(before, upserts=[f"r{number}", f"n{number}"], n=number)
    after = before
    for number in range(0, 20, 2):
        after = bench.change(after, upserts=[f"r{number}"], n=99)
    assert [moved(before, after, f"r{number}") for number in range(20)] == [True, False] * 10
    assert not moved(
        before, after, *(f"r{number}" for number in range(1, 20, 2)), *(f"n{number}" for number in range(20))
    )


def test_another_table_at_the_place_of_a_row_has_moved_it(bench, moved):
    assert moved(bench.create("a"), bench.create("a", location="nodes/2"), "a")


def test_asking_about_rows_of_common_fragments_reads_new_ones_alone(on_s3):
    before = on_s3.create("a", "b")
    after = on_s3.change(before, upserts=["new"])
    cold = on_s3.another_process()
    old, new = cold.open(before), cold.open(after)
    assert not rows_moved(old, new, ["a"])
    with counting() as counters:
        assert not rows_moved(old, new, ["a", "b"])
        assert not rows_moved(old, new, ["nobody"])
    assert counters.cost().total_calls == 0


def test_an_edge_that_came_is_noticed_by_its_ends(bench):
    staged = stage_create(bench.datasets, "edges/1", EDGES, edges(("e1", "a", "b"), ("e2", "b", "c")), **bench.origin)
    before = bench.commit(staged)
    after = bench.commit(stage_change(bench.open(before), upserts=edges(("e3", "x", "y")), **bench.origin))
    both = bench.open(before), bench.open(after)
    assert edges_added(*both, [("x", None)], [])
    assert edges_added(*both, [("a", None), (None, "y")], [])
    assert edges_added(*both, [("x", "y")], ["e1"])
    assert not edges_added(*both, [("x", None)], ["e3"])
    assert not edges_added(*both, [("y", None), (None, "x"), ("x", "c"), ("a", "b")], [])
    assert not edges_added(*both, [], [])
    merged = bench.commit(stage_compaction(bench.open(after), **bench.origin))
    # Those that lie elsewhere now are known, and looked at as rows.
    assert not edges_added(bench.open(after), bench.open(merged), [("a", None)], ["e1"])
    assert edges_added(*both, [("x", None)], ["e1"])


def test_edges_have_ends_that_are_asked_for():
    rows = edges(("e1", "a", "b"), ("e2", "c", "d"), ("e3", "a", "d"))
    assert have_ends(rows, [("a", None)]).to_pylist() == [True, False, True]
    assert have_ends(rows, [(None, "d")]).to_pylist() == [False, True, True]
    assert have_ends(rows, [("a", "b")]).to_pylist() == [True, False, False]
    assert have_ends(rows, []).to_pylist() == [False] * 3
