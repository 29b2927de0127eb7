"""Branches whose schemas differ are merged in one commit, schema, tables and rows, or refused with every conflict."""

from __future__ import annotations

import pytest
from tests.merge_graph import DRAFT, Template, change, conflicts_of, head_of, history_of, put
from tests.session_graph import create_graph, open_session, read_graph

from omnigraph.engine.past import ColumnReading
from omnigraph.engine.query.options import QueryOptions
from omnigraph.engine.query.runner import ReadCall
from omnigraph.errors import MergeConflictsError
from omnigraph.history.feed.blame import blame
from omnigraph.history.merge import merge_branch, preview_merge, revert_commit
from omnigraph.values import MAIN, BranchName

PERSON, CITY, KNOWS = "node:Person", "node:City", "edge:Knows"
SCHEMA = """
node Person { name: String @key  age: I32?  nick: String?  note: String? }
node City { name: String @key }
edge Knows: Person -> Person { since: I32? }
"""
SEED = """
{"type": "Person", "data": {"name": "ann", "age": 1, "nick": "a"}}
{"type": "Person", "data": {"name": "bob", "age": 2, "nick": "b"}}
{"type": "Person", "data": {"name": "cem"}}
{"type": "City", "data": {"name": "rome"}}
{"edge": "Knows", "from": "ann", "to": "bob", "data": {"id": "ab", "since": 7}}
"""


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return Template(tmp_path_factory.mktemp("schemas"), SCHEMA, SEED)


@pytest.fixture
def session(template):
    with template.open() as session:
        yield session


def schema(person="nick: String?  note: String?", *, age="I32?", rest=""):
    """The schema with other properties of a person, and more behind it."""
    return f"""
    node Person {{ name: String @key  age: {age}  {person} }}
    node City {{ name: String @key }}
    edge Knows: Person -> Person {{ since: I32? }}
    {rest}
    """


def rows(session, key=PERSON, branch=MAIN):
    return read_graph(session, branch)[key]


def refused(session, **options):
    """The conflicts of a merge, which a preview tells too and which changes nothing."""
    before = history_of(session)
    found = conflicts_of(session, **options)
    assert history_of(session) == before
    assert preview_merge(session, DRAFT, **options).conflicts == found
    return [(one.kind, one.type_key, one.entity_id, one.properties) for one in found]


def test_a_source_that_changed_its_schema_is_merged_into_a_target_that_stood_still(session):
    text = schema(
        'alias: String? @rename_from("nick")  level: I32 @default(3)',
        age="I64?",
        rest="node Team { name: String @key  size: I32? }  edge In: Person -> Team",
    )
    session.apply_schema(text, branch=DRAFT)
    change(session, 'insert Team { name: "red", size: 4 } insert In { from: "ann", to: "red" }', DRAFT)
    change(session, 'update Person set { alias: "A", level: 9 } where name = "ann"', DRAFT)
    before = history_of(session)
    told = [step.describe() for step in preview_merge(session, DRAFT).schema_steps]
    done = merge_branch(session, DRAFT)
    kinds = [step["kind"] for step in done.to_json()["schema_steps"]]
    assert sorted(set(kinds)) == ["add_property", "add_type", "drop_property", "rename_property", "widen_property"]
    assert [line.removeprefix("  schema: ") for line in done.lines() if "schema" in line] == told
    assert done.outcome.value == "fast_forward"
    assert len(history_of(session)) == len(before) + 1
    assert read_graph(session) == read_graph(session, DRAFT)
    assert session.snapshot().state.schema.source == text
    assert rows(session)["bob"] == {"name": "bob", "age": 2, "alias": "b", "level": 3}
    assert merge_branch(session, DRAFT).commit is None
    change(session, 'insert Person { name: "dan", alias: "d" }')
    assert rows(session)["dan"]["level"] == 3


def test_changes_of_both_sides_meet_under_the_names_and_types_of_the_merged_schema(session):
    session.apply_schema(schema('alias: String? @rename_from("nick")  note: String?', age="I64?"), branch=DRAFT)
    change(session, 'update Person set { alias: "A" } where name = "ann"', DRAFT)
    change(session, 'insert Person { name: "src", age: 5000000000 }', DRAFT)
    session.apply_schema(schema("nick: String?  note: String?  zip: String?", rest="node Tag { name: String @key }"))
    change(session, 'update Person set { nick: "B", zip: "z" } where name = "bob"')
    change(session, 'insert Person { name: "tgt", nick: "t" } insert Tag { name: "x" }')
    done = merge_branch(session, DRAFT)
    assert done.outcome.value == "merged"
    assert rows(session) == {
        "ann": {"name": "ann", "age": 1, "alias": "A", "note": None, "zip": None},
        "bob": {"name": "bob", "age": 2, "alias": "B", "note": None, "zip": "z"},
        "cem": {"name": "cem", "age": None, "alias": None, "note": None, "zip": None},
        "src": {"name": "src", "age": 5_000_000_000, "alias": None, "note": None, "zip": None},
        "tgt": {"name": "tgt", "age": None, "alias": "t", "note": None, "zip": None},
    }
    assert rows(session, "node:Tag") == {"x": {"name": "x"}}
    assert [(table.type_key, table.inserted, table.updated) for table in done.tables] == [(PERSON, 1, 1)]


def test_a_renamed_type_takes_the_rows_that_the_other_side_wrote(session):
    change(session, 'insert Person { name: "src" } insert Knows { from: "src", to: "ann" }', DRAFT)
    session.apply_schema(
        SCHEMA.replace("node Person", 'node Human @rename_from("Person")').replace("Person -> Person", "Human -> Human")
    )
    change(session, 'update Human set { age: 40 } where name = "bob"')
    merge_branch(session, DRAFT)
    assert set(rows(session, "node:Human")) == {"ann", "bob", "cem", "src"}
    assert rows(session, "node:Human")["bob"]["age"] == 40
    assert {row["src"] for row in rows(session, KNOWS).values()} == {"ann", "src"}


@pytest.mark.parametrize("resolve", [None, "theirs"])
def test_what_both_added_alike_is_one_thing_for_good(session, resolve):
    both = schema("nick: String?  note: String?  zip: String?", rest="node Tag { name: String @key  hue: String? }")
    for branch in (MAIN, DRAFT):
        session.apply_schema(both, branch=branch)
        change(session, f'insert Tag {{ name: "{branch}" }} insert Tag {{ name: "x", hue: "red" }}', branch)
    change(session, 'update Person set { zip: "1" } where name = "ann"', DRAFT)
    change(session, 'update Person set { zip: "2" } where name = "bob"')
    merge_branch(session, DRAFT, resolve=resolve)
    assert {name: row["zip"] for name, row in rows(session).items()} == {"ann": "1", "bob": "2", "cem": None}
    assert set(rows(session, "node:Tag")) == {MAIN, DRAFT, "x"}
    assert session.snapshot().state.schema.source == both
    # The source goes on with its own ids, and both directions know what is what.
    change(session, 'update Person set { zip: "3" } where name = "cem" insert Tag { name: "y" }', DRAFT)
    change(session, 'delete Tag where name = "x"')
    merge_branch(session, DRAFT)
    merge_branch(session, MAIN, DRAFT)
    assert read_graph(session) == read_graph(session, DRAFT)
    assert rows(session)["cem"]["zip"] == "3"
    assert set(rows(session, "node:Tag")) == {MAIN, DRAFT, "y"}
    assert session.catalog().nodes["Tag"].aliases
    columns = [session.snapshot(branch).table(PERSON).schema for branch in (DRAFT, MAIN)]
    for older, newer in (columns, columns[::-1]):
        assert ColumnReading.between(older, newer).origins["zip"] == "zip"


def test_a_type_that_came_by_a_merge_goes_on_being_merged_in_both_directions(session):
    session.apply_schema(SCHEMA + "node Tag { name: String @key  hue: String? }", branch=DRAFT)
    change(session, 'insert Tag { name: "x" } insert Tag { name: "y" }', DRAFT)
    merge_branch(session, DRAFT)
    change(session, 'update Tag set { hue: "red" } where name = "x"')
    change(session, 'update Tag set { hue: "blue" } where name = "y"', DRAFT)
    merge_branch(session, MAIN, DRAFT)
    assert merge_branch(session, DRAFT).outcome.value == "fast_forward"
    assert read_graph(session) == read_graph(session, DRAFT)
    assert rows(session, "node:Tag") == {"x": {"name": "x", "hue": "red"}, "y": {"name": "y", "hue": "blue"}}


def test_all_conflicts_of_schemas_are_told_with_the_declarations_of_all_sides(session):
    session.apply_schema(schema("nick: String?  note: String?  zip: String?", age="I64?"), branch=DRAFT)
    session.apply_schema(schema("nick: String?  note: String?  zip: I32?", age="F64?"))
    assert refused(session) == [
        ("schema_divergence", PERSON, None, ("age",)),
        ("schema_divergence", PERSON, None, ("zip",)),
    ]
    age, zipped = conflicts_of(session)
    assert age.message == "both sides changed the type of node:Person.age"
    assert (age.base, age.source, age.target) == (
        {"declaration": "age: I32?"},
        {"declaration": "age: I64?"},
        {"declaration": "age: F64?"},
    )
    assert (zipped.base, zipped.source) == (None, {"declaration": "zip: String?"})
    assert "target: age: F64?" in str(age)
    # No side's numbers fit the type of the other one, so that neither can decide.
    assert len(refused(session, resolve="ours")) == 2


def test_the_side_that_decides_conflicts_of_rows_decides_those_of_schemas(session):
    session.apply_schema(schema('a: String? @rename_from("nick")  note: String?'), branch=DRAFT)
    session.apply_schema(schema('b: String? @rename_from("nick")  note: String?'))
    change(session, 'update Person set { a: "A" } where name = "ann"', DRAFT)
    assert refused(session) == [("schema_divergence", PERSON, None, ("b",))]
    assert refused(session, resolve="properties") == [("schema_divergence", PERSON, None, ("b",))]
    merge_branch(session, DRAFT, resolve="ours")
    assert rows(session)["ann"] == {"name": "ann", "age": 1, "b": "A", "note": None}
    merge_branch(session, MAIN, DRAFT, resolve="theirs")
    assert read_graph(session) == read_graph(session, DRAFT)


def test_a_dropped_property_that_the_other_side_wrote_to_is_a_conflict(session):
    session.apply_schema(schema("note: String?"), branch=DRAFT)
    change(session, 'update Person set { nick: "B" } where name = "bob"')
    change(session, 'insert Person { name: "dan", nick: "d" } insert Person { name: "eve" }')
    assert refused(session) == [("schema_divergence", PERSON, None, ("nick",))]
    (conflict,) = conflicts_of(session)
    assert conflict.message == "the source dropped node:Person.nick, which the target wrote to in 2 rows"
    merge_branch(session, DRAFT, resolve="ours")
    assert rows(session)["bob"]["nick"] == "B"
    assert session.snapshot().state.schema.source.count("nick") == 1


def test_a_dropped_property_goes_if_the_side_that_decides_dropped_it_or_the_other_left_it_alone(session):
    session.apply_schema(schema("note: String?"), branch=DRAFT)
    change(session, 'update Person set { nick: "B" } where name = "bob"')
    merge_branch(session, DRAFT, resolve="theirs")
    assert rows(session)["bob"] == {"name": "bob", "age": 2, "note": None}
    session.apply_schema(schema(""), branch=DRAFT)
    change(session, 'update Person set { age: 9 } where name = "bob"')
    merge_branch(session, DRAFT)
    assert rows(session)["bob"] == {"name": "bob", "age": 9}


@pytest.mark.parametrize(("resolve", "stays"), [("ours", False), ("theirs", True)])
def test_a_dropped_type_whose_rows_the_other_side_changed_is_a_conflict(session, resolve, stays):
    session.apply_schema(SCHEMA.replace("node City { name: String @key }", ""))
    change(session, 'insert City { name: "oslo" } delete City where name = "rome"', DRAFT)
    assert refused(session) == [("schema_divergence", CITY, None, ())]
    merge_branch(session, DRAFT, resolve=resolve)
    assert (CITY in read_graph(session)) == stays
    if stays:
        assert set(rows(session, CITY)) == {"oslo"}


def test_rows_that_break_a_rule_of_the_other_side_are_told_whichever_side_has_the_rule(session):
    session.apply_schema(
        schema("nick: String? @unique  note: String?  @range(age, 0..10)").replace(
            "-> Person {", "-> Person @card(0..1) {"
        ),
        branch=DRAFT,
    )
    change(session, 'insert Person { name: "old", age: 90 } insert Person { name: "dan", nick: "a" }')
    change(session, 'insert Knows { from: "ann", to: "cem" }')
    told = [
        ("value_constraint_violation", PERSON, None, ("age",)),
        ("unique_violation", PERSON, "dan", ("nick",)),
        ("cardinality_violation", KNOWS, None, ("src",)),
    ]
    assert sorted(refused(session)) == sorted(told)
    # The other way round the rows come to the rules.
    found = conflicts_of(session, MAIN, DRAFT)
    assert sorted((one.kind, one.type_key, one.entity_id, one.properties) for one in found) == sorted(told)
    change(session, 'delete Person where name = "old" delete Person where name = "dan" delete Knows where from = "ann"')
    merge_branch(session, DRAFT)
    assert set(rows(session)) == {"ann", "bob", "cem"}


def test_a_required_property_fills_the_rows_of_the_other_side_or_tells_which_lack_it(session):
    session.apply_schema(schema('nick: String  @default("-")  note: String?  level: I32 @default(1)'), branch=DRAFT)
    change(session, 'insert Person { name: "dan" }')
    merge_branch(session, DRAFT)
    assert rows(session)["dan"] == {"name": "dan", "age": None, "nick": "-", "note": None, "level": 1}
    session.store.create_branch(BranchName("late"))
    change(session, 'update Person set { note: "n" } where level = 1', "late")
    session.apply_schema(schema('nick: String  @default("-")  note: String  level: I32 @default(1)'), branch="late")
    change(session, 'insert Person { name: "eve" }')
    found = conflicts_of(session, "late")
    assert [(one.kind, one.type_key, one.properties) for one in found] == [
        ("value_constraint_violation", PERSON, ("note",))
    ]
    change(session, 'update Person set { note: "e" } where name = "eve"')
    merge_branch(session, "late")
    assert {row["note"] for row in rows(session).values()} == {"n", "e"}


def test_a_branch_takes_over_what_main_has_without_writing_it_again(session):
    session.apply_schema(SCHEMA + "node Tag { name: String @key }")
    session.apply_schema(
        schema(rest="node Tag { name: String @key }").replace("note: String?", "note: String?  zip: String?")
    )
    change(session, 'insert Tag { name: "x" } update Person set { zip: "z" } where name = "ann"')
    merge_branch(session, MAIN, DRAFT)
    assert read_graph(session) == read_graph(session, DRAFT)
    for key in (PERSON, "node:Tag"):
        assert session.snapshot(DRAFT).entry(key).pin == session.snapshot().entry(key).pin
    change(session, 'insert Tag { name: "y" } insert Person { name: "dan" }', DRAFT)
    assert merge_branch(session, DRAFT).outcome.value == "fast_forward"
    assert set(rows(session, "node:Tag")) == {"x", "y"}


def test_blame_names_the_authors_through_a_merge_of_schemas(session):
    session.apply_schema(schema('alias: String? @rename_from("nick")  note: String?  zip: String?'))
    written = session.mutate('query q() { update Person set { nick: "A", age: 7 } where name = "ann" }', branch=DRAFT)
    merge = merge_branch(session, DRAFT)
    authors = {one.name: one for one in blame(session.store, PERSON, "ann").properties}
    assert authors["alias"].author.id == authors["age"].author.id == written.commit.id
    assert authors["alias"].merge.id == merge.commit.id
    assert authors["name"].merge is None


def test_a_commit_before_a_change_of_the_schema_can_be_undone_and_the_change_itself_cannot(session):
    undone = put(session, PERSON, {"ann": {"name": "ann", "age": 99, "nick": "x", "note": None}}).commit
    session.apply_schema(schema('alias: String? @rename_from("nick")  note: String?'))
    applied = head_of(session)
    revert_commit(session, undone.id)
    assert rows(session)["ann"] == {"name": "ann", "age": 1, "alias": "a", "note": None}
    with pytest.raises(MergeConflictsError, match="changed the schema"):
        revert_commit(session, applied)


WIDE = """
node Doc { slug: String @key  body: Blob?  tags: [String]?  spot: Vector(2)?  day: Date?  sizes: [I32]? }
"""


def test_blobs_lists_and_vectors_survive_a_change_of_columns_and_rows_at_once(tmp_path):
    create_graph(tmp_path / "wide", WIDE)
    row = {"body": b"x" * 70_000, "tags": ["a"], "spot": [0.5, 1.0], "day": 3, "sizes": [1, 2]}
    with open_session(tmp_path / "wide") as session:
        put(session, "node:Doc", {name: {"slug": name, **row} for name in ("one", "two", "three")})
        session.store.create_branch(BranchName(DRAFT))
        session.apply_schema(WIDE.replace("[I32]?", "[I64]?  text: String?  more: Blob?"), branch=DRAFT)
        new = {"slug": "two", **row, "body": b"new", "text": "t", "more": b"m" * 70_000}
        put(session, "node:Doc", {"two": new, "three": None}, DRAFT)
        put(session, "node:Doc", {"four": {"slug": "four", **row, "tags": None}})
        merge_branch(session, DRAFT)
        assert set(rows(session, "node:Doc")) == {"one", "two", "four"}
        for name in ("one", "two"):
            assert rows(session, "node:Doc")[name] == rows(session, "node:Doc", DRAFT)[name]
        # Later writes and reads go on with the files that the merge left.
        change(session, 'update Doc set { text: "later" } where slug = "one"')
        change(session, 'delete Doc where slug = "four"')
        assert rows(session, "node:Doc")["one"]["sizes"] == [1, 2]
        assert rows(session, "node:Doc")["two"]["more"] == rows(session, "node:Doc", DRAFT)["two"]["more"]


def test_a_merge_of_rows_costs_the_same_whatever_schemas_were_merged_before(template):
    costs = []
    for text in (None, schema(rest="node Tag { name: String @key }")):
        with template.open() as session:
            if text is not None:
                session.apply_schema(text, branch=DRAFT)
            change(session, 'insert City { name: "oslo" }', DRAFT)
            merge_branch(session, DRAFT)
            change(session, 'update Person set { note: "d" } where name = "ann"', DRAFT)
            change(session, 'update Person set { note: "m" } where name = "bob"')
            costs.append(dict(merge_branch(session, DRAFT).cost.calls))
    # The manifest of the base has come to hold a schema of its own, which is more to read.
    assert costs[1].pop("lance.read") - costs[0].pop("lance.read") == 2
    assert costs[0] == costs[1]


def test_a_gate_reads_the_merged_state_before_it_is_published(session):
    session.apply_schema(
        schema('alias: String? @rename_from("nick")  level: I32 @default(3)', age="I64?"), branch=DRAFT
    )
    change(session, 'update Person set { alias: "A" } where name = "ann"', DRAFT)
    change(session, 'insert Person { name: "tgt", nick: "t" }')
    text = "query q() { match { $p: Person } return { $p.name, $p.alias, $p.level } order { $p.name asc } }"
    seen = []

    def gate(candidate):
        call = ReadCall(
            text=text,
            name="q",
            params=None,
            params_form="host",
            branch=MAIN,
            at=None,
            options=QueryOptions(),
            source_name="<gate>",
        )
        with candidate.reading(session) as merged:
            seen.append([tuple(row.values()) for row in session.reads.run(call, merged).to_arrow().to_pylist()])

    merge_branch(session, DRAFT, gate=gate)
    assert seen == [[("ann", "A", 3), ("bob", "b", 3), ("cem", None, 3), ("tgt", "t", 3)]]
