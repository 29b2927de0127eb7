"""One staged change carries inserts, updates and deletes; row ids stay, the tail stays short, keys stay unique."""

import pyarrow as pa
import pytest

from omnigraph.errors import Effect, InternalError, KeyExistsError
from omnigraph.runtime import counting
from omnigraph.store.staging import IndexBuild, stage_change, stage_indexes, stage_overwrite
from omnigraph.store.tables.pinned import Search

BTREE = IndexBuild(column="id", kind="btree", name="id_idx")


def test_inserts_updates_and_deletes_land_in_one_version(bench):
    pin = bench.create("a", "b", "c", n=1)
    staged = bench.stage(pin, upserts=["b", "d"], deletes=["c"], n=2)
    assert staged.row_count == 3
    assert all(file.startswith("nodes/1/") for file in staged.files)
    assert set(staged.files) <= set(bench.control.list_keys("nodes/1"))
    after = bench.commit(staged)
    assert bench.content(after) == {"a": 1, "b": 2, "d": 2}
    assert bench.content(pin) == {"a": 1, "b": 1, "c": 1}


def test_an_updated_row_keeps_its_row_id_and_its_birth(bench):
    pin = bench.create("a", "b")
    after = bench.change(pin, upserts=["b", "c"], n=2)
    assert bench.row_ids(after)["b"] == bench.row_ids(pin)["b"]
    meta = bench.open(after).read(["id"], with_row_meta=True).to_pylist()
    versions = {row["id"]: (row["_row_created_at_version"], row["_row_last_updated_at_version"]) for row in meta}
    assert versions == {"a": (1, 1), "b": (1, 2), "c": (2, 2)}


def test_a_deleted_and_inserted_row_is_a_new_row(bench):
    pin = bench.create("a", "b")
    gone = bench.change(pin, deletes=["a"])
    back = bench.change(gone, upserts=["a"])
    assert bench.row_ids(back)["a"] not in bench.row_ids(pin).values()


def test_an_id_that_is_upserted_and_deleted_is_upserted(bench):
    pin = bench.change(bench.create("a"), upserts=["a", "b"], deletes=["a", "b", "zz"], n=7)
    assert bench.content(pin) == {"a": 7, "b": 7}


def test_deleting_everything_and_starting_again_works(bench):
    pin = bench.create("a", "b")
    empty = bench.change(pin, deletes=["a", "b"])
    assert bench.content(empty) == {}
    assert bench.open(empty).fragments == ()
    still_empty = bench.change(empty, deletes=["a"])
    assert bench.content(still_empty) == {}
    again = bench.change(still_empty, upserts=["c"], n=3)
    assert bench.content(again) == {"c": 3}


def test_an_overwrite_may_leave_nothing(bench):
    pin = bench.create("a", "b")
    staged = stage_overwrite(bench.open(pin), bench.rows(), **bench.origin)
    assert staged.row_count == 0
    empty = bench.commit(staged)
    assert bench.content(empty) == {}
    assert bench.content(bench.change(empty, upserts=["z"])) == {"z": 0}


def test_an_overwrite_may_change_the_columns(bench):
    pin = bench.create("a", "b")
    schema = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("flag", pa.bool_())])
    rows = pa.table({"id": ["x"], "flag": [True]}, schema=schema)
    after = bench.commit(stage_overwrite(bench.open(pin), rows, schema, **bench.origin))
    assert bench.content(after, "flag") == {"x": True}
    assert bench.open(after).schema.names == ["id", "flag"]


def test_a_strict_insert_names_the_ids_that_exist(bench):
    pin = bench.change(bench.create("a", "b"), upserts=["c"])
    with pytest.raises(KeyExistsError) as caught:
        bench.stage(pin, upserts=["c", "new", "a"], expect_new=True)
    assert set(caught.value.details.ids) == {"a", "c"}
    assert (caught.value.details.count, caught.value.effect) == (2, Effect.NONE)
    assert bench.content(bench.change(pin, upserts=["new"], expect_new=True)).keys() == {"a", "b", "c", "new"}


@pytest.mark.parametrize("ids", [["a", "a"], ["a", None]])
def test_rows_without_distinct_ids_are_refused(local, ids):
    pin = local.create("z")
    values = pa.table({"id": ids, "n": [1, 2], "text": ["", ""], "vec": [None, None]})
    with pytest.raises(InternalError):
        stage_change(local.open(pin), upserts=values, **local.origin)


def test_rows_of_another_shape_are_refused(local):
    pin = local.create("z")
    with pytest.raises(InternalError):
        stage_change(local.open(pin), upserts=pa.table({"id": ["a"]}), **local.origin)


@pytest.mark.parametrize("key", ["it's", '"q"', "ü 🎈", "%_\\", "a\nb", ""])
def test_any_text_can_be_an_id(bench, key):
    pin = bench.create("plain", key)
    indexed = bench.commit(stage_indexes(bench.open(pin), [BTREE], **bench.origin).commit)
    for base in (pin, indexed):
        fresh = bench.another_process()
        found = fresh.open(base).lookup([key, "nope"], ["n"])
        assert found["id"].to_pylist() == [key]
    assert bench.content(bench.change(indexed, upserts=[key], n=4)) == {"plain": 0, key: 4}


def test_the_tail_of_small_fragments_stays_short(bench):
    pin = bench.create("seed")
    expected = {"seed": 0}
    row_ids = {}
    for number in range(1, 12):
        pin = bench.change(pin, upserts=[f"k{number}", "seed"], n=number, tail_limit=4)
        expected |= {f"k{number}": number, "seed": number}
        assert len(bench.open(pin).fragments) <= 4
        assert bench.content(pin) == expected
        current = bench.row_ids(pin)
        assert row_ids.items() <= current.items()
        row_ids = current
    bench.open(pin).handle.validate()


def test_a_fold_drops_what_the_same_change_deletes(bench):
    pin = bench.create("a")
    for key in ("b", "c", "d"):
        pin = bench.change(pin, upserts=[key])
    folded = bench.change(pin, upserts=["e", "c"], deletes=["a", "d"], n=9, tail_limit=2)
    assert bench.content(folded) == {"b": 0, "c": 9, "e": 9}
    assert len(bench.open(folded).fragments) == 1
    assert bench.row_ids(folded)["c"] == bench.row_ids(pin)["c"]


def test_a_cold_process_folds_the_same_way(bench):
    pin = bench.create("a")
    for key in ("b", "c", "d"):
        pin = bench.change(pin, upserts=[key])
    cold = bench.another_process()
    folded = cold.change(pin, upserts=["e"], deletes=["b"], tail_limit=2)
    assert cold.content(folded) == {"a": 0, "c": 0, "d": 0, "e": 0}


def test_covered_fragments_are_not_folded(bench):
    pin = bench.create("a", "b")
    pin = bench.commit(stage_indexes(bench.open(pin), [BTREE], **bench.origin).commit)
    for key in ("c", "d", "e"):
        pin = bench.change(pin, upserts=[key])
    folded = bench.open(bench.change(pin, upserts=["f"], tail_limit=2))
    assert [fragment.row_count for fragment in folded.fragments] == [2, 4]


def test_full_text_follows_updates_of_indexed_rows(bench):
    """Lance extends an index over rewritten rows unless told otherwise, and then answers with their old text."""
    pin = bench.create("a", "b", n=1)
    text = IndexBuild(column="text", kind="fulltext", name="text_idx")
    pin = bench.commit(stage_indexes(bench.open(pin), [BTREE, text], **bench.origin).commit)
    pin = bench.change(pin, upserts=["a"], n=2)

    def search(word):
        found = bench.open(pin).read(["id"], search=Search(full_text=word))
        return found["id"].to_pylist()

    assert search("word1") == ["b"]
    assert search("word2") == ["a"]


def test_look_ups_agree_warm_and_cold_covered_and_not(bench):
    pin = bench.create("a", "b", "c", n=1)
    pin = bench.commit(stage_indexes(bench.open(pin), [BTREE], **bench.origin).commit)
    pin = bench.change(pin, upserts=["d", "a"], deletes=["b"], n=2)
    pin = bench.change(pin, upserts=["e"], deletes=["d"], n=3)
    expected = {"a": 2, "c": 1, "e": 3}
    for store in (bench, bench.another_process()):
        found = store.open(pin).lookup(["a", "b", "c", "d", "e", "e", "zz"], ["n"])
        assert dict(zip(found["id"].to_pylist(), found["n"].to_pylist(), strict=True)) == expected
        assert found.num_rows == 3
        assert dict(zip(found["id"].to_pylist(), found["_rowid"].to_pylist(), strict=True)) == bench.row_ids(pin)
        taken = store.open(pin).take(found["_rowid"].to_pylist(), ["n"])
        assert dict(zip(taken["_rowid"].to_pylist(), taken["n"].to_pylist(), strict=True)) == dict(
            zip(found["_rowid"].to_pylist(), found["n"].to_pylist(), strict=True)
        )


def test_a_warm_writer_checks_its_own_tail_without_a_call(bench):
    pin = bench.create("a")
    for key in ("b", "c", "d"):
        pin = bench.change(pin, upserts=[key])
    with counting() as counters:
        found = bench.tables.open(pin).lookup(["b", "d", "zz"], ["n", "text"])
    assert sorted(found["id"].to_pylist()) == ["b", "d"]
    assert counters.cost().total_calls == 0


def test_many_ids_are_found_in_one_pass(local):
    keys = [f"k{number}" for number in range(15_000)]
    pin = local.create(*keys)
    found = local.open(pin).lookup([*keys, "zz"], ["n"])
    assert sorted(found["id"].to_pylist()) == sorted(keys)


def test_nothing_is_found_in_nothing(bench):
    pin = bench.create()
    assert bench.open(pin).lookup(["a"], ["n"]).column_names == ["id", "_rowid", "_rowaddr", "n"]
    assert bench.open(pin).lookup([], []).num_rows == 0
    assert bench.open(pin).take([], ["n"]).num_rows == 0


def test_a_scan_streams_filters_limits_and_counts(bench):
    pin = bench.change(bench.create("a", "b", n=1), upserts=["c", "d"], n=2)
    table = bench.open(pin)
    with counting() as counters:
        reader = table.scan(["id"], "n = 2")
        assert sorted(row["id"] for batch in reader for row in batch.to_pylist()) == ["c", "d"]
    assert counters.cost().serial_stages <= 2
    assert table.read(["id"], limit=3).num_rows == 3
    assert (table.count_rows(), table.count_rows("n = 1")) == (4, 2)


def test_a_predicate_that_makes_no_sense_is_our_error(local):
    with pytest.raises(InternalError):
        local.open(local.create("a")).read(filter="nope = 1")
