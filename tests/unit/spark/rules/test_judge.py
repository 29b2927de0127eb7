"""What is found in keys files is what the embedded evaluator finds in rows."""

import os
import pickle
import tempfile
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.constraint_graph import catalog_of
from tests.prop.test_constraints import CATALOG, STORED, changes
from tests.written_graph import change_and_written, embedded_findings, violations_of

from omnigraph.engine.constraints.kernel import KernelSettings
from omnigraph.errors import (
    ConstraintViolationError,
    KeyExistsError,
    MemoryBudgetError,
    TableMissingError,
    Violation,
    Violations,
)
from omnigraph.spark.keys import KeysFile
from omnigraph.spark.rules import Question, RuleSettings, check_change, judge_here
from omnigraph.spark.runner import InProcessRunner

pytestmark = pytest.mark.more

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"
GRAPH = catalog_of("""
node Person { name: String @key  email: String? @unique }
node Box { size: I32?  day: Date?  @unique(size, day) }
edge Owns: Person -> Box @card(1..2)
edge Knows: Person -> Person
""")
STORE = {
    "Person": [{"id": name, "name": name, "email": f"{name}@x"} for name in ("ada", "bob", "cy")],
    "Box": [{"id": f"b{at}", "size": at, "day": 7} for at in range(4)],
    "Owns": [{"id": "o1", "src": "ada", "dst": "b1"}, {"id": "o2", "src": "bob", "dst": "b2"}],
    "Knows": [{"id": "k1", "src": "ada", "dst": "bob"}],
}


def box(identifier, size=None, day=None):
    return {"id": identifier, "size": size, "day": day}


def joins(identifier, src, dst):
    return {"id": identifier, "src": src, "dst": dst}


@pytest.fixture
def written(tmp_path):
    """Makes a change of parts on the stored graph, after a trip to another process."""

    def make(*parts, stored=STORE):
        _, made = change_and_written(tmp_path, GRAPH, [(*part, {})[:3] for part in parts], stored)
        return pickle.loads(pickle.dumps(made))  # noqa: S301 - our own bytes

    return make


# So few rows in each that what has to be compared comes from several.
BUCKETS = RuleSettings(bucket_rows=3, split_rows=4)


@given(stored=STORED, change=changes())
@settings(max_examples=300 if LONG else 12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_keys_files_tell_what_rows_tell(stored, change):
    parts = [(name, rows, {"replaces_all": replaces_all}) for name, (rows, _, replaces_all) in change.items() if rows]
    with tempfile.TemporaryDirectory() as root:
        whole, made = change_and_written(root, CATALOG, parts, stored)
        verdict = judge_here(made, Question(limit=1000))
        expected = embedded_findings(CATALOG, whole, stored)
    if expected.total or isinstance(verdict.error, ConstraintViolationError):
        assert violations_of(verdict) == expected
        assert verdict.error.message == expected.items[0].message


@given(stored=STORED, change=changes(), strict=st.booleans())
@settings(max_examples=60 if LONG else 6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_buckets_tell_what_all_keys_in_one_place_tell(stored, change, strict):
    parts = [
        (name, rows, {"replaces_all": replaces_all, "strict": strict and not replaces_all})
        for name, (rows, _, replaces_all) in change.items()
    ]
    with tempfile.TemporaryDirectory() as root:
        _, made = change_and_written(root, CATALOG, parts, stored)
        assert_buckets_agree(made)


def assert_buckets_agree(made):
    """Judge a change in buckets and in one piece; return what the buckets said."""
    whole = judge_here(made, Question(limit=4, keeps_problems=True, wants_superseded=True))
    found = check_change(made, InProcessRunner(), limit=4, keeps_problems=True, settings=BUCKETS)
    assert found.error == whole.error
    assert list(found.every_problem(made.scratch)) == list(whole.every_problem(made.scratch))
    assert superseded_rows(made, found) == superseded_rows(made, whole)
    return found


def superseded_rows(made, verdict):
    rows = {
        key: sorted(
            row for name in some.files for batch in made.scratch.read_arrow(name) for row in batch["row"].to_pylist()
        )
        for key, some in verdict.superseded.items()
    }
    assert {key: len(some) for key, some in rows.items()} == {k: some.rows for k, some in verdict.superseded.items()}
    return rows


@pytest.mark.parametrize("few", [10_000, 0], ids=["asked one by one", "compared while they stream by"])
def test_stored_rows_are_met_whichever_way_they_are_read(tmp_path, monkeypatch, few):
    monkeypatch.setattr("omnigraph.spark.rules.engine._FEW", few)
    parts = [
        ("Box", [box("n1", 1, 7), box("n2", 5, 7), box("b2", 2, 7)], {}),
        ("Owns", [joins("o1", "cy", "b3"), joins("o3", "bob", "b9"), joins("o4", "bob", "n1")], {}),
        ("Person", [{"id": "di", "name": "di", "email": "ada@x"}], {}),
    ]
    whole, made = change_and_written(tmp_path, GRAPH, parts, STORE)
    expected = embedded_findings(GRAPH, whole, STORE)
    assert violations_of(judge_here(made)) == expected
    assert [(item.rule, item.source, item.line) for item in expected.items] == [
        ("unique", "a.jsonl", 1),
        ("unique", "a.jsonl", 1),
        ("endpoint", "a.jsonl", 2),
        ("cardinality", None, None),
        ("cardinality", "a.jsonl", 2),
    ]


def test_an_overwrite_that_drops_nodes_orphans_the_edges_it_leaves(tmp_path):
    parts = [("Person", [{"id": "ada", "name": "ada"}], {"replaces_all": True})]
    whole, made = change_and_written(tmp_path, GRAPH, parts, STORE)
    verdict = judge_here(made)
    assert violations_of(verdict) == embedded_findings(GRAPH, whole, STORE)
    assert [item.entity_id for item in verdict.error.details.items] == ["k1", "o2"]


def test_an_id_that_exists_is_told_before_any_rule_that_is_broken(written):
    rows = [box("n1", 1, 7), box("b2"), box("n3"), box("b0"), box("b2")]
    made = written(("Box", rows, {"strict": True}))
    verdict = judge_here(made, Question(keeps_problems=True))
    assert isinstance(verdict.error, KeyExistsError)
    assert verdict.error.message == "a.jsonl:2: table 'node:Box' already has this id: 'b2'"
    assert (verdict.error.details.ids, verdict.error.details.count) == (("b2", "b0", "b2"), 3)
    places = [(item.entity_id, item.source, item.line) for item in verdict.every_problem(made.scratch)]
    assert places == [("b2", "a.jsonl", 2), ("b0", "b.jsonl", 4), ("b2", "b.jsonl", 5)]


@pytest.mark.parametrize("mode", ["strict", "replaces_all"])
def test_an_id_that_stands_twice_is_told_after_the_rules(written, mode):
    twice = [box("n1", 1), box("n2"), box("n3"), box("n2"), box("n1")]
    alone = {"Box": STORE["Box"]}
    verdict = judge_here(written(("Box", twice, {mode: True}), stored=alone), Question(keeps_problems=True))
    assert isinstance(verdict.error, KeyExistsError)
    assert verdict.error.message == "a.jsonl:1: table 'node:Box' already has this id: 'n1'"
    assert (verdict.error.details.ids, verdict.error.details.count) == (("n1", "n2"), 2)
    broken = judge_here(written(("Box", [*twice, box("n4", 8, 8), box("n5", 8, 8)], {mode: True}), stored=alone))
    assert isinstance(broken.error, ConstraintViolationError)


def test_fresh_ids_are_not_looked_for(written):
    assert judge_here(written(("Box", [box("b1")], {"strict": True, "has_fresh_ids": True}))).error is None


def test_few_violations_are_described_all_are_counted_and_written_down_on_request(written):
    people = [{"id": f"p{at}", "name": f"p{at}", "email": "same"} for at in range(30)]
    own = Violation(rule="range", type_name="Person", message="of a row by itself")
    made = written(("Person", people), ("Knows", [joins("k", "x", "y")]))
    before = Violations(items=(own,), total=5)
    verdict = check_change(made, InProcessRunner(), limit=4, before=before, keeps_problems=True)
    assert verdict.error.message == "of a row by itself"
    assert verdict.error.details.total == 5 + 29 + 2
    assert [item.entity_id for item in verdict.error.details.items] == [None, "p1", "p2", "p3"]
    every = list(verdict.every_problem(made.scratch))
    assert [item.entity_id for item in every] == [*(f"p{at}" for at in range(1, 30)), "k", "k"]
    assert (every[0].line, every[0].property, every[0].value) == (2, "email", "same")


def test_rows_that_later_ones_replace_are_written_down(written):
    made = written(("Box", [box("n1", 1), box("n2"), box("n1", 2), box("n1", 3)]))
    verdict = check_change(made, InProcessRunner())
    assert verdict.error is None
    (found,) = verdict.superseded.values()
    rows = [row for name in found.files for batch in made.scratch.read_arrow(name) for row in batch["row"].to_pylist()]
    assert [made.places.of(row) for row in rows] == [("a.jsonl", 1), ("b.jsonl", 3)]
    assert found.rows == 2


def test_a_check_that_passes_its_memory_is_refused(written):
    people = [{"id": f"{at:030}", "name": f"{at:030}", "email": f"{at:050}"} for at in range(60_000)]
    small = RuleSettings(kernel=KernelSettings(memory_limit_bytes=1 << 20))
    with pytest.raises(MemoryBudgetError, match="more memory than the limit"):
        judge_here(written(("Person", people), stored={}), settings=small)


def test_a_keys_file_that_is_lost_is_told_as_what_it_is(written):
    made = written(("Box", [box("n1")]))
    lost = KeysFile(table_key="node:Box", name="nowhere", rows=1)
    types = {key: replace(part, files=(lost,)) for key, part in made.types.items()}
    with pytest.raises(TableMissingError, match="nowhere"):
        judge_here(replace(made, types=types))


def test_an_edge_that_moves_counts_for_neither_of_its_old_sources_in_any_bucket(tmp_path):
    # Stored at ada, first written at bob, at last at cy: the three are in buckets of their own.
    moved = [joins("o1", "bob", "b1"), joins("o1", "cy", "b1"), joins("o5", "bob", "b3"), joins("o6", "bob", "b0")]
    whole, made = change_and_written(tmp_path, GRAPH, [("Owns", moved, {})], STORE)
    found = assert_buckets_agree(made)
    assert violations_of(judge_here(made, Question(limit=100))) == embedded_findings(GRAPH, whole, STORE)
    assert [(item.rule, item.entity_id, item.line) for item in found.error.details.items] == [
        ("cardinality", None, None),
        ("cardinality", "o5", 3),
    ]


def test_a_value_is_free_in_every_bucket_when_its_holder_gives_it_up(tmp_path):
    # ada's stored address goes to di, and an address that a later row takes back is nobody's.
    people = [("ada", "new@x"), ("bob", "dropped@x"), ("bob", "bob@x"), ("di", "ada@x"), ("ed", "free@x")]
    rows = [{"id": name, "name": name, "email": email} for name, email in people]
    repeated = [row for row in rows if row["id"] != "bob" or row["email"] == "bob@x"]
    _, made = change_and_written(tmp_path, GRAPH, [("Person", repeated, {})], STORE)
    assert assert_buckets_agree(made).error is None
    whole, clashing = change_and_written(tmp_path, GRAPH, [("Person", rows, {})], STORE)
    assert_buckets_agree(clashing)
    assert violations_of(judge_here(clashing)) == embedded_findings(GRAPH, whole, STORE)


@pytest.mark.parametrize("options", [{"has_fresh_ids": True}, {"strict": True}, {"replaces_all": True}, {}])
def test_every_way_to_write_is_judged_alike_in_buckets(tmp_path, options):
    parts = [
        ("Box", [box("n1", 1, 7), box("n2", 5, 7), box("n3", 5, 7), box("n4")], options),
        ("Owns", [joins(f"m{at}", "ada" if at % 2 else "nobody", f"n{at}") for at in range(6)], options),
        ("Knows", [joins(f"w{at}", "bob", "cy" if at % 3 else "x") for at in range(6)], {"has_fresh_ids": True}),
    ]
    _, made = change_and_written(tmp_path, GRAPH, parts, STORE)
    assert assert_buckets_agree(made).error is not None


def test_no_row_at_all_is_judged_alike_in_buckets(tmp_path):
    parts = [("Person", [], {"replaces_all": True}), ("Box", [box(f"n{at}") for at in range(5)], {})]
    _, made = change_and_written(tmp_path, GRAPH, parts, STORE)
    assert [item.rule for item in assert_buckets_agree(made).error.details.items] == ["orphan"] * 4
