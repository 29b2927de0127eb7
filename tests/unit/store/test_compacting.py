"""Fragments are merged when that is worth the rewriting, and then left alone."""

from __future__ import annotations

from omnigraph.runtime.environment import SeededRandomness
from omnigraph.store.staging.compaction import CompactionPolicy, FragmentSize, worthwhile_runs

POLICY = CompactionPolicy()


def sizes(*rows):
    return [FragmentSize(rows=count) for count in rows]


def test_small_fragments_of_like_size_become_one():
    assert worthwhile_runs(sizes(1, 1, 2, 1), POLICY) == [(0, 4)]


def test_a_large_fragment_is_not_rewritten_for_a_few_rows_beside_it():
    assert worthwhile_runs(sizes(100_000, 3, 4), POLICY) == [(1, 3)]
    assert worthwhile_runs(sizes(3, 100_000), POLICY) == []


def test_a_fragment_whose_rows_are_mostly_deleted_is_rewritten_alone():
    worn = FragmentSize(rows=1000, deleted=101)
    assert worthwhile_runs([worn], POLICY) == [(0, 1)]
    assert worthwhile_runs([FragmentSize(rows=1000, deleted=100)], POLICY) == []


def test_work_beyond_the_bound_is_left_out_and_the_rest_is_done():
    policy = CompactionPolicy(max_rows=50)
    assert worthwhile_runs(sizes(40, 45, 5, 5), policy) == [(2, 4)]


def test_rows_are_rewritten_a_few_times_however_long_rows_trickle_in():
    chance = SeededRandomness(7)
    fragments, written, rewritten = [], 0, 0
    for _ in range(2000):
        fragments.append(1 + chance.bits(4))
        written += fragments[-1]
        if len(fragments) % 8:
            continue
        while runs := worthwhile_runs(sizes(*fragments), POLICY):
            start, stop = runs[0]
            merged = sum(fragments[start:stop])
            rewritten += merged
            fragments[start:stop] = [merged]
    assert rewritten < 8 * written
    assert len(fragments) < 16
