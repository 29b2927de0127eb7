"""Indexes, compaction, columns and undo: content stays what it was, or becomes exactly what it was."""

import pyarrow as pa
import pytest
from lance.query import MatchQuery

from omnigraph.errors import InternalError, TableMovedError
from omnigraph.store.staging import (
    IndexBuild,
    stage_change,
    stage_columns,
    stage_compaction,
    stage_indexes,
    stage_overwrite,
    stage_undo,
)
from omnigraph.store.tables.pinned import Search

BTREE = IndexBuild(column="id", kind="btree", name="id_idx")
TEXT = IndexBuild(column="text", kind="fulltext", name="text_idx")
VECTOR = IndexBuild(column="vec", kind="vector", name="vec_idx")


def index(bench, pin, *builds):
    return bench.commit(stage_indexes(bench.open(pin), builds, **bench.origin).commit)


def search(bench, pin, *, full_text=None, **what):
    if full_text is not None:
        # Naming the column makes the search work with and without an index.
        what["full_text"] = MatchQuery(full_text, "text")
    found = bench.open(pin).read(["id"], search=Search(**what))
    return sorted(found["id"].to_pylist())


def coverage(bench, pin):
    table = bench.open(pin)
    present = {fragment.metadata.id for fragment in table.fragments}
    return {found.name: len(found.fragment_ids & present) for found in table.indexes()}


def test_several_kinds_of_index_land_in_one_commit(bench):
    pin = bench.create("a", n=1)
    pin = bench.change(pin, upserts=["b"], n=2)
    staged = stage_indexes(bench.open(pin), [BTREE, TEXT], **bench.origin)
    assert staged.built == (BTREE, TEXT)
    assert staged.commit.row_count == 2
    after = bench.commit(staged.commit)
    assert after.version == pin.version + 1
    assert coverage(bench, after) == {"id_idx": 2, "text_idx": 2}
    assert search(bench, after, full_text="word2") == ["b"]
    assert bench.content(after) == bench.content(pin)


def test_an_index_is_extended_over_what_it_lacks(bench):
    pin = index(bench, bench.create("a", "b", n=1), BTREE, TEXT)
    pin = bench.change(pin, upserts=["c"], n=2)
    assert coverage(bench, pin) == {"id_idx": 1, "text_idx": 1}
    pin = index(bench, pin, BTREE, TEXT)
    assert coverage(bench, pin) == {"id_idx": 2, "text_idx": 2}
    assert [len(found.segments) for found in bench.open(pin).indexes()] == [2, 2]
    assert search(bench, pin, full_text="word2", fast=True) == ["c"]
    current = stage_indexes(bench.open(pin), [BTREE, TEXT], **bench.origin)
    assert current.commit is None
    assert [skipped.reason for skipped in current.skipped] == ["current", "current"]


@pytest.mark.parametrize("column", ["n", "text"])
def test_an_index_that_is_extended_forgets_old_values_of_rewritten_rows(bench, column):
    """Lance would go on finding a rewritten row by its old words once another segment covers it."""
    build = TEXT if column == "text" else IndexBuild(column="n", kind="btree", name="n_idx")
    pin = index(bench, bench.create("a", "b", n=1), build)
    pin = index(bench, bench.change(pin, upserts=["a"], n=2), build)
    assert coverage(bench, pin) == {build.name: 2}
    if column == "text":
        assert [search(bench, pin, full_text=word) for word in ("word1", "word2")] == [["b"], ["a"]]
    else:
        table = bench.open(pin)
        found = [table.read(["id"], f"n = {n}")["id"].to_pylist() for n in (1, 2)]
        assert found == [["b"], ["a"]]


def test_an_index_of_many_segments_is_built_anew(local):
    pin = index(local, local.create("k0"), BTREE)
    for number in range(1, 9):
        pin = index(local, local.change(pin, upserts=[f"k{number}"], n=number), BTREE)
    (found,) = local.open(pin).indexes()
    assert len(found.segments) == 1
    assert coverage(local, pin) == {"id_idx": 9}
    looked = local.open(pin).lookup([f"k{number}" for number in range(9)], ["n"])
    assert sorted(looked["n"].to_pylist()) == list(range(9))


def test_a_vector_index_waits_for_a_vector(bench):
    pin = bench.create("a")
    staged = stage_indexes(bench.open(pin), [VECTOR], **bench.origin)
    assert staged.commit is None
    assert [(skipped.build, skipped.reason) for skipped in staged.skipped] == [(VECTOR, "no vectors")]
    rows = pa.concat_tables([bench.rows("b", vec=[0.0, 1.0]), bench.rows("c", vec=[5.0, 5.0])])
    pin = index(bench, bench.commit(stage_change(bench.open(pin), upserts=rows, **bench.origin)), VECTOR)
    assert search(bench, pin, nearest={"column": "vec", "q": [4.0, 4.0], "k": 1}) == ["c"]


def test_a_search_filters_before_it_picks_its_best(local):
    pin = local.create("a", "b", n=1)
    pin = local.change(pin, upserts=["c"], n=1)
    pin = index(local, pin, TEXT)
    found = local.open(pin).read(["id"], "id = 'c'", limit=1, search=Search(full_text="word1"))
    assert found["id"].to_pylist() == ["c"]
    assert found.column_names == ["id", "_score"]


def test_compaction_keeps_rows_row_ids_and_row_versions(bench):
    pin = bench.create("a", "b", n=1)
    for number, key in enumerate("cde", start=2):
        pin = bench.change(pin, upserts=[key, "a"], n=number)
    before = bench.open(pin)
    staged = stage_compaction(before, **bench.origin)
    after = bench.open(bench.commit(staged))
    assert len(after.fragments) < len(before.fragments)

    def facts(table):
        return table.read(with_row_meta=True).drop_columns(["_rowaddr"]).sort_by("id")

    assert facts(after) == facts(before)
    assert stage_compaction(after, **bench.origin) is None


def test_compaction_never_lets_an_index_claim_rows_it_does_not_know(bench):
    """Fragments that compaction leaves unnumbered make full-text and vector indexes claim fragment zero."""
    pin = bench.create("a", n=1)
    for number, key in enumerate("bcd", start=2):
        pin = bench.change(pin, upserts=[key], n=number)
    pin = index(bench, pin, BTREE, TEXT)
    pin = bench.change(pin, upserts=["e"], n=5)
    pin = bench.change(pin, upserts=["f"], n=6)
    compacted = bench.commit(stage_compaction(bench.open(pin), **bench.origin))
    for number, key in enumerate("abcdef", start=1):
        assert search(bench, compacted, full_text=f"word{number}") == [key]
        assert bench.open(compacted).lookup([key], ["n"])["n"].to_pylist() == [number]
    assert all(found.fragment_ids.isdisjoint({0}) for found in bench.open(compacted).indexes())
    assert coverage(bench, index(bench, compacted, BTREE, TEXT)) == {"id_idx": 2, "text_idx": 2}


def reshape(bench, pin, renames=None, adds=(), drops=(), nullable=None):
    """Columns in their order under other names, without ``drops``, then ``adds``; nullability by new name."""
    table = bench.open(pin)
    kept = {name: (renames or {}).get(name, name) for name in table.schema.names if name not in drops}
    fields = [table.schema.field(old).with_name(new) for old, new in kept.items()]
    fields = [field.with_nullable((nullable or {}).get(field.name, field.nullable)) for field in fields]
    origins = {new: old for old, new in kept.items()}
    return bench.commit(stage_columns(table, pa.schema([*fields, *adds]), origins, **bench.origin))


def test_columns_are_added_dropped_and_renamed_in_one_commit_without_touching_data(bench):
    first = bench.create("a", n=1)
    adds = [pa.field("vec2", pa.list_(pa.float32(), 2)), pa.field("note", pa.list_(pa.string()))]
    pin = reshape(bench, first, {"n": "m"}, adds, drops=["text"])
    assert pin.version == first.version + 1
    table = bench.open(pin)
    assert table.schema.names == ["id", "m", "vec", "vec2", "note"]
    assert table.fragments[0].files == bench.open(first).fragments[0].files
    assert (bench.content(pin, "m"), bench.content(pin, "note")) == ({"a": 1}, {"a": None})
    ids = {name: number for number, name in table.fields}
    before = {name: number for number, name in bench.open(first).fields}
    assert (ids["id"], ids["m"], ids["vec"]) == (before["id"], before["n"], before["vec"])
    assert min(ids["vec2"], ids["note"]) > max(before.values())
    pin = reshape(bench, pin, {"note": "remarks"}, [pa.field("text", pa.int32())])
    grown = {name: number for number, name in bench.open(pin).fields}
    assert grown["remarks"] == ids["note"]
    # The field inside the list has the number after that of the list.
    assert grown["text"] > ids["note"] + 1
    values = {"id": ["b"], "m": [2], "vec": [None], "vec2": [[1.0, 2.0]], "remarks": [["hi"]], "text": [7]}
    rows = pa.table(values, schema=bench.open(pin).schema)
    pin = bench.commit(stage_change(bench.open(pin), upserts=rows, **bench.origin))
    fresh = bench.another_process()
    assert fresh.content(pin, "remarks") == {"a": None, "b": ["hi"]}
    assert fresh.content(pin, "text") == {"a": None, "b": 7}
    assert fresh.content(pin, "m") == {"a": 1, "b": 2}
    fresh.open(pin).handle.validate()


def test_indexes_of_columns_that_go_on_stay_right(local):
    number = IndexBuild(column="n", kind="btree", name="n_idx")
    pin = index(local, local.create("a", "b", n=1), BTREE, TEXT, number)
    pin = local.change(pin, upserts=["c"], deletes=["a"], n=2)
    row_ids = local.row_ids(pin)
    pin = reshape(local, pin, {"n": "m"}, [pa.field("x", pa.string())], drops=["text"], nullable={"m": False})
    assert local.row_ids(pin) == row_ids
    assert {found.name: found.columns for found in local.open(pin).indexes()} == {
        "id_idx": ("id",),
        "n_idx": ("m",),
    }
    read = local.open(pin).read(["id"], "m = 1")
    assert read["id"].to_pylist() == ["b"]
    rows = pa.table({"id": ["b", "d"], "m": [2, 1], "vec": [None, None], "x": ["q", None]})
    pin = local.commit(stage_change(local.open(pin), upserts=rows, **local.origin))
    for other in (local, local.another_process()):
        assert sorted(other.open(pin).read(["id"], "m = 2")["id"].to_pylist()) == ["b", "c"]
        assert other.open(pin).read(["id"], "m = 1")["id"].to_pylist() == ["d"]


def test_a_column_is_made_required_and_nullable_again(local):
    pin = local.change(local.create("a", n=1), upserts=["b"], n=2)
    required = {"n": False, "text": False}
    pin = reshape(local, pin, nullable=required)
    assert [local.open(pin).schema.field(name).nullable for name in required] == [False, False]
    pin = local.change(pin, upserts=["a"], n=3)
    assert local.content(pin) == {"a": 3, "b": 2}
    pin = reshape(local, pin, nullable={"n": True, "text": True})
    nulls = pa.table({"id": ["c"], "n": [None], "text": [None], "vec": [None]}, schema=local.open(pin).schema)
    pin = local.commit(stage_change(local.open(pin), upserts=nulls, **local.origin))
    pin = local.commit(stage_compaction(local.open(pin), **local.origin))
    fresh = local.another_process()
    assert fresh.content(pin) == {"a": 3, "b": 2, "c": None}
    assert fresh.content(pin, "text") == {"a": "word3", "b": "word2", "c": None}
    fresh.open(pin).handle.validate()


def test_a_blob_column_is_added_renamed_and_dropped(local):
    blob = pa.field("picture", pa.large_binary(), metadata={b"lance-encoding:blob": b"true", b"property": b"7"})
    pin = reshape(local, local.create("a", n=1), adds=[blob])
    rows = local.rows("b", n=2).append_column(blob, pa.chunked_array([pa.array([b"x" * 100_000], pa.large_binary())]))
    pin = local.commit(stage_change(local.open(pin), upserts=rows, **local.origin))
    assert local.content(pin, "picture") == {"a": None, "b": b"x" * 100_000}
    pin = reshape(local, pin, {"picture": "image"})
    assert local.another_process().content(pin, "image") == {"a": None, "b": b"x" * 100_000}
    assert local.open(pin).schema.field("image").metadata[b"property"] == b"7"
    assert local.open(pin).blobs == {"image"}
    rows = rows.rename_columns({"picture": "image"}).set_column(0, "id", [["c"]])
    pin = local.commit(stage_change(local.open(pin), upserts=rows, **local.origin))
    assert local.content(pin, "image")["c"] == b"x" * 100_000
    pin = reshape(local, pin, drops=["image"])
    assert local.content(pin) == {"a": 1, "b": 2, "c": 2}


def test_columns_get_a_wider_type_and_values_where_rows_have_none(local):
    """Deleted rows, row ids and other indexes stay, on a branch of the table too, and an undo leads back."""
    number = IndexBuild(column="n", kind="btree", name="n_idx")
    narrow = local.open(local.create("a", "b", "gone", n=1))
    fields = [narrow.schema.field("id"), pa.field("n", pa.int32()), pa.field("l", pa.list_(pa.uint32()))]
    first = {"id": ["a", "b", "gone"], "n": [1, None, 3], "l": [[1, 2], None, []]}
    rows = pa.table(first, schema=pa.schema(fields))
    pin = local.commit(stage_overwrite(narrow, rows, rows.schema, **local.origin))
    more = pa.table({"id": ["c"], "n": [-4], "l": [[7]]}, schema=rows.schema)
    pin = local.commit(stage_change(local.open(pin), upserts=more, deletes=["gone"], **local.origin))
    pin = index(local, pin, BTREE, number)
    wide = pa.schema(
        [
            pa.field("x", pa.string(), nullable=False),
            fields[0],
            pa.field("m", pa.int64(), nullable=False),
            pa.field("l", pa.list_(pa.int64())),
            pa.field("free", pa.string()),
        ]
    )
    origins = {"id": "id", "m": "n", "l": "l"}
    fills = {"x": pa.scalar("new"), "m": pa.scalar(9, pa.int64())}
    staged = stage_columns(local.open(pin), wide, origins, fills, **local.origin)
    assert len(staged.files) == 2
    assert set(staged.files) <= set(local.control.list_keys("nodes/1"))
    after = local.commit(staged)
    for store in (local, local.another_process()):
        assert store.open(after).schema.equals(wide)
        assert store.content(after, "m") == {"a": 1, "b": 9, "c": -4}
        assert store.content(after, "l") == {"a": [1, 2], "b": None, "c": [7]}
        assert store.content(after, "x") == {"a": "new", "b": "new", "c": "new"}
        assert store.content(after, "free") == {"a": None, "b": None, "c": None}
        assert store.open(after).lookup(["b", "gone"], ["m"])["m"].to_pylist() == [9]
    assert local.row_ids(after) == local.row_ids(pin)
    assert [found.name for found in local.open(after).indexes()] == ["id_idx"]
    local.open(after).handle.validate()
    grown = pa.table({"x": ["y"], "id": ["d"], "m": [5], "l": [None], "free": ["f"]}, schema=wide)
    changed = local.commit(stage_change(local.open(after), upserts=grown, deletes=["a"], **local.origin))
    compacted = local.commit(stage_compaction(local.open(changed), **local.origin))
    assert local.content(compacted, "m") == {"b": 9, "c": -4, "d": 5}
    undone = local.commit(stage_undo(local.open(pin), local.open(compacted), **local.origin))
    assert local.content(undone) == {"a": 1, "b": None, "c": -4}


def test_impossible_column_changes_are_refused(local):
    pin = local.create("a")
    for change in (
        {"adds": [pa.field("n", pa.int8())]},
        {"adds": [pa.field("x", pa.int8(), nullable=False)]},
        {"renames": {"n": "text"}},
    ):
        with pytest.raises(InternalError):
            reshape(local, pin, **change)
    table = local.open(pin)
    for schema, origins in (
        (table.schema, {"id": "nope"}),
        (table.schema, {"id": "id", "nope": "n"}),
        (table.schema.set(1, pa.field("n", pa.int8())), {name: name for name in table.schema.names}),
        (table.schema, {"id": "id", "n": "n", "text": "n"}),
    ):
        with pytest.raises(InternalError):
            stage_columns(table, schema, origins, **local.origin)


def drifted(bench, pin, kind):  # noqa: C901 - a table of cases
    table = bench.open(pin)
    match kind:
        case "insert":
            return bench.change(pin, upserts=["x"], n=9)
        case "update":
            return bench.change(pin, upserts=["a", "c"], n=9)
        case "delete some":
            return bench.change(pin, deletes=["a", "c"])
        case "delete a fragment":
            return bench.change(pin, deletes=["a", "b"])
        case "delete all":
            return bench.change(pin, deletes=["a", "b", "c"])
        case "fold":
            return bench.change(pin, upserts=["x"], tail_limit=1)
        case "overwrite":
            return bench.commit(stage_overwrite(table, bench.rows("z"), **bench.origin))
        case "index":
            return index(bench, pin, IndexBuild(column="n", kind="btree", name="n_idx"))
        case "compaction":
            return bench.commit(stage_compaction(table, **bench.origin))
        case "columns":
            return reshape(bench, pin, {"n": "m"}, [pa.field("x", pa.int8())], drops=["text"])
        case _:
            return bench.change(bench.change(pin, upserts=["x", "a"], n=9), deletes=["b", "x"])


KINDS = [
    "insert",
    "update",
    "delete some",
    "delete a fragment",
    "delete all",
    "fold",
    "overwrite",
    "index",
    "compaction",
    "columns",
    "two commits",
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("punched", [False, True])
def test_an_undo_brings_the_pinned_content_back(local, kind, indexed, punched):
    """With and without indexes, and with fragments that have deleted rows, which an overwrite does not take."""
    pin = local.create(*(["a", "b", "gone"] if punched else ["a", "b"]), n=1)
    pin = local.change(pin, upserts=["c"], deletes=["gone"], n=2)
    if indexed:
        pin = index(local, pin, BTREE, TEXT)
    head = drifted(local, pin, kind)
    staged = stage_undo(local.open(pin), local.open(head), **local.origin)
    assert (staged.before, staged.row_count) == (head, 3)
    assert set(staged.files) <= set(local.control.list_keys("nodes/1"))
    undone = local.commit(staged)
    for store in (local, local.another_process()):
        assert store.content(undone) == {"a": 1, "b": 1, "c": 2}
        assert store.row_ids(undone) == local.row_ids(pin)
        found = store.open(undone).lookup(["a", "b", "c", "gone", "x", "z"], ["n"])
        assert dict(zip(found["id"].to_pylist(), found["n"].to_pylist(), strict=True)) == {"a": 1, "b": 1, "c": 2}
        for key, number in (("a", 1), ("b", 1), ("c", 2)):
            assert store.open(undone).read(["n"], f"id = '{key}'")["n"].to_pylist() == [number]
        assert search(store, undone, full_text="word1") == ["a", "b"]
        assert search(store, undone, full_text="word9") == []
    assert local.open(undone).schema.equals(local.open(pin).schema)
    assert local.content(local.change(undone, upserts=["d", "a"], n=5)) == {"a": 5, "b": 1, "c": 2, "d": 5}
    local.open(undone).handle.validate()


def test_an_undo_is_not_misled_by_a_fragment_number_that_was_given_out_again(local):
    """Compaction may re-use the number of a fragment that had left, and indexes then cover that number."""
    pin = index(local, local.create("a", n=1), TEXT)
    pin = local.change(pin, upserts=["b"], n=2)
    pin = local.change(pin, upserts=["c"], n=3)
    pinned = {fragment.metadata.id for fragment in local.open(pin).fragments}
    head = local.change(pin, upserts=["x"], deletes=["c"], n=9, tail_limit=1)
    head = local.change(head, deletes=["x", "b"])
    head = index(local, local.change(head, upserts=["y"], n=8), TEXT)
    head = local.change(head, upserts=["z"], deletes=["y"], n=7)
    compacted = stage_compaction(local.open(head), **local.origin)
    head = local.commit(compacted) if compacted else head
    assert len(pinned) == 3
    undone = local.commit(stage_undo(local.open(pin), local.open(head), **local.origin))
    assert local.content(undone) == {"a": 1, "b": 2, "c": 3}
    assert [search(local, undone, full_text=f"word{n}") for n in (1, 2, 3, 7, 8, 9)] == [
        ["a"],
        ["b"],
        ["c"],
        [],
        [],
        [],
    ]


def test_an_undo_of_ordinary_changes_keeps_the_indexes(bench):
    pin = index(bench, bench.create("a", "b", n=1), BTREE)
    head = bench.change(pin, upserts=["a", "x"], n=2)
    undone = bench.commit(stage_undo(bench.open(pin), bench.open(head), **bench.origin))
    assert coverage(bench, undone) == {"id_idx": 1}


@pytest.mark.parametrize("kind", ["insert", "overwrite", "index"])
def test_an_undo_is_strict_and_can_be_repeated(bench, kind):
    pin = bench.change(bench.create("a", "b"), upserts=["c"])
    head = drifted(bench, pin, kind)
    undo = stage_undo(bench.open(pin), bench.open(head), **bench.origin)
    late = stage_undo(bench.open(pin), bench.open(head), **bench.origin)
    write = bench.stage(head, upserts=["late"])
    assert bench.commit(undo) == bench.commit(undo)
    for loser in (late, write):
        with pytest.raises(TableMovedError):
            bench.commit(loser)


def test_an_undo_needs_two_versions_of_one_branch(local):
    one, other = local.create("a"), local.create("a", location="nodes/2")
    with pytest.raises(InternalError):
        stage_undo(local.open(one), local.open(other), **local.origin)
