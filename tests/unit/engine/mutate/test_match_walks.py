"""Matches of a mutation over several edges, along paths or over interfaces see, and depend on, all of their types."""

from __future__ import annotations

import pytest
from tests.session_graph import create_graph, open_session

from omnigraph.errors import ExpectedVersionMismatchError, QueryMeaningError
from omnigraph.runtime import Runtime

SCHEMA = """
interface Named { name: String @key }
node Person implements Named { age: I32? }
node Team implements Named { size: I32? }
edge Knows: Person -> Person { since: Date? }
edge Likes: Person -> Person { since: Date? }
"""
SEED = """
{"type": "Person", "data": {"name": "Ann"}}
{"type": "Person", "data": {"name": "Bo"}}
{"type": "Person", "data": {"name": "Cy"}}
{"type": "Team", "data": {"name": "Core"}}
{"edge": "Knows", "from": "Ann", "to": "Bo", "data": {"id": "k1"}}
{"edge": "Likes", "from": "Ann", "to": "Cy", "data": {"id": "l1"}}
"""
# What a write passes after it has made up its mind and before it claims a version.
DECIDED = "txn.stage.after_files"
CHANGE = "update $p set { age: 1 }"
MATCHES = {
    "several edges": "$a: Person { name: 'Ann' }  $a knows|likes $p",
    "several edges, bound": "$a: Person { name: 'Ann' }  $a $e:knows|likes $p",
    "a path": "$a: Person { name: 'Ann' }  path $w: $a likes{1,2} $p",
    "a condition": "$a: Person { name: 'Ann' }  $a $e:likes{1,2} $p where $e.since is null",
    "a walk without an end": "$a: Person { name: 'Ann' }  $a likes{1,} $p",
    "inside of a block": "$p: Person  exists { $a: Person { name: 'Ann' }  $a knows|likes $p }",
    "inside of an optional block": "$p: Person  optional { $a knows|likes $p }  $a.name = 'Ann'",
}


def text(before, clauses, behind):
    return f"query q() {{ {before} match {{ {clauses} }} {behind} }}"


@pytest.fixture
def root(tmp_path):
    create_graph(tmp_path / "graph", SCHEMA, SEED)
    return tmp_path / "graph"


@pytest.mark.parametrize("clauses", MATCHES.values(), ids=MATCHES.keys())
def test_walk_sees_edges_that_an_earlier_statement_deleted(root, clauses):
    with open_session(root) as session:
        done = session.mutate(
            text("delete Likes where to = 'Cy'", clauses, "update $p set { age: 1 } return { $p.name }")
        )
        assert "Cy" not in [row["p.name"] for row in done.rows]


def test_interface_sees_nodes_that_an_earlier_statement_changed(root):
    clauses = "$p: Person { name: 'Ann' }  $x: Named  $x.name = 'Lab'"
    with open_session(root) as session:
        assert session.mutate(text("insert Team { name: 'Lab' }", clauses, "update $p set { age: 1 }")).updated == 1


@pytest.mark.parametrize(
    ("clauses", "statement", "meanwhile"),
    [
        (MATCHES["several edges"], CHANGE, "insert Likes { from: 'Ann', to: 'Bo' }"),
        (MATCHES["a path"], CHANGE, "insert Likes { from: 'Cy', to: 'Bo' }"),
        ("$p: Person  $x: Named", CHANGE, "insert Team { name: 'Lab' }"),
        ("$p: Person", "update $p set { age: count { $p knows|likes $_ } }", "insert Likes { from: 'Cy', to: 'Bo' }"),
    ],
)
def test_match_depends_on_every_type_that_it_looks_at(root, clauses, statement, meanwhile):
    runtime = Runtime.system({})
    waiting = [meanwhile]
    with open_session(root) as other, open_session(root, runtime=runtime) as session:

        def act():
            if waiting:
                other.mutate(f"query q() {{ {waiting.pop()} }}")

        runtime.failpoints.enable(DECIDED, act)
        with pytest.raises(ExpectedVersionMismatchError):
            session.mutate(text("", clauses, statement), on_conflict="refuse")
        assert waiting == []


@pytest.mark.parametrize(
    ("statements", "touched", "returned"),
    [
        ("match { $x: Named } delete $x", (4, 2), None),
        ("match { $a $x:knows|likes $b } delete $x", (0, 2), None),
        (
            "match { $x: Named  $p: Person { name: 'Ann' } } update $p set { age: 1 } return { $x.name as n }",
            (1, 0),
            [{"n": "Ann"}, {"n": "Bo"}, {"n": "Core"}, {"n": "Cy"}],
        ),
        (
            "match { $a $x:knows|likes $b } update $b set { age: 1 } return { type($x) as kind }",
            (2, 0),
            [{"kind": "Knows"}, {"kind": "Likes"}],
        ),
    ],
)
def test_statements_take_variables_of_several_types(root, statements, touched, returned):
    with open_session(root) as session:
        done = session.mutate(f"query q() {{ {statements} }}")
        assert (done.affected_nodes, done.affected_edges) == touched
        assert done.to_json().get("rows") == returned


def test_a_key_of_one_of_several_types_cannot_be_changed(root):
    with open_session(root) as session, pytest.raises(QueryMeaningError, match="cannot update @key property 'name'"):
        session.mutate("query q() { match { $x: Named } update $x set { name: 'Zed' } }")


@pytest.mark.parametrize(
    "block",
    [
        "count { $p knows|likes $_ }",
        "count { $_ knows|likes $p }",
        "count { $p knows $f  $g: Person  $g.name != $f.name }",
        "count { $x: Named  $x.name > $p.name }",
        "count { $p <knows>{1,3} $f  not { $f likes $p } }",
        "count { optional { $p likes $f }  each $i in [1, 2]  $p.name != 'Bo' }",
    ],
)
def test_a_block_has_the_same_value_in_a_statement_as_in_a_read(root, block):
    with open_session(root) as session:
        read = session.query(f"query q() {{ match {{ $p: Person }} return {{ $p.name as n, {block} as age }} }}").rows()
        changed = f"match {{ $p: Person }} update $p set {{ age: {block} }} return {{ $p.name as n, $p.age as age }}"  # noqa: S608 - no SQL
        assert session.mutate(f"query q() {{ {changed} }}").rows.rows() == read
