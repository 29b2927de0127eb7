"""A long run of small commits: the versions of a table stay small, and so does what a process keeps of them."""

import gc
from pathlib import Path

import pytest
from lance import LanceDataset

from omnigraph.runtime import counting
from omnigraph.store import handles
from omnigraph.store.staging import IndexBuild, change, stage_compaction, stage_indexes, stage_steps
from omnigraph.store.staging.compaction import CompactionPolicy, number_compacted, plan_compaction
from omnigraph.store.tables import store as tables
from omnigraph.store.tables.pinned import Search
from omnigraph.store.tables.portable import TableTicket, run_compaction_task
from omnigraph.store.tables.row_versions import flattened, run_versions

pytestmark = pytest.mark.more

COMMITS = 260
TEXT = IndexBuild(column="text", kind="fulltext", name="text_idx")


def version_bytes(bench, pin):
    """The size of a version's own manifest."""
    name = f"{(1 << 64) - 1 - pin.version}.manifest"
    return (Path(bench.storage.root) / pin.location / "_versions" / name).stat().st_size


def one_by_one(bench, pin, numbers, **options):
    """Yield the pin of every commit of one row."""
    for number in numbers:
        pin = bench.change(pin, upserts=[f"k{number}"], n=number, assume_new=True, **options)
        yield pin


def ages(bench, pin):
    rows = bench.open(pin).read(["id"], with_row_meta=True).to_pylist()
    return {row["id"]: (row["_row_created_at_version"], row["_row_last_updated_at_version"]) for row in rows}


def open_versions(bench):
    """How many versions of this store's tables the process holds open."""
    gc.collect()
    return sum(type(thing) is LanceDataset and bench.storage.root in thing.uri for thing in gc.get_objects())


def test_a_process_keeps_fewer_versions_open_as_they_grow(local):
    """What it keeps is bounded by bytes: versions that list many fragments are larger, so that fewer of them stay."""
    pins = one_by_one(local, local.create("first"), range(160), tail_limit=1000)
    counts = []
    for number, pin in enumerate(pins, 1):
        local.open(pin)
        if number in (100, 160):
            counts.append(open_versions(local))
    assert counts[1] < counts[0]


def test_the_versions_of_a_table_do_not_grow_with_commits_of_one_row(local):
    pins = list(one_by_one(local, local.create("first"), range(COMMITS), tail_limit=8))
    sizes = [version_bytes(local, pin) for pin in pins]
    # Between two folds they go up and down; over the folds they stay where they are.
    assert max(sizes[-40:]) <= max(sizes[40:80]) + 256
    assert local.content(pins[-1]) == {"first": 0, **{f"k{number}": number for number in range(COMMITS)}}
    assert local.content(pins[99]) == {"first": 0, **{f"k{number}": number for number in range(100)}}


def test_a_row_is_never_shown_younger_or_less_changed_than_it_is(local):
    pins = list(one_by_one(local, local.create("first"), range(80), tail_limit=8))
    for key, (created, changed) in ages(local, pins[-1]).items():
        born = 1 if key == "first" else pins[int(key[1:])].version
        assert created <= born <= changed <= pins[-1].version
    # What came since the last fold is as old as it is.
    assert ages(local, pins[-1])["k79"] == (pins[-1].version, pins[-1].version)


def test_compaction_leaves_few_runs_and_every_row_with_its_id(local):
    *_, pin = one_by_one(local, local.create("first"), range(60), tail_limit=100)
    compacted = local.commit(stage_compaction(local.open(pin), **local.origin))
    assert local.row_ids(compacted) == local.row_ids(pin)
    # The version of the compaction itself still says what it replaced.
    assert version_bytes(local, local.change(compacted, upserts=["more"])) < version_bytes(local, pin) / 4
    (fragment,) = local.open(compacted).fragments
    assert flattened(fragment.metadata) is None
    assert set(ages(local, compacted).values()) == {(1, pin.version)}


def test_compacted_rows_stay_in_the_order_of_their_row_ids_though_others_came_meanwhile(local):
    *_, base = one_by_one(local, local.create("first"), range(12), tail_limit=100)
    table = local.open(base)
    results = compact_elsewhere(table)
    *_, moved = one_by_one(local, base, range(12, 20), tail_limit=100)
    (staged,) = stage_steps(local.open(moved), table, [number_compacted(table, results)], **local.origin)
    after = local.commit(staged)
    scanned = local.open(after).read(["id"], with_row_meta=True)["_rowid"].to_pylist()
    assert scanned == sorted(scanned)
    assert len(local.open(after).fragments) == 9


def test_a_shortened_fragment_does_not_stop_a_compaction_that_began_before(local, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(change, "flattened", lambda _: None)
        *_, base = one_by_one(local, local.create("first"), range(60), tail_limit=39)
    assert any(flattened(fragment.metadata) for fragment in local.open(base).fragments)
    step = number_compacted(local.open(base), compact_elsewhere(local.open(base)))
    shortened = local.change(base, upserts=["late"], tail_limit=100)
    assert not any(flattened(fragment.metadata) for fragment in local.open(shortened).fragments)
    (staged,) = stage_steps(local.open(shortened), local.open(base), [step], **local.origin)
    after = local.commit(staged)
    assert local.row_ids(after) == local.row_ids(shortened)


def test_an_index_of_words_knows_which_rows_it_has_seen_whatever_their_fragment_says(local):
    *_, pin = one_by_one(local, local.create("first", n=900), range(40), tail_limit=8)
    pin = local.commit(stage_indexes(local.open(pin), [TEXT], **local.origin).commit)
    *_, pin = one_by_one(local, pin, range(40, 80), tail_limit=8)
    pin = local.change(pin, upserts=["k3"], n=901)
    pin = local.commit(stage_indexes(local.open(pin), [TEXT], **local.origin).commit)
    for word, keys in (("word901", ["k3"]), ("word3", []), ("word70", ["k70"]), ("word900", ["first"])):
        found = local.open(pin).read(["id"], search=Search(full_text=word))
        assert found["id"].to_pylist() == keys


def test_a_process_keeps_few_of_the_versions_that_newer_ones_have_followed(local, monkeypatch):
    monkeypatch.setattr(handles, "_PAST_BYTES", 200 << 10)
    monkeypatch.setattr(tables, "_TABLES_BYTES", 300 << 10)
    monkeypatch.setattr(local.datasets.tails._blocks, "_max_entries", 20)
    pin = local.create("first")
    for after in one_by_one(local, pin, range(60), tail_limit=8):
        assert local.content(after)["first"] == 0
        assert local.datasets.handles.past_bytes <= 200 << 10
        assert local.tables.size_bytes <= 300 << 10
    assert local.datasets.handles.past_bytes > 0
    assert len(local.datasets.tails) <= 20
    # What was let go is opened again, and nothing that is gone counts.
    assert local.content(pin) == {"first": 0}
    local.tables.forget(pin.location)
    assert (local.datasets.handles.past_bytes, local.tables.size_bytes) == (0, 0)


def test_handles_are_bounded_by_number_too_and_the_newest_of_a_line_goes_last(local):
    local.datasets.handles.caches = handles.CacheSizes(versions=4)
    pins = [local.create("a", location=f"nodes/{number}") for number in range(1, 7)]
    for pin in pins:
        local.open(pin)
    with counting() as counters:
        assert local.datasets.handles.latest_version("nodes/6", None) == 1
    assert counters.cost().total_calls <= 1
    assert local.content(pins[0]) == {"a": 0}


@pytest.mark.parametrize("versions", [[7], [3, 1, 2], list(range(300, 600))])
def test_runs_are_read_as_lance_writes_them(versions):
    raw = bytearray()
    for version in versions:
        number = bytes([16, version]) if version < 128 else bytes([16, version & 0x7F | 0x80, version >> 7])
        raw += bytes([10, 6 + len(number), 10, 4, 10, 2, 16, 1, *number])
    assert list(run_versions(bytes(raw))) == versions


def compact_elsewhere(table):
    ticket = TableTicket(storage=table.datasets.storage, pin=table.pin)
    return [run_compaction_task(ticket, task) for task in plan_compaction(table, CompactionPolicy(fair_share=0.01))]
