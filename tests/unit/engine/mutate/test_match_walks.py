"""Matches of mutations over several edges, interfaces and paths: they see, and depend on, every table on the way."""

from __future__ import annotations

import pytest
from tests.session_graph import create_graph, open_session, read_graph

SCHEMA = """
interface Named { name: String }
node Person implements Named { name: String @key  level: I64? }
node Team implements Named { name: String @key  level: I64? }
edge Knows: Person -> Person
edge Likes: Person -> Person
edge MemberOf: Person -> Team
"""
SEED = """
{"type": "Person", "data": {"name": "Ann"}}
{"type": "Person", "data": {"name": "Bo"}}
{"type": "Team", "data": {"name": "core"}}
{"edge": "Knows", "from": "Ann", "to": "Bo", "data": {"id": "k1"}}
"""
NEW = 'insert Person { name: "Cy" }  insert Likes { from: "Bo", to: "Cy" }'


@pytest.fixture
def session(tmp_path):
    create_graph(tmp_path / "graph", SCHEMA, SEED)
    with open_session(tmp_path / "graph") as opened:
        yield opened


@pytest.mark.parametrize(
    ("clause", "changed"),
    [
        ('$p: Person { name: "Bo" }  $p knows|likes $q', {"Cy"}),
        ('$p: Person { name: "Ann" }  $p knows|likes{1,} $q', {"Bo", "Cy"}),
        ('$p: Person { name: "Ann" }  path $w: $p knows|likes{1,3} $q', {"Bo", "Cy"}),
        ('$n: Named { name: "Cy" }  $q: Person  $q.name = $n.name', {"Cy"}),
        ('$p: Person { name: "Bo" }  optional { $p likes $q }', {"Cy"}),
        ("$q: Person  exists { $p knows|likes $q  $p knows|likes $q }", {"Bo", "Cy"}),
    ],
)
def test_a_match_sees_what_earlier_statements_wrote_however_it_gets_there(session, clause, changed):
    text = f"query q() {{ {NEW}  match {{ {clause} }}  update $q set {{ level: 1 }} }}"  # noqa: S608 - no SQL
    session.mutate(text)
    people = read_graph(session)["node:Person"].values()
    assert {person["name"] for person in people if person["level"] == 1} == changed
