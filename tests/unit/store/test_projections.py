"""Projections are found by table and kind, fit the rows of any version, and are never trusted blindly."""

import gc
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.runtime import counting
from omnigraph.store.projections.cache import ProjectionCache
from omnigraph.store.projections.coverage import cover, match
from omnigraph.store.projections.files import PROJECTIONS_PREFIX, ProjectionStore
from omnigraph.store.projections.format import pack, unpack_header
from omnigraph.store.staging import stage_change, stage_columns

ARRAYS = {"numbers": np.arange(1000, dtype=np.int32), "grid": np.ones((3, 4), dtype=np.float32), "none": np.zeros(0)}


@pytest.fixture
def ids():
    return [f"r{number}" for number in range(10)]


def save(store, table, arrays=ARRAYS, of=""):
    return store.save("keys", of, [cover(table, ["id"])], arrays, {"rows": table.row_count})


def files(storage):
    return sorted(storage.path(PROJECTIONS_PREFIX).rglob("*.arrays*"))


def test_another_process_finds_what_was_saved(bench, ids):
    table = bench.open(bench.create(*ids))
    assert bench.datasets.projections.find("nodes/1", "keys") == ()
    save(bench.datasets.projections, table)
    other = bench.another_process().datasets.projections
    [found] = other.find("nodes/1", "keys")
    assert other.find("nodes/1", "text") == other.find("nodes/1", "keys", "7") == other.find("nodes/2", "keys") == ()
    assert dict(found.facts) == {"rows": 10}
    assert found.tables == (cover(table, ["id"]),)
    arrays = found.load()
    assert {name: array.tolist() for name, array in arrays.items()} == {
        name: array.tolist() for name, array in ARRAYS.items()
    }
    assert not arrays["numbers"].flags.writeable
    assert found.private_bytes + found.mapped_bytes == found.header.body_bytes > 4000


def test_saving_the_same_twice_leaves_one_file(bench, ids):
    table = bench.open(bench.create(*ids))
    first = save(bench.datasets.projections, table)
    assert save(bench.another_process().datasets.projections, table).key == first.key
    assert [item.key for item in bench.datasets.projections.list_all()] == [first.key]
    other = save(bench.datasets.projections, table, {"numbers": np.zeros(3)})
    assert other.key != first.key
    assert len(bench.datasets.projections.find("nodes/1", "keys")) == 2


def mapped(storage):
    """The files of projections that this process holds open."""
    gc.collect()
    found = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.add(descriptor.readlink())
    return sorted(path.name for path in found if path.is_relative_to(storage.path(PROJECTIONS_PREFIX)))


def test_a_process_keeps_few_of_the_projections_that_newer_ones_have_followed_mapped(local, ids):
    table, store = local.open(local.create(*ids)), local.datasets.projections
    other = save(store, table, of="7")
    assert other.load() is not None
    made = [save(store, table, {"numbers": np.full(1000, number)}) for number in range(40)]
    for number, one in enumerate(made):
        assert one.load()["numbers"][0] == number
    assert len(mapped(local.storage)) <= 9
    # Those of another property are not in the way, and what was let go is mapped again.
    assert [other.is_loaded, made[-1].is_loaded, made[0].is_loaded] == [True, True, False]
    assert made[0].load()["numbers"].tolist() == [0] * 1000
    assert made[0].is_loaded


def test_a_projection_that_is_used_stays_mapped(local, ids):
    table, store = local.open(local.create(*ids)), local.datasets.projections
    used = save(store, table, {"numbers": np.full(1000, -1)})
    with counting() as counters:
        for number in range(40):
            save(store, table, {"numbers": np.full(1000, number)}).load()
            assert used.load() is not None
    assert counters.cost().calls["projection.map"] == 41


def test_a_damaged_file_is_dropped_wherever_it_is_damaged(local, ids):
    table = local.open(local.create(*ids))
    save(local.datasets.projections, table)
    [path] = files(local.storage)
    whole = path.read_bytes()
    for at in [*range(64), *range(64, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        store = local.another_process().datasets.projections
        assert [one.load() for one in store.find("nodes/1", "keys")] in ([], [None]), at
    for length in (0, 10, 63, 64, 200, len(whole) - 1):
        path.write_bytes(whole[:length])
        store = local.another_process().datasets.projections
        assert [one.load() for one in store.find("nodes/1", "keys")] in ([], [None]), length
    path.write_bytes(whole + b"\0")
    [found] = local.another_process().datasets.projections.find("nodes/1", "keys")
    assert found.load() is None
    assert files(local.storage) == []


def test_a_file_with_a_damaged_header_is_replaced_by_the_next_that_saves_it(local, ids):
    table = local.open(local.create(*ids))
    save(local.datasets.projections, table)
    [path] = files(local.storage)
    whole = path.read_bytes()
    path.write_bytes(whole[:20] + bytes([whole[20] ^ 1]) + whole[21:])
    other = local.another_process().datasets.projections
    assert other.find("nodes/1", "keys") == ()
    assert save(other, table) is not None
    assert path.read_bytes() == whole


def test_a_file_of_another_format_or_kind_is_left_alone(local, ids):
    table = local.open(local.create(*ids))
    save(local.datasets.projections, table)
    [path] = files(local.storage)
    whole = bytearray(path.read_bytes())
    whole[8] = 2
    path.write_bytes(whole)
    (path.parent / "notes.txt").write_text("mine")
    store = local.another_process().datasets.projections
    assert store.find("nodes/1", "keys") == ()
    assert path.exists()
    assert [item.is_known for item in store.list_all()] == [True, False]


def test_what_cannot_be_written_is_not_kept_and_no_error(local, ids):
    table = local.open(local.create(*ids))
    local.storage.path(PROJECTIONS_PREFIX).write_text("in the way")
    assert save(local.datasets.projections, table) is None
    assert local.datasets.projections.find("nodes/1", "keys") == ()


def test_a_failed_write_leaves_no_file(local, ids):
    table = local.open(local.create(*ids))

    def full_disk():
        raise OSError(28, "No space left on device")

    local.runtime.failpoints.enable("store.projection.before_write", full_disk)
    assert save(local.datasets.projections, table) is None
    assert files(local.storage) == []


def test_only_numbers_are_stored():
    with pytest.raises(TypeError, match="'texts' has type"):
        pack("keys", "", [], {"texts": np.array(["a"])}, {})
    assert unpack_header(b"") is unpack_header(b"OMNIPROJ") is None


def test_a_version_matches_what_its_files_have_in_common(bench, ids):
    pin = bench.create(*ids)
    base = cover(bench.open(pin), ["id"])
    assert match(base, bench.open(pin), ["id"]).is_exact
    appended = bench.change(pin, upserts=["s1", "s2"])
    found = match(base, bench.open(appended), ["id"])
    assert (found.uncovered, found.gone_places.tolist(), found.is_exact) == ((1,), [], False)
    changed = bench.change(appended, upserts=["r3"], deletes=["r7"], n=1)
    found = match(base, bench.open(changed), ["id"])
    assert (found.uncovered, found.gone_places.tolist()) == ((1, 2), [3, 7])
    assert [(piece.start, piece.count, piece.index) for piece in found.pieces] == [(0, 10, 0)]
    later = cover(bench.open(changed), ["id"])
    assert later.row_count == 10 + 2 + 1
    assert match(later, bench.open(changed), ["id"]).is_exact
    # Rows come back to life when an older version is read: all of their fragment has to be looked at again.
    back = match(later, bench.open(pin), ["id"])
    assert (back.pieces, back.lost, back.uncovered) == ((), ((0, 10), (10, 12), (12, 13)), (0,))
    assert back.gone_places.tolist() == list(range(13))


def test_a_projection_of_a_bucket_is_fetched_once_and_bounded(on_s3, ids, tmp_path):
    table = on_s3.open(on_s3.create(*ids))
    saved = [save(on_s3.datasets.projections, table, ARRAYS, of=str(number)) for number in range(3)]
    size = max(item.size for item in on_s3.datasets.projections.list_all())
    folder = tmp_path / "cache"

    def open_store():
        return ProjectionStore(on_s3.control, cache=ProjectionCache(folder, 2 * size))

    with counting() as counters:
        [first] = open_store().find("nodes/1", "keys", "0")
        assert first.load() is not None
        fetched = counters.cost().calls
        [again] = open_store().find("nodes/1", "keys", "0")
        assert again.load() is not None
    assert (fetched["projection.get"], counters.cost().calls["projection.get"]) == (1, 1)
    assert again.mapped_bytes == again.header.body_bytes
    for number in range(3):
        [found] = open_store().find("nodes/1", "keys", str(number))
        assert found.load() is not None
    assert 0 < sum(path.stat().st_size for path in folder.iterdir()) <= 2 * size
    assert len(saved) == 3


def test_where_nothing_can_be_cached_a_projection_is_held_in_memory(on_s3, ids, tmp_path):
    table = on_s3.open(on_s3.create(*ids))
    save(on_s3.datasets.projections, table)
    (tmp_path / "file").write_text("in the way")
    store = ProjectionStore(on_s3.control, cache=ProjectionCache(tmp_path / "file" / "cache"))
    [found] = store.find("nodes/1", "keys")
    assert found.load()["numbers"].tolist() == ARRAYS["numbers"].tolist()
    assert (found.mapped_bytes, found.private_bytes) == (0, found.header.body_bytes)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_fragments_without_the_column_are_told_apart(local):
    pin = local.create("r1", "r2")
    pin = local.change(pin, upserts=["s1", "s2"])
    table = local.open(pin)
    schema = table.schema.append(pa.field("later", pa.string()))
    origins = {name: name for name in table.schema.names}
    pin = local.commit(stage_columns(table, schema, origins, **local.origin))
    covered = cover(local.open(pin), ["later"])
    assert match(covered, local.open(pin), ["later"]).is_exact
    pin = local.commit(stage_change(local.open(pin), deletes=["s1"], **local.origin))
    found = match(covered, local.open(pin), ["later"])
    assert (found.uncovered, found.lost, found.gone_places.tolist()) == ((), (), [2])


def test_some_fragments_can_be_covered_alone_and_pieces_say_all_deleted_rows(local, ids):
    pin = local.create(*ids)
    pin = local.change(pin, upserts=["s1", "s2"])
    pin = local.change(pin, deletes=["r2", "s2"])
    covered = cover(local.open(pin), ["id"], [1])
    assert (covered.row_count, len(covered.fragments)) == (2, 1)
    found = match(covered, local.open(pin), ["id"])
    assert (found.uncovered, [piece.index for piece in found.pieces]) == ((0,), [1])
    assert [(piece.gone.tolist(), piece.deleted.tolist()) for piece in found.pieces] == [([], [1])]
    whole = cover(local.open(pin), ["id"])
    later = match(whole, local.open(local.change(pin, deletes=["r5"])), ["id"])
    assert [(piece.gone.tolist(), piece.deleted.tolist()) for piece in later.pieces] == [([5], [2, 5]), ([], [1])]
