"""Behaviours of Lance and obstore that the store room relies on and that no documentation promises.

A red test here after an upgrade means that the protocol's ground has moved: read the test's docstring, then the module
it names, before changing anything. All of them stand in one file, so that one look after an upgrade shows what moved.
"""

import json
import uuid
from decimal import Decimal
from types import SimpleNamespace

import lance
import obstore
import obstore.exceptions
import pyarrow as pa
import pytest
from lance import LanceDataset, Transaction
from lance import LanceOperation as Op
from lance.commit import CommitConflictError
from lance.dataset import Index, Session
from lance.fragment import FragmentMetadata, RowDatasetVersionMeta, RowIdSequence, write_fragments
from lance.optimize import Compaction, CompactionTask, RewriteResult
from lance.schema import LanceSchema
from obstore.store import LocalStore, S3Store

from omnigraph.store import transactions
from omnigraph.store.tables.row_ids import row_id_run
from omnigraph.store.translate import FaultKind, fault_of

SCHEMA = pa.schema(
    [pa.field("id", pa.string(), nullable=False), pa.field("n", pa.int64()), pa.field("t", pa.string())],
    metadata={"stamp": "1"},
)


def rows(*ids, n=0):
    return pa.table({"id": list(ids), "n": [n] * len(ids), "t": [f"word{n}"] * len(ids)}, schema=SCHEMA)


def transaction(version, operation, identity=None, **properties):
    return Transaction(version, operation, identity or str(uuid.uuid4()), properties)


def commit(handle, operation, identity=None, **properties):
    return LanceDataset.commit(handle, transaction(handle.version, operation, identity, **properties), max_retries=0)


def metadata(handle):
    return [fragment.metadata for fragment in handle.get_fragments()]


def fields(handle):
    return [field.id() for field in handle.lance_schema.fields()]


def update(handle, new=(), *, updated=None, removed=(), preserving=None):
    return Op.Update(
        removed_fragment_ids=list(removed),
        updated_fragments=[metadata(handle)[0]] if updated is None else updated,
        new_fragments=list(new),
        fields_for_preserving_frag_bitmap=fields(handle) if preserving is None else preserving,
        update_mode="rewrite_rows",
    )


def insert(handle, *ids, n=0):
    return update(handle, write_fragments(rows(*ids, n=n), handle, schema=SCHEMA))


def segment(handle, column="id", kind="BTREE", *, fragment_ids=None, **options):
    chosen = [item.id for item in metadata(handle)] if fragment_ids is None else fragment_ids
    built = handle.create_index_uncommitted(column, kind, name=f"{column}_idx", fragment_ids=chosen, **options)
    return handle.merge_existing_index_segments([built]) if kind == "INVERTED" else built


def indexed(handle, *columns):
    kinds = {"id": "BTREE", "t": "INVERTED"}
    return commit(handle, Op.CreateIndex([segment(handle, column, kinds[column]) for column in columns], []))


def ids(handle, **options):
    return sorted(handle.to_table(columns=["id"], **options)["id"].to_pylist())


class Place:
    """A fresh dataset address on one of the two kinds of storage."""

    def __init__(self, uri, options, store):
        self.uri = uri
        self.options = options
        self.store = store
        self.session = Session()

    def create(self, *tables, identity=None):
        new = [
            fragment
            for table in tables
            for fragment in write_fragments(
                table, self.uri, schema=SCHEMA, mode="create", storage_options=self.options, session=self.session
            )
        ]
        LanceDataset.commit(
            self.uri,
            transaction(0, Op.Overwrite(SCHEMA, new), identity),
            max_retries=0,
            enable_stable_row_ids=True,
            storage_options=self.options,
        )
        return self.open(1)

    def open(self, version=None, branch=None):
        uri = self.uri if branch is None else f"{self.uri}/tree/{branch}"
        return lance.dataset(uri, version=version, storage_options=self.options, session=self.session)


@pytest.fixture(params=["local", "s3"])
def place(request, tmp_path):
    if request.param == "local":
        return Place(str(tmp_path / "t"), None, LocalStore(tmp_path))
    endpoint = request.getfixturevalue("clean_s3_endpoint")
    prefix = endpoint.fresh_prefix()
    inside = prefix.removeprefix(f"s3://{endpoint.bucket}/")
    return Place(
        f"{prefix}/t",
        endpoint.storage_options,
        S3Store(endpoint.bucket, prefix=inside, config=endpoint.storage_options),
    )


def test_creation_by_commit_happens_once(place):
    """``landing.land_creation``: the loser sees a missing version 0, or that the dataset exists."""
    place.create(rows("a"))
    with pytest.raises(OSError, match=r"was not found|already exists") as caught:
        place.create()
    assert fault_of(caught.value) in {FaultKind.MISSING, FaultKind.EXISTS}
    assert place.open().version == 1
    assert place.open().has_stable_row_ids


def test_files_for_a_dataset_that_exists_are_refused(place):
    """``writing.write_new``."""
    place.create(rows("a"))
    with pytest.raises(OSError, match="Dataset already exists") as caught:
        write_fragments(rows("b"), place.uri, schema=SCHEMA, mode="create", storage_options=place.options)
    assert fault_of(caught.value) is FaultKind.EXISTS


def test_a_strict_overwrite_lists_old_fragments_again_also_inherited_ones(place):
    """``DatasetStore.replace``: fragments survive as data, in the order given, on main and on a branch."""
    first = place.create(rows("a"), rows("b"))
    new = write_fragments(rows("c"), first, schema=SCHEMA)
    second = commit(first, Op.Overwrite(SCHEMA, [*new, *metadata(first)]))
    assert second.to_table()["id"].to_pylist() == ["c", "a", "b"]
    assert second.schema.metadata == {b"stamp": b"1"}
    branch = second.create_branch("draft", 2, storage_options=place.options)
    inherited = [FragmentMetadata.from_json(json.dumps(item.to_json())) for item in metadata(branch)]
    assert all(file.base_id is not None for item in inherited for file in item.files)
    own = write_fragments(rows("d"), branch, schema=SCHEMA)
    third = commit(branch, Op.Overwrite(SCHEMA, [*own, *inherited]))
    assert (third.version, third.to_table()["id"].to_pylist()) == (3, ["d", "c", "a", "b"])
    assert place.open(3, "draft").to_table()["id"].to_pylist() == ["d", "c", "a", "b"]
    assert len(set(third.to_table(columns=["_rowid"])["_rowid"].to_pylist())) == 4


@pytest.mark.parametrize("other", ["overwrite", "update", "merge", "index", "config"])
def test_a_strict_overwrite_loses_against_everything(place, other):
    """The manifest's compare-and-swap."""
    base = place.create(rows("a"))
    match other:
        case "overwrite":
            commit(base, Op.Overwrite(SCHEMA, metadata(base)))
        case "update":
            commit(base, insert(base, "b"))
        case "merge":
            commit(base, Op.Merge(metadata(base), base.lance_schema))
        case "index":
            indexed(base, "id")
        case _:
            place.open(1).update_config({"k": "v"})
    with pytest.raises(CommitConflictError, match="Commit conflict for version 2"):
        commit(base, Op.Overwrite(SCHEMA, metadata(base)))
    assert place.open().version == 2


def test_updates_that_share_a_sentinel_conflict(place):
    """``staging.change``: two pure inserts would both land without it."""
    base = place.create(rows("a"), rows("b"))
    one, two = insert(base, "x"), insert(base, "x")
    assert commit(base, one).version == 2
    with pytest.raises(CommitConflictError) as caught:
        commit(base, two)
    assert caught.value.retryable
    assert "preempted by concurrent transaction" in str(caught.value)
    assert ids(place.open()) == ["a", "b", "x"]


def test_without_a_sentinel_inserts_both_land(place):
    """Why there is a sentinel. If this turns red, it may no longer be needed."""
    base = place.create(rows("a"))
    one = update(base, write_fragments(rows("x"), base, schema=SCHEMA), updated=[])
    two = update(base, write_fragments(rows("x"), base, schema=SCHEMA), updated=[])
    assert (commit(base, one).version, commit(base, two).version) == (2, 3)


@pytest.mark.parametrize("removed_by_first", [True, False])
def test_removing_the_sentinel_counts_as_touching_it(place, removed_by_first):
    """``staging.change`` leaves a removed sentinel out of the updated fragments."""
    base = place.create(rows("a"), rows("b"))
    removing = update(base, updated=[], removed=[metadata(base)[0].id])
    touching = insert(base, "x")
    first, second = (removing, touching) if removed_by_first else (touching, removing)
    commit(base, first)
    with pytest.raises(CommitConflictError):
        commit(base, second)


def test_an_update_and_an_overwrite_conflict_in_both_orders(place):
    base = place.create(rows("a"))
    change = insert(base, "x")
    commit(base, Op.Overwrite(SCHEMA, metadata(base)))
    with pytest.raises(CommitConflictError, match="Incompatible transaction"):
        commit(base, change)


def test_a_merge_is_the_strict_first_write_of_an_empty_table(place):
    """``staging.change`` on a table without fragments."""
    base = place.create()
    one = Op.Merge(write_fragments(rows("a"), base, schema=SCHEMA), base.lance_schema)
    two = Op.Merge(write_fragments(rows("b"), base, schema=SCHEMA), base.lance_schema)
    after = commit(base, one)
    assert (after.version, ids(after)) == (2, ["a"])
    assert after.to_table(columns=["_rowid"])["_rowid"].to_pylist() == [0]
    with pytest.raises(CommitConflictError):
        commit(base, two)


def test_an_overwrite_may_leave_no_fragment(place):
    base = place.create(rows("a"))
    after = commit(base, Op.Overwrite(base.lance_schema, []))
    assert (after.count_rows(), after.get_fragments(), after.schema.names) == (0, [], SCHEMA.names)


def test_an_overwrite_refuses_fragments_with_deletions(place):
    """``staging.undo`` writes their living rows again."""
    base = place.create(rows("a", "b"))
    after = commit(base, update(base, updated=[base.get_fragments()[0].delete_rows([0])]))
    with pytest.raises(OSError, match="Invalid user input: Overwrite fragments must be newly written") as caught:
        commit(after, Op.Overwrite(SCHEMA, metadata(after)))
    assert fault_of(caught.value) is FaultKind.INVALID


def test_a_landed_transaction_is_known_by_its_uuid_and_properties(place):
    """``landing``: sent again it makes no version, and reading the version back tells that it was ours."""
    base = place.create(rows("a"))
    for stage in (lambda handle: insert(handle, "b"), lambda handle: Op.Overwrite(SCHEMA, metadata(handle))):
        base = place.open()
        operation, identity = stage(base), str(uuid.uuid4())
        landed = commit(base, operation, identity, op="42")
        try:
            assert commit(base, operation, identity, op="42").version == landed.version
        except CommitConflictError:
            assert isinstance(operation, Op.Update)
        assert place.open().version == landed.version
        found = place.open(landed.version).read_transaction(landed.version)
        assert (found.uuid, found.read_version) == (identity, base.version)
        assert found.transaction_properties == {"op": "42"}


def test_a_transaction_rebuilt_from_json_lands_with_its_row_ids(place):
    """``staging.codec``."""
    base = place.create(rows("a", "b", "c"))
    shrunk = base.get_fragments()[0].delete_rows([1])
    (new,) = write_fragments(rows("b", "d", n=2), base, schema=SCHEMA)
    new.row_id_meta = RowIdSequence(pa.array([1], pa.uint64())).to_inline_metadata()
    copies = [FragmentMetadata.from_json(json.dumps(item.to_json())) for item in (shrunk, new)]
    after = commit(base, update(base, [copies[1]], updated=[copies[0]]))
    found = after.to_table(columns=["id", "n", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"])
    assert sorted(map(tuple, (row.values() for row in found.to_pylist()))) == [
        ("a", 0, 0, 1, 1),
        ("b", 2, 1, 1, 2),
        ("c", 0, 2, 1, 1),
        ("d", 2, 3, 2, 2),
    ]
    assert RowIdSequence.from_inline_metadata(metadata(after)[1].row_id_meta).to_pyarrow().to_pylist() == [1, 3]
    after.validate()


def test_a_deletion_file_says_where_it_is(place):
    """``staging.change.deletion_files`` and the durability of a commit."""
    base = place.create(rows("a", "b"))
    shrunk = base.get_fragments()[0].delete_rows([0])
    path = shrunk.deletion_file.path(shrunk.id)
    assert obstore.head(place.store, f"t/{path}")["size"] > 0
    assert base.get_fragments()[0].delete_rows([0, 1]) is None


@pytest.mark.parametrize(("listed", "found"), [(True, [["b"], ["a"]]), (False, [["a", "b"], []])])
def test_an_index_spreads_over_rewritten_rows_unless_every_field_is_listed(place, listed, found):
    """Why ``fields_for_preserving_frag_bitmap`` is never empty: full text would answer with old words."""
    base = indexed(place.create(rows("a", "b", n=1)), "t")
    shrunk = base.get_fragments()[0].delete_rows([0])
    (new,) = write_fragments(rows("a", n=2), base, schema=SCHEMA)
    new.row_id_meta = RowIdSequence(pa.array([0], pa.uint64())).to_inline_metadata()
    after = commit(base, update(base, [new], updated=[shrunk], preserving=fields(base) if listed else []))

    def search(word):
        return ids(after, full_text_query=word, disable_scoring_autoprojection=True)

    assert [search("word1"), search("word2")] == found


def test_fast_search_asks_the_index_only(place):
    """``lookup``: the rest is looked up in memory."""
    base = place.create(rows("a", "b"))
    base = indexed(base, "id")
    after = commit(base, insert(base, "c"))
    where = "id IN ('a', 'c')"
    assert ids(after, filter=where) == ["a", "c"]
    assert ids(after, filter=where, fast_search=True) == ["a"]
    (described,) = after.describe_indices()
    assert (described.index_type, described.field_names) == ("BTree", ["id"])
    assert [set(segment.fragment_ids) for segment in described.segments] == [{0}]


@pytest.mark.parametrize(("kind", "column"), [("BTREE", "id"), ("INVERTED", "t")])
def test_an_index_grows_by_segments_and_can_be_replaced(place, kind, column):
    """``staging.indexes``."""

    base = place.create(rows("a"))
    one = commit(base, Op.CreateIndex([segment(base, column, kind)], []))
    two = commit(one, insert(one, "b"))
    three = commit(two, Op.CreateIndex([segment(two, column, kind, fragment_ids=[1], replace=True)], []))
    (described,) = three.describe_indices()
    assert [set(part.fragment_ids) for part in described.segments] == [{0}, {1}]
    with pytest.raises(RuntimeError, match="already exists"):
        segment(three, column, kind, fragment_ids=[1])
    removed = [
        Index(
            uuid=part.uuid,
            name=described.name,
            fields=list(described.fields),
            dataset_version=part.dataset_version_at_last_update,
            fragment_ids=part.fragment_ids,
            index_version=part.index_version,
        )
        for part in described.segments
    ]
    four = commit(three, Op.CreateIndex([segment(three, column, kind, replace=True)], removed))
    assert [[set(part.fragment_ids) for part in found.segments] for found in four.describe_indices()] == [[{0, 1}]]


@pytest.mark.parametrize("kind", ["btree", "fulltext"])
def test_a_second_segment_hides_old_values_of_rewritten_rows_for_scalars_only(place, kind):
    """``staging.indexes`` builds a full-text index anew where a scalar one just grows."""
    column, index_kind = ("n", "BTREE") if kind == "btree" else ("t", "INVERTED")
    base = place.create(rows("a", "b", n=1))
    base = commit(base, Op.CreateIndex([segment(base, column, index_kind)], []))
    shrunk = base.get_fragments()[0].delete_rows([0])
    (new,) = write_fragments(rows("a", n=2), base, schema=SCHEMA)
    new.row_id_meta = RowIdSequence(pa.array([0], pa.uint64())).to_inline_metadata()
    base = commit(base, update(base, [new], updated=[shrunk]))
    extended = segment(base, column, index_kind, fragment_ids=[1], replace=True)
    after = commit(base, Op.CreateIndex([extended], []))
    if kind == "btree":
        assert (ids(after, filter="n = 1"), ids(after, filter="n = 2")) == (["b"], ["a"])
    else:
        assert ids(after, full_text_query="word1", disable_scoring_autoprojection=True) == ["a", "b"]


def test_compaction_results_land_in_one_version_under_the_ids_given(place):
    """``staging.compaction``: rows keep ids and versions, and no index claims fragment zero."""
    base = place.create(rows("a"), rows("b"))
    base = indexed(base, "t")
    (result,) = [task.execute(base) for task in Compaction.plan(base, {}).tasks]
    new = list(result.new_fragments)
    new[0].id = 7
    after = commit(base, Op.Rewrite([Op.RewriteGroup(result.original_fragments, new)], []))
    assert (after.version, [item.id for item in metadata(after)]) == (3, [7])
    columns = ["id", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    assert after.to_table(columns=columns) == base.to_table(columns=columns)
    assert [set(part.fragment_ids) for found in after.describe_indices() for part in found.segments] == [{7}]
    assert [item.id for item in metadata(commit(after, insert(after, "c")))] == [7, 8]


def test_compacted_fragments_stand_where_their_ids_put_them(place):
    """``staging.compaction`` keeps rows in the order of their row ids: an id that had left, or goes, can be given."""
    base = place.create(rows("a"), rows("b"), rows("c"))
    originals = metadata(base)
    (task,) = Compaction.plan(base, {}).tasks
    plan = json.loads(task.json())
    plan["task"]["fragments"] = plan["task"]["fragments"][:2]
    result = CompactionTask.from_json(json.dumps(plan)).execute(base)
    new = list(result.new_fragments)
    new[0].id = originals[1].id
    after = commit(base, Op.Rewrite([Op.RewriteGroup(originals[:2], new)], []))
    assert [item.id for item in metadata(after)] == [1, 2]
    assert after.to_table(columns=["id", "_rowid"]).to_pydict() == {"id": ["a", "b", "c"], "_rowid": [0, 1, 2]}


def test_row_versions_of_a_fragment_that_is_listed_again_are_taken_as_they_are(place):
    """``row_versions``: one run in place of many, in an update and in a compaction."""
    base = place.create(rows("a"))
    base = commit(base, insert(base, "b"))
    (result,) = [task.execute(base) for task in Compaction.plan(base, {}).tasks]
    columns = ["_row_created_at_version", "_row_last_updated_at_version"]
    run = {"inline": [10, 8, 10, 4, 10, 2, 16, 2, 16, 1]}
    new = list(result.new_fragments)
    new[0].id = 2
    new[0].created_at_version_meta = RowDatasetVersionMeta.from_json(json.dumps(run))
    compacted = commit(base, Op.Rewrite([Op.RewriteGroup(list(result.original_fragments), new)], []))
    assert compacted.to_table(columns=columns).to_pydict()[columns[0]] == [1, 1]
    listed = metadata(compacted)[0]
    listed.last_updated_at_version_meta = RowDatasetVersionMeta.from_json(json.dumps(run))
    after = commit(compacted, update(compacted, updated=[listed]))
    assert after.to_table(columns=columns).to_pydict() == {key: [1, 1] for key in columns}


def test_compaction_results_are_rebuilt_on_each_access(place):
    """``staging.compaction`` takes the list once."""
    base = place.create(rows("a"), rows("b"))
    (result,) = [task.execute(base) for task in Compaction.plan(base, {}).tasks]
    result.new_fragments[0].id = 7
    assert result.new_fragments[0].id == 0


def test_compaction_tasks_and_results_travel_as_json_and_name_the_fragments_they_replace(place):
    """``portable.maintenance`` and ``staging.compaction``: another process does the work."""
    base = place.create(rows("a", "b"), rows("c"))
    base = commit(base, update(base, updated=[base.get_fragments()[0].delete_rows([0])]))
    (task,) = Compaction.plan(base, {}).tasks
    result = RewriteResult.from_json(CompactionTask.from_json(task.json()).execute(base).json())
    assert [item.to_json() for item in result.original_fragments] == [item.to_json() for item in metadata(base)]
    after = commit(base, Op.Rewrite([Op.RewriteGroup(result.original_fragments, list(result.new_fragments))], []))
    columns = ["id", "_rowid", "_row_created_at_version"]
    assert after.to_table(columns=columns) == base.to_table(columns=columns)


def test_a_removed_fragment_can_come_back_with_its_row_ids(place):
    """``staging.undo``."""
    base = place.create(rows("a"), rows("b"))
    gone = commit(base, update(base, removed=[1]))
    assert ids(gone) == ["a"]
    back = commit(gone, update(gone, [metadata(base)[1]]))
    assert back.to_table(columns=["id", "_rowid"]).to_pydict() == {"id": ["a", "b"], "_rowid": [0, 1]}
    assert [item.id for item in metadata(back)] == [0, 1]


def test_a_fragment_that_comes_back_as_number_zero_loses_its_deletions(place):
    """Why ``staging.undo`` writes living rows again: the deletion file is looked for under another number."""
    base = place.create(rows("a", "b"), rows("c"))
    punched = commit(base, update(base, updated=[base.get_fragments()[0].delete_rows([0])]))
    gone = commit(punched, update(punched, updated=[metadata(punched)[1]], removed=[0]))
    back = commit(gone, update(gone, [metadata(punched)[0]]))
    assert [item.id for item in metadata(back)] == [1, 2]
    with pytest.raises(pa.ArrowInvalid, match="Not found"):
        back.to_table()


def test_a_schema_is_taken_apart_and_put_together_with_its_field_ids(place):
    """``staging.columns`` and ``staging.codec``: the pickling hook is the only way to the field messages."""
    base = place.create(rows("a", n=5))
    made, (found, *protos) = base.lance_schema.__reduce__()
    assert made.__name__ == "_from_protos"
    kept = LanceSchema._from_protos(found, protos[0], protos[2])
    after = commit(base, Op.Project(kept, preserves_nullability=True))
    assert [(field.id(), field.name()) for field in after.lance_schema.fields()] == [(0, "id"), (2, "t")]
    assert after.to_table().to_pydict() == {"id": ["a"], "t": ["word5"]}
    renumbered = LanceSchema.from_pyarrow(after.schema)
    assert [field.id() for field in renumbered.fields()] == [0, 1]


def test_the_id_of_a_dropped_column_is_not_given_out_again(place):
    """``staging.columns``: a later column would otherwise show the values of the dropped one."""
    base = place.create(rows("a", n=5))
    _, (found, *protos) = base.lance_schema.__reduce__()
    after = commit(base, Op.Project(LanceSchema._from_protos(found, *protos[:2]), preserves_nullability=True))
    assert after.max_field_id == 2


def test_a_projection_also_adds_columns_and_changes_what_may_be_null(place):
    """``staging.columns`` puts every change of columns into one commit; a merge would refuse the second half of it."""
    base = indexed(place.create(rows("a", "b", n=5)), "id", "t")
    wide = pa.schema([SCHEMA.field(0), pa.field("n", pa.int64(), nullable=False), SCHEMA.field(2), ("x", pa.string())])
    _, (found, *protos) = LanceSchema.from_pyarrow(wide).__reduce__()
    schema = LanceSchema._from_protos(found, protos[0], protos[1], protos[3])
    with pytest.raises(OSError, match="nullable true -> false"):
        commit(base, Op.Merge(metadata(base), schema))
    after = commit(base, Op.Project(schema, preserves_nullability=False))
    assert after.schema.field("n").nullable is False
    assert after.to_table().to_pydict() == {"id": ["a", "b"], "n": [5, 5], "x": [None, None]}
    assert [index.name for index in after.describe_indices()] == ["id_idx"]
    assert ids(after, filter="id = 'b'", fast_search=True) == ["b"]


def test_nested_fields_are_numbered_after_their_parent():
    """``staging.columns`` counts on it when it renames a list column."""
    schema = LanceSchema.from_pyarrow(
        pa.schema([pa.field("a", pa.int8()), pa.field("l", pa.list_(pa.string())), pa.field("b", pa.int8())])
    )
    assert [(field.id(), [child.id() for child in field.children()]) for field in schema.fields()] == [
        (0, []),
        (1, [2]),
        (3, []),
    ]


def test_transactions_of_indexed_compactions_can_be_read_back(place):
    """``transactions`` repairs a class of Lance whose constructor demands more than Lance passes."""
    assert transactions.OPERATION_ID
    base = place.create(rows("a"), rows("b"))
    handle = indexed(base, "id").checkout_version(1).checkout_version(2)
    handle.optimize.compact_files()
    assert place.open().read_transaction(handle.version).uuid


def test_missing_things_say_so(place):
    base = place.create(rows("a"))
    for look in (
        lambda: place.open(9),
        lambda: lance.dataset(f"{place.uri}-no", storage_options=place.options),
        lambda: place.open(1, "nope"),
        lambda: base.read_transaction(9),
    ):
        with pytest.raises((OSError, ValueError), match="was not found") as caught:
            look()
        assert fault_of(caught.value) is FaultKind.MISSING
    for fragment in base.get_fragments():
        obstore.delete(place.store, f"t/data/{fragment.metadata.files[0].path}")
    cold = lance.dataset(place.uri, storage_options=place.options)
    with pytest.raises(pa.ArrowInvalid, match="Not found") as caught:
        cold.to_table()
    assert fault_of(caught.value) is FaultKind.MISSING


@pytest.mark.parametrize("name", ["draft.1", "team/é"])
def test_branches_live_where_the_store_room_expects_them(place, name):
    """``branches``: ref and tree are removed and looked for by path."""
    base = place.create(rows("a"))
    branch = base.create_branch(name, 1, storage_options=place.options)
    assert branch.version == 1
    quoted = name.replace("/", "%2F").replace("é", "%C3%A9")
    ref = json.loads(bytes(obstore.get(place.store, f"t/_refs/branches/{quoted}.json").bytes()))
    assert (ref["parentBranch"], ref["parentVersion"]) == (None, 1)
    opened = place.open(1, name)
    assert opened.read_transaction(1).operation.ref_version == 1
    assert commit(opened, insert(opened, "b")).version == 2
    assert place.open().version == 1
    assert place.open(None, name).latest_version == 2
    child = place.open(2, name).create_branch("child", 2, storage_options=place.options)
    assert child.read_transaction(2).operation.ref_name == name


def test_a_branch_without_a_ref_and_a_ref_without_a_branch_are_told_apart(place):
    """``branches.Branches.create`` heals both."""
    base = place.create(rows("a"))
    base.create_branch("draft", 1, storage_options=place.options)
    with pytest.raises(OSError, match="Clone operation should not enter build_manifest") as caught:
        base.create_branch("draft", 1, storage_options=place.options)
    assert fault_of(caught.value) is FaultKind.BRANCH_TREE_EXISTS
    for meta in obstore.list(place.store, "t/tree").collect():
        obstore.delete(place.store, meta["path"])
    with pytest.raises(OSError, match="Ref conflict error: branch draft already exists") as caught:
        base.create_branch("draft", 1, storage_options=place.options)
    assert fault_of(caught.value) is FaultKind.EXISTS
    assert ids(place.open(None, "draft")) == ["a"]


def test_a_handle_that_committed_is_unchanged_and_the_next_one_shares_its_statistics(place):
    """``metering`` reads them from either."""
    base = place.create(rows("a"))
    operation = insert(base, "b")
    base.io_stats_incremental()
    after = commit(base, operation)
    assert (base.version, after.version) == (1, 2)
    assert after.io_stats_incremental().write_iops >= 2
    assert base.io_stats_incremental().write_iops == 0


def test_reading_by_row_id_omits_unknown_ids(place):
    """``PinnedTable.take``, an unstable interface."""
    base = place.create(rows("a", "b"))
    assert base._take_rows([1, 99], columns=["_rowid", "id"]).to_pydict() == {"_rowid": [1], "id": ["b"]}


def test_reading_by_row_id_keeps_the_order_and_shows_where_a_row_is_now(place):
    """``lookup.py``: a row that was deleted or written anew must not pass for the one at its old place."""
    base = place.create(rows("a", "b", "c", "d"))
    first = base.get_fragment(0).delete_rows([1, 2])
    [new] = write_fragments(rows("b", n=1), base, schema=SCHEMA)
    new.row_id_meta = RowIdSequence([1]).to_inline_metadata()
    changed = commit(base, update(base, [new], updated=[first]))
    names = ["_rowid", "_rowaddr", "id"]
    assert changed._take_rows([3, 1, 2, 0], columns=names).to_pydict() == {
        "_rowid": [3, 1, 0],
        "_rowaddr": [3, 1 << 32, 0],
        "id": ["d", "b", "a"],
    }


def test_a_scan_shows_deleted_rows_at_their_places_when_it_is_asked_to(place):
    """``keys.py``: keys have the ids of deleted rows, too."""
    base = place.create(rows("a", "b", "c", "d"))
    changed = commit(base, update(base, updated=[base.get_fragment(0).delete_rows([0, 2])]))
    scanner = changed.scanner(columns=["id"], with_row_id=True, include_deleted_rows=True)
    assert scanner.to_table()["id"].to_pylist() == ["a", "b", "c", "d"]


@pytest.mark.parametrize("row_ids", [[0], [5, 6, 7], [300, 301], [4, 6], [9, 3, 1], list(range(0, 900, 3))])
def test_row_ids_that_are_one_range_are_written_as_its_ends(row_ids):
    """``row_ids.py`` counts them and lists any others."""
    meta = RowIdSequence(row_ids).to_inline_metadata()
    described = SimpleNamespace(row_id_meta=meta, physical_rows=len(row_ids))
    is_range = row_ids == list(range(row_ids[0], row_ids[-1] + 1))
    assert row_id_run(described) == (row_ids[0] if is_range else None)


def test_manifests_are_named_so_that_the_newest_comes_first(place):
    """``durability`` builds these names."""
    base = place.create(rows("a"))
    commit(base, insert(base, "b"))
    found = {meta["path"] for meta in obstore.list(place.store, "t/_versions").collect()}
    newest = (1 << 64) - 1
    assert {f"t/_versions/{newest - version:020d}.manifest" for version in (1, 2)} <= found


def test_put_if_absent_has_a_type_of_its_own(place):
    """``control``: the claim rests on it."""
    obstore.put(place.store, "k~1/x", b"1", mode="create")
    with pytest.raises(obstore.exceptions.AlreadyExistsError):
        obstore.put(place.store, "k~1/x", b"2", mode="create")
    assert bytes(obstore.get(place.store, "k~1/x").bytes()) == b"1"
    with pytest.raises(FileNotFoundError):
        obstore.get(place.store, "k~1/y")


def test_filters_compare_decimals_exactly_with_and_without_an_index(tmp_path):
    """``engine/comparison.py`` names the type of a decimal in what it asks storage; a bare number is an error there."""
    nines = "9" * 38
    column = pa.array([Decimal(nines), Decimal(f"-{nines}"), None, Decimal(1)], pa.decimal128(38, 0))
    dataset = lance.write_dataset(pa.table({"id": ["a", "b", "c", "d"], "x": column}), tmp_path / "d.lance")
    for _ in range(2):
        for op, value, found in (
            ("=", nines, ["a"]),
            ("<", "1", ["b"]),
            (">=", "1", ["a", "d"]),
            ("!=", "1", ["a", "b"]),
        ):
            asked = f"`x` {op} arrow_cast('{value}', 'Decimal128(38, 0)')"
            assert dataset.to_table(filter=asked).column("id").to_pylist() == found
        dataset.create_scalar_index("x", "BTREE")
        dataset = lance.dataset(tmp_path / "d.lance")


@pytest.mark.parametrize("damage", ["lost", "empty", "zeros"])
def test_a_version_holds_its_transaction_and_the_file_beside_it_is_never_read(tmp_path, damage):
    """``store/durability.py`` does not sync the files of transactions: after a power failure they may be anything."""
    handle = lance.write_dataset(rows("a"), str(tmp_path / "t"), schema=SCHEMA, enable_stable_row_ids=True)
    for number in range(3):
        handle = commit(handle, insert(handle, f"b{number}"), said=str(number))
    for file in (tmp_path / "t" / "_transactions").iterdir():
        if damage == "lost":
            file.unlink()
        else:
            file.write_bytes(b"" if damage == "empty" else bytes(file.stat().st_size))
    fresh = lance.dataset(str(tmp_path / "t"), session=Session())
    told = [fresh.read_transaction(version) for version in range(1, fresh.version + 1)]
    assert [type(one.operation).__name__ for one in told] == ["Overwrite", "Update", "Update", "Update"]
    assert [one.transaction_properties.get("said") for one in told[1:]] == ["0", "1", "2"]
    # An older handle looks at every transaction since; the next commit, and a cleanup, go through.
    older = lance.dataset(str(tmp_path / "t"), version=1, session=Session())
    assert commit(older, Op.CreateIndex([segment(older)], [])).version == fresh.version + 1
    newest = lance.dataset(str(tmp_path / "t"), session=Session())
    assert newest.count_rows() == 4
    newest.cleanup_old_versions(versions=[1, 2])
    assert commit(newest, insert(newest, "c")).count_rows() == 5
