"""Keys lead from an id to its row without the column of ids; what they say is looked at before it is believed."""

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.store.conftest import SCHEMA

from omnigraph.errors import LimitExceeded, QueryMemoryError
from omnigraph.runtime import counting
from omnigraph.store.projections import hashes, keys
from omnigraph.store.projections.files import PROJECTIONS_PREFIX
from omnigraph.store.projections.hashes import hash_text, hash_texts
from omnigraph.store.projections.keys import build_keys, key_index, needs_keys
from omnigraph.store.projections.packing import PackedHashes
from omnigraph.store.projections.segments import KeyMemory, segment_of
from omnigraph.store.staging import IndexBuild, stage_change, stage_compaction, stage_create, stage_indexes
from omnigraph.store.tables import lookup as lookups
from omnigraph.store.tables.pinned import PinnedTable
from omnigraph.store.tables.row_ids import find_row_ids

BTREE = IndexBuild(column="id", kind="btree", name="id_idx")
# Some texts of every length around a word of eight bytes.
TEXTS = ["", "a", "person-1", "person-12", "ä€𝄞", "x" * 15, "x" * 16, "x" * 17, "y" * 1000, "\0", "\0\0"]


def big(bench, count, location="nodes/1"):
    """A table of ids p0, p1, … that no block of the tail holds whole."""
    rows = pa.table(
        {
            "id": [f"p{number}" for number in range(count)],
            "n": np.arange(count),
            "text": ["w"] * count,
            "vec": pa.nulls(count, SCHEMA.field("vec").type),
        },
        schema=SCHEMA,
    )
    return bench.commit(stage_create(bench.datasets, location, SCHEMA, rows, **bench.origin))


def plain(table, wanted, columns=("n",)):
    """What a scan finds."""
    rows = table.read(["id", *columns], with_row_meta=True)
    chosen = [row for row in rows.to_pylist() if row["id"] in set(wanted)]
    names = ["id", "_rowid", "_rowaddr", *columns]
    return sorted(tuple(row[name] for name in names) for row in chosen)


def found(table, wanted, columns=("n",)):
    rows = table.lookup(wanted, list(columns))
    assert rows.column_names == ["id", "_rowid", "_rowaddr", *columns]
    return sorted(tuple(row.values()) for row in rows.to_pylist())


def files(storage):
    return sorted(storage.path(PROJECTIONS_PREFIX).rglob("*.arrays"))


@pytest.fixture
def no_scans(monkeypatch):
    """Fail when ids are looked for in any way but by their keys."""

    def refuse(*_, **__):
        raise AssertionError("ids were looked for in a column or an index")

    for name in ("_scan_for", "_scan_fragments", "_through_index", "read_tail"):
        monkeypatch.setattr(lookups, name, refuse)


def test_a_hash_never_changes():
    assert hashes.REVISION == 1
    assert {text[:20]: f"{hash_text(text):016x}" for text in TEXTS} == FROZEN


def test_a_column_is_hashed_like_its_texts():
    many = [f"{text}{number}" for number in range(40) for text in TEXTS]
    column = pa.array(many)
    expected = [hash_text(text) for text in many]
    assert hash_texts(column).tolist() == expected
    assert hash_texts(column.slice(33, 300)).tolist() == expected[33:333]
    assert hash_texts(pa.chunked_array([column.slice(0, 7), column.slice(7)])).tolist() == expected
    assert hash_texts(column.cast(pa.large_string())).tolist() == expected
    assert hash_texts(pa.array([], pa.string())).tolist() == []
    assert hash_texts(pa.array(TEXTS)).tolist() == [hash_text(text) for text in TEXTS]


def test_ids_that_are_alike_have_hashes_that_are_not():
    column = pa.array([f"person-{number}" for number in range(100_000)])
    made = hash_texts(column)
    assert len(np.unique(made)) == 100_000
    spread = np.bincount((made >> np.uint64(56)).astype(np.int64), minlength=256)
    assert (spread.min(), spread.max()) > (300, 0)
    assert spread.max() < 500


def test_a_piece_of_memory_is_enough_for_any_column(monkeypatch):
    column = pa.array([f"person-{number}" * (1 + number % 3) for number in range(1000)])
    expected = hash_texts(column).tolist()
    monkeypatch.setattr(hashes, "_PIECE_BYTES", 50)
    monkeypatch.setattr(hashes, "_PIECE_TEXTS", 7)
    assert hash_texts(column).tolist() == expected


def test_a_lookup_by_keys_finds_what_a_scan_finds_and_scans_nothing(bench, no_scans, monkeypatch):
    pin = big(bench, 300)
    build_keys(bench.open(pin))
    other = bench.another_process()
    table = other.open(pin)
    key_index(table, fetch=True)
    assert found(table, ["p7", "p299", "nobody", "p7"]) == plain(table, ["p7", "p299"])
    assert found(table, ["p8"], ()) == plain(table, ["p8"], ())
    assert found(table, ["nobody"]) == []
    monkeypatch.setattr(lookups, "_IDS_PER_PREDICATE", 10)
    wanted = [f"p{number}" for number in range(0, 300, 5)]
    assert found(table, wanted) == plain(table, wanted)


def test_a_lookup_reads_the_row_and_does_not_grow_with_the_table(local, no_scans):
    costs = []
    for count in (10_000, 80_000):
        pin = big(local, count, f"nodes/{count}")
        build_keys(local.open(pin))
        table = local.another_process().open(pin)
        assert found(table, ["p5"]) == [("p5", 5, 5, 5)]
        with counting() as counters:
            assert found(table, ["p77"]) == [("p77", 77, 77, 77)]
        cost = counters.cost()
        costs.append((dict(cost.calls), cost.bytes_read // 10_000))
        with counting() as counters:
            assert found(table, ["nobody"]) == []
        assert counters.cost().total_calls == 0
    # One read for each of the two columns, of the few bytes around the row.
    assert costs == [({"lance.read": 2}, costs[0][1])] * 2


def test_keys_that_cover_a_table_make_its_index_needless(local, no_scans):
    pin = local.create(*(f"k{number}" for number in range(50)))
    pin = local.commit(stage_indexes(local.open(pin), [BTREE], **local.origin).commit)
    build_keys(local.open(pin))
    table = local.another_process().open(pin)
    assert found(table, ["k3", "zz"]) == plain(table, ["k3"])
    assert table._indexes is None


def test_an_index_answers_only_for_what_the_keys_do_not_know(local):
    pin = local.create("a", "b")
    build_keys(local.open(pin))
    pin = local.change(pin, upserts=["c", "d"])
    pin = local.commit(stage_indexes(local.open(pin), [BTREE], **local.origin).commit)
    pin = local.change(pin, upserts=["a", "e"], n=5)
    table = local.another_process().open(pin)
    every = ["a", "b", "c", "d", "e", "f"]
    assert found(table, every) == plain(table, every)


def test_keys_fit_every_version_that_lists_their_files(bench):
    first = big(bench, 40)
    second = bench.change(first, upserts=["p3", "new"], deletes=["p7"], n=1)
    build_keys(bench.open(second))
    third = bench.change(second, upserts=["p3", "p7"], deletes=["p9", "new"], n=2)
    fork = bench.tables.fork(second, "draft")
    fork = bench.change(fork, upserts=["p11"], deletes=["p3"], n=3)
    packed = bench.commit(stage_compaction(bench.open(third), **bench.origin))
    every = [f"p{number}" for number in range(41)] + ["new"]
    for view in (bench, bench.another_process()):
        for pin in (first, second, third, fork, packed):
            table = view.open(pin)
            key_index(table, fetch=True)
            assert found(table, every) == plain(table, every)
            assert found(table, every, ()) == plain(table, every, ())


def test_what_is_learned_of_a_fragment_that_lost_rows_is_not_all_that_it_had(bench):
    first = bench.create("a", "b", "c")
    second = bench.change(first, deletes=["b"])
    third = bench.change(second, deletes=["a"])
    cold = bench.another_process()
    for pin in (second, third, first, second):
        assert found(cold.open(pin), ["a", "b", "c"]) == plain(cold.open(pin), ["a", "b", "c"])


def test_only_the_files_that_a_version_does_not_list_have_to_be_covered_again(local):
    pin = big(local, 40)
    assert needs_keys(local.open(pin))
    build_keys(local.open(pin))
    changed = local.change(pin, deletes=["p7"])
    assert not needs_keys(local.open(changed))
    grown = local.change(changed, upserts=["new"])
    assert needs_keys(local.open(grown))
    assert key_index(local.another_process().open(grown)).missing == (1,)


def test_a_write_costs_the_last_write_in_memory(local, monkeypatch):
    pin = local.create("seed")
    hashed = []
    whole = keys.hash_texts
    monkeypatch.setattr(keys, "hash_texts", lambda texts: hashed.append(len(texts)) or whole(texts))
    for number in range(40):
        pin = local.commit(local.stage(pin, upserts=[f"k{number}"], expect_new=True, tail_limit=100))
        assert found(local.open(pin), [f"k{number}"], ()) == plain(local.open(pin), [f"k{number}"], ())
    assert sum(hashed) <= 41
    assert len(local.datasets.keys.segments("nodes/1")) == 1
    assert len(local.open(pin).fragments) == 41


def test_rows_with_one_hash_cost_time_and_nothing_else(local, monkeypatch):
    monkeypatch.setattr(keys, "hash_texts", lambda texts: np.zeros(len(texts), dtype=np.uint64))
    monkeypatch.setattr(lookups, "hash_texts", lambda texts: np.zeros(len(texts), dtype=np.uint64))
    monkeypatch.setattr(lookups, "hash_text", lambda _: 0)
    for count in (20, 200):
        pin = big(local, count, f"nodes/{count}")
        build_keys(local.open(pin))
        pin = local.change(pin, upserts=["p3", "late"], deletes=["p4"], n=9)
        table = local.another_process().open(pin)
        for wanted in (["p1"], ["p3", "late"], ["p4"], ["nobody"], [f"p{number}" for number in range(count)]):
            assert found(table, wanted) == plain(table, wanted)
        assert (table.key_candidates("p1") is None) == (count == 200)
        assert (table.all_key_candidates(pa.array(["p1", "p2"])) is None) == (count == 200)


def test_two_ids_with_one_hash_are_told_apart(local):
    pin = local.create("a", "b")
    table = local.open(pin)
    build_keys(table)
    [path] = files(local.storage)
    stored = local.datasets.projections.find("nodes/1", "keys")[0]
    alike = PackedHashes.of(np.full(2, hash_text("a"), dtype=np.uint64))
    arrays = {**alike.pack(), "places": np.array([0, 1], dtype=np.uint32)}
    path.unlink()
    local.datasets.projections.save("keys", "", stored.tables, arrays, stored.facts)
    fresh = local.another_process().open(pin)
    assert found(fresh, ["a"]) == plain(fresh, ["a"])
    assert sorted(fresh.key_candidates("a").tolist()) == [0, 1]


@pytest.mark.parametrize("count", [0, 1, 31, 64, 5000])
def test_packed_hashes_are_found_like_plain_ones(count):
    random = np.random.default_rng(count)
    some = random.integers(0, 1 << 64, count, dtype=np.uint64)
    ends = np.array([0, 0, 2**64 - 1, 2**64 - 1], dtype=np.uint64)
    known = np.sort(np.concatenate([some, some[: count // 3], ends if count else some]))
    packed = PackedHashes.of(known)
    asked = np.concatenate([known, random.integers(0, 1 << 64, 200, dtype=np.uint64), ends])
    low, counts = packed.runs_of(asked)
    plain_low = np.searchsorted(known, asked, side="left")
    plain_counts = np.searchsorted(known, asked, side="right") - plain_low
    is_known = plain_counts > 0
    assert (low[is_known] == plain_low[is_known]).all()
    assert (counts == plain_counts).all()
    for one, start, number in zip(asked.tolist(), low.tolist(), counts.tolist(), strict=True):
        begin, end = packed.run_of(one)
        assert end - begin == number
        assert begin == start or not number
    assert len(packed) == len(known)
    assert packed.nbytes <= 8 * len(known) + 64


def test_keys_of_an_earlier_form_are_as_if_there_were_none(local):
    pin = big(local, 60)
    build_keys(local.open(pin))
    [path] = files(local.storage)
    stored = local.datasets.projections.find("nodes/1", "keys")[0]
    path.unlink()
    plain_ones = {"hashes": np.zeros(60, dtype=np.uint64), "places": np.arange(60, dtype=np.uint32)}
    local.datasets.projections.save("keys", "", stored.tables, plain_ones, {"hash": hashes.REVISION, "rows": 60})
    table = local.another_process().open(pin)
    assert needs_keys(table)
    assert found(table, ["p7"]) == plain(table, ["p7"])


@pytest.mark.parametrize("damage", ["torn", "flipped", "gone", "foreign"])
def test_damaged_keys_are_as_if_there_were_none(local, damage):
    pin = big(local, 60)
    build_keys(local.open(pin))
    [path] = files(local.storage)
    data = path.read_bytes()
    match damage:
        case "torn":
            path.write_bytes(data[: len(data) // 2])
        case "flipped":
            path.write_bytes(data[:-100] + bytes([data[-100] ^ 1]) + data[-99:])
        case "gone":
            local.another_process().datasets.projections.find("nodes/1", "keys")
            path.unlink()
        case "foreign":
            stored = local.datasets.projections.find("nodes/1", "keys")[0]
            zeros = PackedHashes.of(np.zeros(60, dtype=np.uint64))
            wrong = {**zeros.pack(), "places": np.arange(60, dtype=np.uint32)}
            path.unlink()
            local.datasets.projections.save(
                "keys", "", stored.tables, wrong, {**stored.facts, "hash": hashes.REVISION + 1}
            )
    table = local.another_process().open(pin)
    every = [f"p{number}" for number in range(61)]
    assert found(table, every) == plain(table, every)


def test_a_write_asks_an_object_store_for_no_projection(on_s3):
    pin = on_s3.create(*(f"k{number}" for number in range(30)))
    build_keys(on_s3.open(pin))
    cold = on_s3.another_process()
    with counting() as counters:
        cold.commit(cold.stage(pin, upserts=["k3", "new"], n=1))
    assert not {call for call in counters.cost().calls if "projection" in call}
    assert cold.datasets.projections.loaded("nodes/1", "keys") == ()
    warm = on_s3.another_process()
    table = warm.open(pin)
    key_index(table, fetch=True)
    assert len(warm.datasets.projections.loaded("nodes/1", "keys")) == 1
    with counting() as counters:
        assert warm.open(pin).lookup(["unknown"], ()).num_rows == 0
    assert counters.cost().total_calls == 0


def test_a_build_can_be_stopped(local):
    table = local.open(big(local, 60))

    def check(size_bytes):
        if size_bytes > 1000:
            details = LimitExceeded(resource="memory in bytes", limit=1000, actual=size_bytes)
            raise QueryMemoryError("too much", details=details)

    with pytest.raises(QueryMemoryError):
        build_keys(table, check=check)
    assert files(local.storage) == []
    asked = []
    assert build_keys(table, check=asked.append) is not None
    assert asked[0] == 60 * keys.BYTES_PER_ROW


def test_two_builders_write_one_file(local):
    pin = big(local, 60)
    one = build_keys(local.open(pin))
    whole = local.open(pin).read(["id"])["id"]
    other = build_keys(local.another_process().open(pin), ids=whole)
    assert one.key == other.key
    assert len(files(local.storage)) == 1


def test_keys_come_from_ids_in_memory_and_are_kept_when_they_are_many(local, monkeypatch):
    monkeypatch.setattr(lookups, "_KEPT_ROWS", 100)
    pin = big(local, 150)
    table = local.open(pin)
    assert table.key_candidates("p3") is None
    column = table.read(["id"])["id"]
    assert table.key_candidates("p3", lambda: column).tolist() == [3]
    assert len(files(local.storage)) == 1
    # Few new rows are kept in memory alone, also those of a fragment that has lost some.
    pin = local.change(pin, upserts=["late", "later"], deletes=["p5"])
    pin = local.change(pin, deletes=["late"])
    other = local.another_process()
    table = other.open(pin)
    column = table.read(["id"])["id"]
    expected = {row[0]: row[1] for row in plain(table, ["later", "p7"])}
    assert {name: table.key_candidates(name, lambda: column).tolist() for name in expected} == {
        name: [row_id] for name, row_id in expected.items()
    }
    assert len(files(local.storage)) == 1


def test_where_keys_cannot_be_stored_they_are_held_in_memory(local, monkeypatch):
    monkeypatch.setattr(lookups, "_KEPT_ROWS", 100)
    pin = big(local, 150)
    local.storage.path(PROJECTIONS_PREFIX).write_text("in the way")
    table = local.open(pin)
    column = table.read(["id"])["id"]
    assert table.key_candidates("p3", lambda: column).tolist() == [3]
    assert local.datasets.keys.size_bytes >= 150 * 12
    assert table.key_candidates("p4").tolist() == [4]


def test_memory_of_keys_is_bounded():
    memory = KeyMemory(capacity_bytes=4000)
    [fragment] = keys_of_one()
    for number in range(20):
        memory.add(f"nodes/{number}", segment_of([fragment], np.arange(50, dtype=np.uint64), np.arange(50)), set())
    assert 0 < memory.size_bytes <= 4000
    assert memory.segments("nodes/0") == ()
    assert len(memory.segments("nodes/19")) == 1


def test_segments_of_files_that_are_gone_are_dropped_when_there_are_too_many(monkeypatch):
    monkeypatch.setattr("omnigraph.store.projections.segments._MOST_FRAGMENTS", 10)
    memory = KeyMemory()
    for number in range(30):
        [fragment] = keys_of_one(f"file{number}", rows=2)
        live = {(f"file{each}",) for each in range(max(0, number - 3), number + 1)}
        memory.add("t", segment_of([fragment], np.array([7, number], dtype=np.uint64), np.arange(2)), live)
    [segment] = memory.segments("t")
    assert len(segment.fragments) <= 10
    names = [fragment.files[0] for fragment in segment.fragments]
    assert names[-4:] == ["file26", "file27", "file28", "file29"]
    # The second row of each fragment still leads to it.
    for hash_, place in zip(segment.hashes.tolist(), segment.places.tolist(), strict=True):
        assert place % 2 == (0 if hash_ == 7 else 1)
        assert hash_ == 7 or names[place // 2] == f"file{hash_}"


def test_segments_do_not_collect_the_fragments_of_a_long_run_of_small_commits():
    """A version that is put together looks at every fragment of a segment: commits would cost more and more."""
    memory = KeyMemory()
    for number in range(1200):
        [fragment] = keys_of_one(f"file{number}", rows=1)
        live = {(f"file{each}",) for each in range(max(0, number - 20), number + 1)}
        memory.add("t", segment_of([fragment], np.array([number], dtype=np.uint64), np.arange(1)), live)
        assert sum(len(segment.fragments) for segment in memory.segments("t")) <= 256


def test_a_table_of_many_fragments_keeps_all_of_them():
    memory, live = KeyMemory(), set()
    for number in range(600):
        [fragment] = keys_of_one(f"file{number}", rows=1)
        live.add((f"file{number}",))
        memory.add("t", segment_of([fragment], np.array([number], dtype=np.uint64), np.arange(1)), live)
    assert sum(len(segment.fragments) for segment in memory.segments("t")) == 600


def keys_of_one(name="file", rows=50):
    return (keys.CoveredFragment(files=(name,), row_count=rows),)


@pytest.mark.parametrize("updated", [[], ["a3"], ["a9", "a1"], [f"a{number}" for number in range(0, 10, 2)]])
def test_row_ids_of_a_fragment_are_those_of_a_scan(local, updated):
    pin = local.create(*(f"a{number}" for number in range(10)))
    if updated:
        pin = local.change(pin, upserts=updated, n=1)
        pin = local.commit(stage_compaction(local.open(pin), **local.origin))
    table = local.open(pin)
    for fragment in table.fragments:
        read = table.read(["_rowid", "_rowaddr"], fragment_ids=[fragment.metadata.id])
        offsets = (read["_rowaddr"].to_numpy() & 0xFFFFFFFF).astype(np.uint32)
        assert find_row_ids(fragment.metadata, offsets).tolist() == read["_rowid"].to_pylist()
        assert find_row_ids(fragment.metadata, offsets[:0]).tolist() == []


def test_blobs_are_found_by_keys_as_bytes(local):
    schema = pa.schema(
        [
            pa.field("id", pa.string(), nullable=False),
            pa.field("body", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
        ]
    )
    rows = pa.table({"id": ["a", "b", "c"], "body": [b"one", None, b"three" * 100]}, schema=schema)
    pin = local.commit(stage_create(local.datasets, "nodes/1", schema, rows, **local.origin))
    build_keys(local.open(pin))
    table = local.another_process().open(pin)
    got = table.lookup(["c", "b", "zz"], ["body"])
    assert dict(zip(got["id"].to_pylist(), got["body"].to_pylist(), strict=True)) == {"b": None, "c": b"three" * 100}


def test_a_fragment_that_does_not_list_its_row_ids_is_scanned(local, monkeypatch):
    pin = big(local, 60)
    build_keys(local.open(pin))
    table = local.another_process().open(pin)
    monkeypatch.setattr(lookups, "find_row_ids", lambda *_: None)
    monkeypatch.setattr(lookups, "find_row_id", lambda *_: None)
    assert found(table, ["p3", "nobody"]) == plain(table, ["p3"])
    assert table.key_candidates("p3") is None


def test_many_ids_are_scanned_for_once_when_most_rows_have_them(local, monkeypatch):
    monkeypatch.setattr(lookups, "_IDS_PER_PREDICATE", 10)
    pin = big(local, 60)
    build_keys(local.open(pin))
    pin = local.commit(
        stage_change(local.open(pin), upserts=local.rows("p1", "new", n=4), deletes=["p2"], **local.origin)
    )
    table = local.another_process().open(pin)
    scans, hashed = [], []
    scan, hash_all = PinnedTable.scan, lookups.hash_texts
    most, few = [f"p{number}" for number in range(50)], [f"p{number}" for number in range(0, 60, 5)]
    rows_of_most, rows_of_few = plain(table, most), plain(table, [*few, "new"])

    def watched(*arguments, fragment_ids=None, **named):
        scans.append(fragment_ids)
        return scan(*arguments, fragment_ids=fragment_ids, **named)

    monkeypatch.setattr(lookups, "hash_texts", lambda texts: hashed.append(len(texts)) or hash_all(texts))
    monkeypatch.setattr(PinnedTable, "scan", watched)
    assert found(table, most) == rows_of_most
    assert scans == [None]
    assert found(table, [*few, "new"]) == rows_of_few
    assert scans[1:] == [[1]]
    assert hashed == [13]


FROZEN = {
    "": "0000000000000000",
    "a": "3d7e4d3ac99119ca",
    "person-1": "05e968dcf2c02a78",
    "person-12": "f3da88fe7f419aa2",
    "ä€𝄞": "69d3ef5d76c9a3b5",
    "xxxxxxxxxxxxxxx": "e0850649bd306579",
    "xxxxxxxxxxxxxxxx": "92d453bc291a7314",
    "xxxxxxxxxxxxxxxxx": "7b6ec03609bc3dc7",
    "yyyyyyyyyyyyyyyyyyyy": "8136e524a90528b6",
    "\x00": "e5c58d331ca1768e",
    "\x00\x00": "cb8b1a673942ed1d",
}
