"""Merging one branch into another: what it publishes, what it leaves alone, and from where it goes on."""

from __future__ import annotations

import pytest
from tests.merge_graph import DRAFT, Template, change, conflicts_of, head_of, history_of, put
from tests.session_graph import open_session, read_graph

from omnigraph.errors import BranchMissingError, PreconditionFailedError, ReadOnlyError, UsageError, ValueFormatError
from omnigraph.history.merge import MergeOutcome, merge_branch, preview_merge, revert_commit
from omnigraph.txn.changes import Compaction
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.values import MAIN, BranchName

PERSON, TEAM, KNOWS = "node:Person", "node:Team", "edge:Knows"
SCHEMA = """
node Person { name: String @key  nick: String?  _row_notes: String? }
node Team { name: String @key }
edge Knows: Person -> Person
"""
SEED = """
{"type": "Person", "data": {"name": "a"}}
{"type": "Person", "data": {"name": "b"}}
{"type": "Team", "data": {"name": "red"}}
{"edge": "Knows", "from": "a", "to": "b", "data": {"id": "ab"}}
"""


def person(name, nick=None, notes=None):
    return {"name": name, "nick": nick, "_row_notes": notes}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return Template(tmp_path_factory.mktemp("merge"), SCHEMA, SEED)


@pytest.fixture
def session(template):
    with template.open() as opened:
        yield opened


def _pins(session, branch=MAIN):
    return {key: entry.pin for key, entry in session.snapshot(branch).state.tables.items()}


def _fork(session, name, source=MAIN):
    session.store.create_branch(BranchName(name), source=BranchName(source))


def test_a_source_whose_changes_cancel_out_still_makes_a_commit_but_moves_no_table(session):
    put(session, PERSON, {"c": person("c")}, DRAFT)
    put(session, PERSON, {"c": None}, DRAFT)
    pins, version = _pins(session), session.snapshot().state.version
    result = merge_branch(session, DRAFT, message="joined")
    assert (result.outcome, result.commit.message) == (MergeOutcome.FAST_FORWARD, "joined")
    assert _pins(session) == pins
    assert session.snapshot().state.version == version + 1
    assert merge_branch(session, DRAFT).outcome is MergeOutcome.ALREADY_UP_TO_DATE


def test_a_merge_leaves_the_source_and_untouched_tables_as_they_are(session):
    put(session, PERSON, {"c": person("c")}, DRAFT)
    before = _pins(session), _pins(session, DRAFT), head_of(session, DRAFT)
    merge_branch(session, DRAFT)
    assert (_pins(session, DRAFT), head_of(session, DRAFT)) == before[1:]
    moved = {key for key, pin in _pins(session).items() if pin != before[0][key]}
    assert moved == {PERSON}


def test_no_table_of_the_target_rests_on_a_line_of_the_source(session):
    _fork(session, "other")
    put(session, PERSON, {"c": person("c")}, DRAFT)
    for target in (MAIN, "other"):
        merge_branch(session, DRAFT, target)
        line = session.store.branch_incarnation(BranchName(DRAFT)).lance_branch
        assert not [pin for pin in _pins(session, target).values() if (pin.branch or "").startswith(line)]


def test_a_branch_takes_over_tables_of_main_that_it_left_alone_without_copying_a_row(session):
    put(session, PERSON, {"a": person("a", "x"), "c": person("c")})
    put(session, TEAM, {"blue": {"name": "blue"}}, DRAFT)
    put(session, TEAM, {"green": {"name": "green"}})
    merge_branch(session, MAIN, DRAFT)
    ours, theirs = _pins(session, DRAFT), _pins(session)
    assert (ours[PERSON] == theirs[PERSON], ours[TEAM] == theirs[TEAM]) == (True, False)
    assert read_graph(session, DRAFT)[PERSON] == read_graph(session)[PERSON]
    put(session, PERSON, {"d": person("d")}, DRAFT)
    assert "d" not in read_graph(session)[PERSON]
    assert set(read_graph(session, DRAFT)[PERSON]) == {"a", "b", "c", "d"}
    assert merge_branch(session, DRAFT).outcome is MergeOutcome.FAST_FORWARD
    assert read_graph(session) == read_graph(session, DRAFT)


def test_what_is_taken_over_is_validated_like_anything_else(session):
    change(session, 'delete Person where name = "b"')
    put(session, KNOWS, {"ba": {"src": "b", "dst": "a"}}, DRAFT)
    found = conflicts_of(session, MAIN, DRAFT)
    assert [(conflict.kind, conflict.entity_id) for conflict in found] == [("orphan_edge", "ba")]


def test_rows_that_the_merge_does_not_change_keep_their_versions(session):
    put(session, PERSON, {"a": person("a", "x"), "c": person("c")}, DRAFT)
    table = session.snapshot().table(PERSON)
    before = {row["id"]: row for row in table.read(with_row_meta=True).to_pylist()}
    merge_branch(session, DRAFT)
    table = session.snapshot().table(PERSON)
    after = {row["id"]: row for row in table.read(with_row_meta=True).to_pylist()}
    assert after["b"] == before["b"]
    assert after["a"]["_rowid"] == before["a"]["_rowid"]
    assert after["a"]["nick"] == "x"


def test_merging_there_and_back_is_a_fast_forward_each_time_and_then_up_to_date(session):
    put(session, PERSON, {"c": person("c")}, DRAFT)
    outcomes = [merge_branch(session, *pair).outcome for pair in ((DRAFT, MAIN), (MAIN, DRAFT), (DRAFT, MAIN))]
    assert outcomes == [MergeOutcome.FAST_FORWARD] * 3
    assert merge_branch(session, DRAFT, MAIN).commit is None
    assert read_graph(session) == read_graph(session, DRAFT)


def test_a_second_merge_takes_only_what_came_after_the_first(session):
    put(session, PERSON, {"c": person("c")}, DRAFT)
    merge_branch(session, DRAFT)
    put(session, PERSON, {"c": person("c", "changed on main")})
    put(session, PERSON, {"d": person("d")}, DRAFT)
    result = merge_branch(session, DRAFT)
    assert [(table.inserted, table.updated) for table in result.tables] == [(1, 0)]
    assert read_graph(session)[PERSON]["c"]["nick"] == "changed on main"


def test_an_undone_change_does_not_come_back_through_crossing_merges(session):
    put(session, PERSON, {"a": person("a", "from draft")}, DRAFT)
    merge_branch(session, DRAFT)
    put(session, PERSON, {"a": person("a")})
    merge_branch(session, MAIN, DRAFT)
    put(session, PERSON, {"d": person("d")}, DRAFT)
    merge_branch(session, DRAFT)
    assert read_graph(session)[PERSON]["a"]["nick"] is None
    assert read_graph(session) == read_graph(session, DRAFT)


def test_siblings_and_grandchildren_merge_with_what_they_really_share(session):
    put(session, PERSON, {"c": person("c")}, DRAFT)
    _fork(session, "child", DRAFT)
    _fork(session, "sibling")
    put(session, PERSON, {"d": person("d")}, "child")
    put(session, PERSON, {"e": person("e")}, "sibling")
    assert merge_branch(session, "child", "sibling").outcome is MergeOutcome.MERGED
    assert set(read_graph(session, "sibling")[PERSON]) == {"a", "b", "c", "d", "e"}
    assert merge_branch(session, "child").outcome is MergeOutcome.FAST_FORWARD
    assert set(read_graph(session)[PERSON]) == {"a", "b", "c", "d"}
    preview = preview_merge(session, "sibling")
    assert preview.base == head_of(session, "child")


def test_the_base_may_lie_on_a_branch_other_than_main(session):
    put(session, PERSON, {"c": person("c")}, DRAFT)
    base = head_of(session, DRAFT)
    _fork(session, "child", DRAFT)
    put(session, PERSON, {"c": person("c", "child")}, "child")
    put(session, PERSON, {"d": person("d")}, DRAFT)
    result = merge_branch(session, "child", DRAFT)
    assert (result.base, result.outcome) == (base, MergeOutcome.MERGED)
    assert read_graph(session, DRAFT)[PERSON]["c"]["nick"] == "child"


def test_a_branch_that_took_from_a_deleted_one_still_merges(session):
    _fork(session, "third")
    put(session, PERSON, {"c": person("c"), "a": person("a", "x")}, DRAFT)
    merge_branch(session, DRAFT)
    merge_branch(session, DRAFT, "third")
    session.store.delete_branch(BranchName(DRAFT))
    put(session, PERSON, {"d": person("d")}, "third")
    assert merge_branch(session, "third").outcome is MergeOutcome.MERGED
    assert read_graph(session) == read_graph(session, "third")
    put(session, PERSON, {"e": person("e")}, "third")
    assert merge_branch(session, "third").outcome is MergeOutcome.MERGED


def test_the_same_change_on_both_sides_is_no_conflict_and_no_write(session):
    rows = {"a": person("a", "same"), "c": person("c"), "b": None}
    put(session, KNOWS, {"ab": None})
    merge_branch(session, MAIN, DRAFT)
    put(session, PERSON, rows, DRAFT)
    put(session, PERSON, rows)
    pins = _pins(session)
    result = merge_branch(session, DRAFT)
    assert (result.outcome, result.tables, _pins(session)) == (MergeOutcome.MERGED, (), pins)


def test_null_and_an_empty_text_are_different_and_odd_property_names_count(session):
    put(session, PERSON, {"a": person("a", ""), "b": person("b", None, "note")}, DRAFT)
    put(session, PERSON, {"c": person("c")})
    merge_branch(session, DRAFT)
    rows = read_graph(session)[PERSON]
    assert (rows["a"]["nick"], rows["b"]["_row_notes"]) == ("", "note")


def test_compaction_of_either_side_is_no_change(session):
    for number in range(3):
        put(session, PERSON, {f"m{number}": person(f"m{number}")})
    merge_branch(session, MAIN, DRAFT)
    for branch in (MAIN, DRAFT):
        branch_writer = session.store.branch_writer(BranchName(branch))
        txn = branch_writer.begin(WriteKind.OPTIMIZE)
        txn.change(Compaction(table_key=PERSON))
        branch_writer.commit(txn)
    put(session, PERSON, {"m1": person("m1", "new")}, DRAFT)
    result = merge_branch(session, DRAFT)
    assert [(table.inserted, table.updated, table.deleted) for table in result.tables] == [(0, 1, 0)]
    assert read_graph(session) == read_graph(session, DRAFT)


def test_a_preview_tells_the_counts_and_changes_nothing(session):
    put(session, PERSON, {"a": person("a", "x"), "c": person("c")}, DRAFT)
    put(session, KNOWS, {"ab": None}, DRAFT)
    before = history_of(session), read_graph(session)
    shown = preview_merge(session, DRAFT).to_json()
    assert (history_of(session), read_graph(session)) == before
    assert shown["outcome"] == "fast_forward"
    assert [
        (table["entity_kind"], table["type_name"], table["inserted"], table["updated"], table["deleted"])
        for table in shown["tables"]
    ] == [("edge", "Knows", 0, 0, 1), ("node", "Person", 1, 1, 0)]
    assert shown["conflicts"] == []
    done = merge_branch(session, DRAFT, actor="ann").to_json()
    assert (done["tables"], done["actor_id"]) == (shown["tables"], "ann")
    assert done["graph_commit_id"] == head_of(session)


def test_a_branch_is_not_merged_into_itself_nor_with_one_that_is_not_there(session):
    with pytest.raises(UsageError, match="cannot merge a branch into itself"):
        merge_branch(session, MAIN, " main ")
    for pair in (("nowhere", MAIN), (MAIN, "nowhere")):
        with pytest.raises(BranchMissingError):
            merge_branch(session, *pair)
    with pytest.raises(ValueFormatError):
        merge_branch(session, "__schema_apply_lock__")


def test_the_target_must_be_at_the_expected_commit_even_when_there_is_nothing_to_merge(session):
    stale = head_of(session)
    change(session, 'insert Person { name: "c" }')
    with pytest.raises(PreconditionFailedError):
        merge_branch(session, DRAFT, expected_head=stale)
    put(session, PERSON, {"d": person("d")}, DRAFT)
    with pytest.raises(PreconditionFailedError):
        merge_branch(session, DRAFT, expected_head=stale)
    assert merge_branch(session, DRAFT, expected_head=head_of(session)).commit is not None


def test_a_graph_that_is_open_for_reading_can_only_look(template):
    with template.open() as session:
        put(session, PERSON, {"c": person("c")}, DRAFT)
        root = session.store.tables.datasets.storage.root
        with open_session(root, mode="read_only") as reader:
            assert preview_merge(reader, DRAFT).outcome is MergeOutcome.FAST_FORWARD
            with pytest.raises(ReadOnlyError):
                merge_branch(reader, DRAFT)


def test_a_branch_that_others_deleted_and_made_again_takes_merges_reverts_and_schemas(session):
    merge_branch(session, MAIN, DRAFT)
    with open_session(session.store.tables.datasets.storage.root) as other:
        other.store.delete_branch(BranchName(DRAFT))
        other.store.create_branch(BranchName(DRAFT))
    put(session, PERSON, {"c": person("c")})
    merged = merge_branch(session, MAIN, DRAFT)
    assert merged.outcome is MergeOutcome.FAST_FORWARD
    with open_session(session.store.tables.datasets.storage.root) as other:
        other.store.delete_branch(BranchName(DRAFT))
        other.store.create_branch(BranchName(DRAFT))
        put(other, PERSON, {"d": person("d")}, DRAFT)
        reverted = head_of(other, DRAFT)
    assert revert_commit(session, reverted, branch=DRAFT).commit is not None
    with open_session(session.store.tables.datasets.storage.root) as other:
        other.store.delete_branch(BranchName(DRAFT))
        other.store.create_branch(BranchName(DRAFT))
    assert session.apply_schema(SCHEMA + "node City { name: String @key }", branch=DRAFT).applied
