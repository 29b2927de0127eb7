"""Applying a schema beside other writers and other branches, and what a hard drop leaves of the past."""

import shutil

import pytest
from tests.session_graph import commit_ids, create_graph, open_session, read_graph

from omnigraph.catalog.migration import plan_migration
from omnigraph.engine.schema.apply import apply_schema, check_rows, rows_to_check
from omnigraph.errors import (
    ConstraintViolationError,
    ExpectedVersionMismatchError,
    PreconditionFailedError,
    SchemaMovedError,
    TableRef,
    VersionMissingError,
)
from omnigraph.lang.pg import parse_schema
from omnigraph.store.staging import IndexBuild
from omnigraph.txn.changes import IndexBuilds
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.values import MAIN, BranchName

SCHEMA = """
node Person { name: String @key  age: I32?  email: String? }
node City { name: String @key }
edge Knows: Person -> Person { since: Date? }
"""
SEED = """
{"type": "Person", "data": {"name": "Ada", "age": 36, "email": "a@x"}}
{"type": "Person", "data": {"name": "Bob", "email": "b@x"}}
{"type": "City", "data": {"name": "Rome"}}
{"edge": "Knows", "from": "Ada", "to": "Bob", "data": {"id": "k1", "since": "2020-05-01"}}
"""
NICKED = SCHEMA.replace("age: I32?", "age: I32?  nick: String?")
UNIQUE = SCHEMA.replace("email: String?", "email: String? @unique")
AGELESS = SCHEMA.replace("age: I32?", "")
INSERT_BOB = 'query q() { insert Person { name: "Bo", email: "b@x" } }'


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    root = tmp_path_factory.mktemp("template") / "graph"
    create_graph(root, SCHEMA, SEED)
    return root


@pytest.fixture
def session(template, tmp_path):
    shutil.copytree(template, tmp_path / "graph")
    with open_session(tmp_path / "graph") as session:
        yield session


def during(monkeypatch, session, act, branch=MAIN):
    """Let ``act`` happen once, after the next commit has resolved its world and before it is published."""
    branch_writer = session.store.branch_writer(BranchName(branch))
    commit, left = branch_writer.commit, [act]

    def commit_late(txn):
        if left:
            left.pop()()
        return commit(txn)

    monkeypatch.setattr(branch_writer, "commit", commit_late)


def test_rows_written_meanwhile_to_a_table_that_is_reshaped_are_a_conflict(session, monkeypatch):
    during(monkeypatch, session, lambda: session.mutate('query q() { insert Person { name: "Eve" } }'))
    with pytest.raises(ExpectedVersionMismatchError) as caught:
        session.apply_schema(NICKED)
    assert caught.value.details.table_key == "node:Person"
    assert session.snapshot().state.schema.source == SCHEMA
    session.apply_schema(NICKED)
    assert sorted(read_graph(session)["node:Person"]) == ["Ada", "Bob", "Eve"]


def declare(session, text):
    """Apply a schema as a cluster does: it is to be in force whatever comes between."""
    return apply_schema(session.store, BranchName(MAIN), text, catalog_of=session.catalogs.get, is_declared=True)


def test_declared_schema_is_decided_again_on_rows_written_meanwhile(session, monkeypatch):
    """A graph that is served is written to all the time: giving up would be giving up every time."""
    during(monkeypatch, session, lambda: session.mutate('query q() { insert Person { name: "Eve" } }'))
    result = declare(session, NICKED)
    assert commit_ids(session)[0] == result.commit.id
    assert sorted(read_graph(session)["node:Person"]) == ["Ada", "Bob", "Eve"]
    assert session.snapshot().state.schema.source == NICKED


def test_declared_rule_is_checked_on_rows_written_meanwhile(session, monkeypatch):
    during(monkeypatch, session, lambda: session.mutate(INSERT_BOB))
    with pytest.raises(ConstraintViolationError, match=r"@unique violation on Person\.email: value 'b@x'"):
        declare(session, UNIQUE)
    assert session.snapshot().state.schema.source == SCHEMA


def test_rows_written_meanwhile_to_another_table_are_no_conflict(session, monkeypatch):
    during(monkeypatch, session, lambda: session.mutate('query q() { insert City { name: "Oslo" } }'))
    result = session.apply_schema(NICKED)
    assert commit_ids(session)[0] == result.commit.id
    assert sorted(read_graph(session)["node:City"]) == ["Oslo", "Rome"]


def test_a_row_that_breaks_a_rule_cannot_slip_in_while_the_rule_is_added(session, monkeypatch):
    during(monkeypatch, session, lambda: session.mutate(INSERT_BOB))
    with pytest.raises(ExpectedVersionMismatchError):
        session.apply_schema(UNIQUE)
    with pytest.raises(ConstraintViolationError, match=r"@unique violation on Person\.email: value 'b@x'"):
        session.apply_schema(UNIQUE)


def test_a_row_made_for_the_earlier_schema_is_judged_by_the_later_one(session, monkeypatch):
    during(monkeypatch, session, lambda: session.apply_schema(UNIQUE))
    with pytest.raises(ConstraintViolationError, match="@unique violation"):
        session.mutate(INSERT_BOB)
    assert sorted(read_graph(session)["node:Person"]) == ["Ada", "Bob"]


def test_of_two_schemas_applied_at_once_one_is_refused(session, monkeypatch):
    during(monkeypatch, session, lambda: session.apply_schema(UNIQUE))
    with pytest.raises(SchemaMovedError):
        session.apply_schema(SCHEMA.replace("node City", "node Town { name: String @key }\nnode City"))
    assert session.snapshot().state.schema.source == UNIQUE


@pytest.mark.parametrize("apply", [declare, lambda session, text: session.apply_schema(text)])
def test_schema_that_somebody_else_brings_into_force_meanwhile_is_no_conflict(session, monkeypatch, apply):
    during(monkeypatch, session, lambda: session.apply_schema(NICKED))
    result = apply(session, NICKED)
    assert not result.applied
    assert result.commit is None
    assert session.snapshot().state.schema.source == NICKED
    assert result.manifest_version == session.snapshot().state.version
    assert len(commit_ids(session)) == 3


def test_a_demanded_head_is_checked_even_when_there_is_nothing_to_do(session):
    first = commit_ids(session)[-1]
    for text in (SCHEMA, NICKED):
        with pytest.raises(PreconditionFailedError):
            session.apply_schema(text, expected_head=first)
    assert session.apply_schema(NICKED, expected_head=commit_ids(session)[0]).applied


def test_a_renamed_type_keeps_its_table(session):
    before = session.snapshot().state.tables["node:Person"]
    text = SCHEMA.replace("node Person", 'node Human @rename_from("Person")').replace(
        "Person -> Person", "Human -> Human"
    )
    session.apply_schema(text)
    after = session.snapshot().state.tables
    assert "node:Person" not in after
    assert (after["node:Human"].pin, after["node:Human"].object_id) == (before.pin, before.object_id)
    assert session.snapshot().state.tombstones == ()


def test_a_branch_has_a_schema_of_its_own(session):
    session.store.create_branch(BranchName("draft"))
    session.apply_schema(NICKED, branch="draft")
    session.mutate('query q() { insert Person { name: "Eve", nick: "E" } }', branch="draft")
    assert session.catalog().nodes["Person"].get("nick") is None
    assert read_graph(session, "draft")["node:Person"]["Eve"]["nick"] == "E"
    assert sorted(read_graph(session)["node:Person"]) == ["Ada", "Bob"]


def test_a_hard_drop_on_a_branch_takes_nothing_from_the_others(session):
    session.store.create_branch(BranchName("draft"))
    earlier = session.snapshot()
    result = session.apply_schema(AGELESS, branch="draft", allow_data_loss=True)
    assert result.warnings == ()
    assert earlier.table("node:Person").row_count == 2
    assert "age" in read_graph(session)["node:Person"]["Ada"]


def test_a_hard_drop_spares_what_another_branch_still_names(session):
    first = session.snapshot()
    session.mutate('query q() { insert Person { name: "Eve" } }')
    session.store.create_branch(BranchName("draft"))
    session.mutate('query q() { insert Person { name: "Fay" } }')
    last = session.snapshot()
    session.apply_schema(AGELESS, allow_data_loss=True)
    assert sorted(read_graph(session, "draft")["node:Person"]) == ["Ada", "Bob", "Eve"]
    assert "age" in read_graph(session, "draft")["node:Person"]["Ada"]
    for snapshot in (first, last):
        with pytest.raises(VersionMissingError):
            snapshot.table("node:Person")
        assert snapshot.table("node:City").row_count == 1
    session.mutate('query q() { insert Person { name: "Gil" } }', branch="draft")
    assert sorted(read_graph(session)["node:Person"]) == ["Ada", "Bob", "Eve", "Fay"]


def test_a_hard_drop_of_a_type_keeps_its_last_version_until_cleanup(session):
    first = session.snapshot()
    session.mutate('query q() { insert City { name: "Oslo" } }')
    last = session.snapshot()
    session.apply_schema(SCHEMA.replace("node City { name: String @key }", ""), allow_data_loss=True)
    assert last.table("node:City").row_count == 2
    with pytest.raises(VersionMissingError):
        first.table("node:City")
    assert [stone.table_key for stone in session.snapshot().state.tombstones] == ["node:City"]


def test_the_schema_is_in_force_although_reclaiming_failed(session, monkeypatch):
    earlier = session.snapshot()

    def fail(*_):
        raise VersionMissingError("lost", details=TableRef(location="nodes/1"))

    monkeypatch.setattr(session.store.tables, "reclaim_older", fail)
    result = session.apply_schema(AGELESS, allow_data_loss=True)
    assert result.applied
    assert result.warnings == ("could not reclaim earlier versions: lost",)
    assert earlier.table("node:Person").row_count == 2


def test_only_the_first_offenders_are_described_and_all_are_counted(session):
    rows = "\n".join(f'insert Person {{ name: "p{number}", age: {number} }}' for number in range(130))
    session.mutate(f"query q() {{ {rows} }}")
    strict = SCHEMA.replace("email: String?", "email: String  @range(age, 200..)")
    with pytest.raises(ConstraintViolationError) as caught:
        session.apply_schema(strict)
    assert (caught.value.details.total, len(caught.value.details.items)) == (261, 100)
    assert caught.value.message.startswith("[OG-MF-104] non-nullable property 'email'")
    assert {item.rule for item in caught.value.details.items} == {"required"}


def test_only_the_columns_of_the_rules_to_be_added_are_read(session):
    accepted = session.catalog()
    plan = plan_migration(accepted, parse_schema(UNIQUE.encode()))
    checks = rows_to_check(accepted, plan)
    assert [check.table_key for check in checks] == ["node:Person"]
    check_rows(checks, session.snapshot())
    assert rows_to_check(accepted, plan_migration(accepted, parse_schema(NICKED.encode()))) == []


def test_rows_with_an_index_are_found_after_their_column_was_renamed(session):
    branch_writer = session.store.branch_writer(BranchName(MAIN))
    txn = branch_writer.begin(WriteKind.ENSURE_INDICES)
    builds = (
        IndexBuild(column="id", kind="btree", name="id_idx"),
        IndexBuild(column="age", kind="btree", name="age_idx"),
    )
    txn.change(IndexBuilds(table_key="node:Person", builds=builds))
    branch_writer.commit(txn)
    session.apply_schema(SCHEMA.replace("age: I32?", 'years: I32? @rename_from("age")'))
    session.mutate("query q() { update Person set { years: 37 } where years = 36 }")
    assert read_graph(session)["node:Person"]["Ada"]["years"] == 37
    table = session.snapshot().table("node:Person")
    assert {index.columns for index in table.indexes()} == {("id",), ("years",)}


def test_numbers_are_widened_on_a_branch_while_main_keeps_them(session):
    wide = SCHEMA.replace("age: I32?", "age: I64? @index")
    session.store.create_branch(BranchName("wide"))
    session.mutate('query q() { insert Person { name: "Big", age: 7 } }')
    before = read_graph(session)
    result = session.apply_schema(wide, branch="wide")
    assert [step.kind for step in result.steps] == ["widen_property", "add_constraint"]
    session.mutate('query q() { insert Person { name: "Big", age: 5000000000 } }', branch="wide")
    assert read_graph(session) == before
    assert read_graph(session, "wide")["node:Person"]["Ada"]["age"] == 36
    assert read_graph(session, "wide")["node:Person"]["Big"]["age"] == 5_000_000_000
