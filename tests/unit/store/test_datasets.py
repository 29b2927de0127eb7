"""Replaceable datasets: one winner per version, idempotent by uuid, never a guess about what happened."""

import uuid
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from omnigraph.errors import (
    AlreadyExistsError,
    CompareAndSwapLostError,
    Effect,
    OutcomeUnknownError,
    Retry,
    StorageDeniedError,
    TableMissingError,
    VersionMissingError,
)
from omnigraph.store.tables.pins import FragmentRef
from omnigraph.store.transactions import read_mark
from omnigraph.testing.s3 import FOREVER, Fault

SCHEMA = pa.schema([pa.field("k", pa.string()), pa.field("v", pa.int64())], metadata={"stamp": "1"})


def rows(*keys):
    return pa.table({"k": list(keys), "v": list(range(len(keys)))}, schema=SCHEMA)


def fresh():
    return str(uuid.uuid4())


@pytest.fixture
def made(bench):
    return bench.datasets.create("__manifest", SCHEMA, [rows("a"), rows("b", "c")], {"by": "one"})


def replace(bench, dataset, *tables, identity=None, keep=()):
    staged = [bench.datasets.stage_fragment(dataset, table) for table in tables]
    return bench.datasets.replace(dataset, [*staged, *keep], SCHEMA, {"by": "two"}, identity or fresh())


def keys(bench, dataset, fragments=None):
    return bench.datasets.read(dataset, fragments, None)["k"].to_pylist()


def properties(bench, dataset):
    return read_mark(dataset.handle, dataset.version, dataset.location).properties


def test_a_dataset_is_created_with_one_fragment_per_table(bench, made):
    assert (made.version, made.branch, made.location) == (1, None, "__manifest")
    assert [fragment.row_count for fragment in made.fragments] == [1, 2]
    assert made.schema.metadata == {b"stamp": b"1"}
    assert properties(bench, made) == {"by": "one"}
    assert keys(bench, made) == ["a", "b", "c"]


def test_creating_twice_is_refused(bench, made):
    with pytest.raises(AlreadyExistsError):
        bench.datasets.create("__manifest", SCHEMA, [rows("x")], {})
    assert keys(bench, bench.datasets.open_latest("__manifest", None)) == ["a", "b", "c"]


def test_one_of_many_simultaneous_creators_wins(bench):
    def create(number):
        try:
            return bench.another_process().datasets.create("d", SCHEMA, [rows(str(number))], {})
        except AlreadyExistsError:
            return None

    with ThreadPoolExecutor(6) as pool:
        made = [outcome for outcome in pool.map(create, range(6)) if outcome is not None]
    assert len(made) == 1
    assert bench.datasets.latest_version("d", None) == 1


def test_fragments_can_be_kept_replaced_and_read_by_position(bench, made):
    second = replace(bench, made, rows("x"), keep=[made.fragments[1]])
    assert second.version == 2
    assert keys(bench, second) == ["x", "b", "c"]
    assert keys(bench, second, [1]) == ["b", "c"]
    assert keys(bench, second, []) == []
    assert second.fragments[1].files == made.fragments[1].files
    third = replace(bench, second, rows("y"), keep=second.fragments)
    assert keys(bench, third) == ["y", "x", "b", "c"]
    assert bench.datasets.read(third, [0], ["v"]).column_names == ["v"]
    assert properties(bench, third) == {"by": "two"}
    other = bench.another_process()
    reopened = other.datasets.open_version("__manifest", None, 3)
    assert properties(other, reopened) == {"by": "two"}
    assert keys(other, reopened) == ["y", "x", "b", "c"]


def test_a_fragment_survives_json(bench, made):
    copies = [FragmentRef.from_json(fragment.json()) for fragment in made.fragments]
    assert copies == list(made.fragments)
    assert keys(bench, replace(bench, made, keep=copies)) == ["a", "b", "c"]


def test_only_one_of_two_replacements_lands(bench, made):
    replace(bench, made, rows("x"))
    with pytest.raises(CompareAndSwapLostError) as caught:
        replace(bench, made, rows("y"))
    assert (caught.value.details.expected, caught.value.details.actual) == (1, 2)
    assert (caught.value.retry, caught.value.effect) == (Retry.AFTER_REFRESH, Effect.STAGED)
    assert keys(bench, bench.datasets.open_latest("__manifest", None)) == ["x"]


def test_one_of_many_simultaneous_replacements_lands(bench, made):
    def attempt(number):
        other = bench.another_process()
        base = other.datasets.open_version("__manifest", None, 1)
        try:
            return replace(other, base, rows(str(number))).version
        except CompareAndSwapLostError:
            return None

    with ThreadPoolExecutor(6) as pool:
        assert sorted(map(str, pool.map(attempt, range(6)))) == ["2"] + ["None"] * 5


def test_replacing_with_the_same_uuid_again_is_success(bench, made):
    identity = fresh()
    fragment = bench.datasets.stage_fragment(made, rows("x"))
    for store in (bench, bench, bench.another_process()):
        landed = store.datasets.replace(made, [fragment], SCHEMA, {}, identity)
        assert landed.version == 2
    assert bench.datasets.latest_version("__manifest", None) == 2


def test_an_old_uuid_does_not_pass_for_a_later_version(bench, made):
    identity = fresh()
    second = replace(bench, made, rows("x"), identity=identity)
    replace(bench, second, rows("y"))
    landed = replace(bench, made, rows("x"), identity=identity)
    assert landed.version == 2
    assert bench.datasets.latest_version("__manifest", None) == 3


def test_what_is_missing_has_a_type(bench, made):
    with pytest.raises(VersionMissingError):
        bench.datasets.open_version("__manifest", None, 9)
    with pytest.raises(TableMissingError):
        bench.datasets.open_latest("nowhere", None)
    with pytest.raises(TableMissingError):
        bench.datasets.open_version("nowhere", None, 1)
    with pytest.raises(TableMissingError):
        bench.datasets.latest_version("__manifest", "no-branch")


def test_a_branch_starts_where_its_source_is_and_goes_its_own_way(bench, made):
    assert bench.datasets.create_branch("__manifest", None, 1, "draft.1") == 1
    draft = bench.datasets.open_latest("__manifest", "draft.1")
    assert keys(bench, draft) == ["a", "b", "c"]
    second = replace(bench, draft, rows("x"), keep=draft.fragments)
    assert (second.version, second.branch) == (2, "draft.1")
    assert keys(bench, second) == ["x", "a", "b", "c"]
    assert bench.datasets.latest_version("__manifest", None) == 1
    assert bench.datasets.create_branch("__manifest", "draft.1", 2, "draft.2") == 2
    assert keys(bench, bench.datasets.open_latest("__manifest", "draft.2")) == ["x", "a", "b", "c"]


def test_a_branch_name_is_taken_once(bench, made):
    bench.datasets.create_branch("__manifest", None, 1, "draft")
    with pytest.raises(AlreadyExistsError):
        bench.datasets.create_branch("__manifest", None, 1, "draft")


def test_a_branch_left_half_made_is_healed(bench, made):
    bench.datasets.create_branch("__manifest", None, 1, "draft")
    bench.control.delete("__manifest/_refs/branches/draft.json")
    other = bench.another_process()
    assert not other.control.exists("__manifest/_refs/branches/draft.json")
    assert other.datasets.create_branch("__manifest", None, 1, "draft") == 1
    assert other.control.exists("__manifest/_refs/branches/draft.json")
    assert keys(other, other.datasets.open_latest("__manifest", "draft")) == ["a", "b", "c"]


def test_a_ref_without_a_tree_is_made_whole(bench, made):
    bench.datasets.create_branch("__manifest", None, 1, "draft")
    bench.control.delete_prefix("__manifest/tree/draft")
    other = bench.another_process()
    assert other.datasets.create_branch("__manifest", None, 1, "draft") == 1
    assert keys(other, other.datasets.open_latest("__manifest", "draft")) == ["a", "b", "c"]


@pytest.mark.parametrize("name", ["draft", "team/ü.x-1"])
def test_a_deleted_branch_is_gone_and_its_name_free(bench, made, name):
    bench.datasets.create_branch("__manifest", None, 1, name)
    for _ in range(2):
        bench.datasets.delete_branch_files("__manifest", name)
    assert bench.control.list_keys(f"__manifest/tree/{name}") == ()
    assert bench.control.list_keys("__manifest/_refs") == ()
    with pytest.raises(TableMissingError):
        bench.datasets.open_latest("__manifest", name)
    assert keys(bench, made) == ["a", "b", "c"]
    assert bench.datasets.create_branch("__manifest", None, 1, name) == 1


@pytest.fixture
def on_s3_made(on_s3):
    return on_s3.datasets.create("__manifest", SCHEMA, [rows("a")], {})


def test_a_commit_whose_answer_was_lost_is_recognised(on_s3, on_s3_made, clean_s3_endpoint):
    fault = Fault(action="drop", when="after", operation="PUT", object_class="manifest_version")
    clean_s3_endpoint.add_fault(fault)
    assert replace(on_s3, on_s3_made, rows("x")).version == 2
    assert on_s3.datasets.latest_version("__manifest", None) == 2


def test_a_commit_that_nobody_can_look_for_has_an_unknown_outcome(on_s3, on_s3_made, clean_s3_endpoint):
    fragment = on_s3.datasets.stage_fragment(on_s3_made, rows("x"))
    clean_s3_endpoint.add_fault(Fault(action="error", status=503, object_class="manifest_version", times=FOREVER))
    identity = fresh()
    with pytest.raises(OutcomeUnknownError) as caught:
        on_s3.datasets.replace(on_s3_made, [fragment], SCHEMA, {}, identity)
    assert caught.value.effect is Effect.UNKNOWN
    assert (caught.value.details.version, caught.value.details.uuid) == (2, identity)
    clean_s3_endpoint.clear_faults()
    landed = on_s3.datasets.replace(on_s3_made, [fragment], SCHEMA, {}, identity)
    assert landed.version == 2


def test_a_commit_that_was_not_seen_to_land_is_not_called_failed(on_s3, on_s3_made, clean_s3_endpoint):
    clean_s3_endpoint.add_fault(Fault(action="error", status=500, operation="PUT", object_class="manifest_txn"))
    with pytest.raises(OutcomeUnknownError):
        replace(on_s3, on_s3_made, rows("x"))


def test_a_refused_commit_left_nothing_visible(on_s3, on_s3_made, clean_s3_endpoint):
    clean_s3_endpoint.add_fault(
        Fault(action="error", status=403, operation="PUT", object_class="manifest_txn", times=FOREVER)
    )
    with pytest.raises(StorageDeniedError) as caught:
        replace(on_s3, on_s3_made, rows("x"))
    assert caught.value.effect is Effect.STAGED
    clean_s3_endpoint.clear_faults()
    assert on_s3.datasets.latest_version("__manifest", None) == 1
