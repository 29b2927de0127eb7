"""Matches of a mutation over several edges, along paths or over interfaces see, and depend on, all of their types."""

from __future__ import annotations

import pytest
from tests.session_graph import create_graph, open_session

from omnigraph.errors import ExpectedVersionMismatchError, QueryTypeError
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
    ("clauses", "meanwhile"),
    [
        (MATCHES["several edges"], "insert Likes { from: 'Ann', to: 'Bo' }"),
        (MATCHES["a path"], "insert Likes { from: 'Cy', to: 'Bo' }"),
        ("$p: Person  $x: Named", "insert Team { name: 'Lab' }"),
    ],
)
def test_match_depends_on_every_type_that_it_looks_at(root, clauses, meanwhile):
    runtime = Runtime.system({})
    waiting = [meanwhile]
    with open_session(root) as other, open_session(root, runtime=runtime) as session:

        def act():
            if waiting:
                other.mutate(f"query q() {{ {waiting.pop()} }}")

        runtime.failpoints.enable(DECIDED, act)
        with pytest.raises(ExpectedVersionMismatchError):
            session.mutate(text("", clauses, "update $p set { age: 1 }"), on_conflict="refuse")
        assert waiting == []


@pytest.mark.parametrize(
    "statements",
    [
        "match { $x: Named } update $x set { name: 'Zed' }",
        "match { $x: Named } delete $x",
        "match { $x: Named } insert Team { name: concat($x.name, '2') } for each $x",
        "match { $x: Named  $p: Person { name: 'Ann' } } update $p set { age: length($x.name) }",
        "match { $x: Named  $p: Person { name: 'Ann' } } update $p set { age: 1 } return { $x.name }",
        "match { $x: Named  $p: Person { name: 'Ann' } } update $p set { age: 1 } return { $x }",
        "match { $a $x:knows|likes $b } delete $x",
        "match { $a $x:knows|likes $b } update $b set { age: 1 } return { type($x) as kind }",
    ],
)
def test_statement_takes_no_variable_of_several_types(root, statements):
    with open_session(root) as session:
        with pytest.raises(QueryTypeError, match=r"variable '\$x' may be of several types") as caught:
            session.mutate(f"query q() {{ {statements} }}")
        assert "one type" in caught.value.details.suggestion
