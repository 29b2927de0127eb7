"""Groups of many rows: the order a ranking gives them, and names that could be taken for something else."""

from __future__ import annotations

import json

import pytest
from tests.session_graph import create_graph, open_session
from tests.unit.engine.query.graphs import SCHEMA

PEOPLE, TEAMS = 600, 150


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    root = tmp_path_factory.mktemp("groups") / "graph"
    # The fewer other words, the better the rank; every team has people of very different ranks.
    lines = [
        {"type": "Person", "data": {"name": f"p{at}", "age": at % 7, "bio": "river " + "stone " * (at * 37 % 101)}}
        for at in range(PEOPLE)
    ]
    lines += [{"type": "Team", "data": {"code": f"team {at}", "budget": float(at % 3)}} for at in range(TEAMS)]
    lines += [
        {"edge": "MemberOf", "from": f"p{at}", "to": f"team {at * 7 % TEAMS}", "data": {"id": f"m{at}"}}
        for at in range(PEOPLE)
    ]
    create_graph(root, SCHEMA, "\n".join(json.dumps(line) for line in lines))
    with open_session(root) as opened:
        yield opened


@pytest.mark.parametrize("key", ["$t.code", "$t.budget", "$t", "$p.age"])
def test_groups_of_ranked_rows_come_in_the_order_of_their_best_row(session, key):
    match = "match { $p: Person  $p memberOf $t }"
    order = 'order { bm25($p.bio, "river") }'
    ranked = session.query(f"query q() {{ {match} return {{ {key} as k }} {order} }}").rows()
    expected = list(dict.fromkeys(row["k"] for row in ranked))
    grouped = session.query(f"query q() {{ {match} return {{ {key} as k, count($p.bio) as n }} {order} }}").rows()
    assert [row["k"] for row in grouped] == expected
    assert sum(row["n"] for row in grouped) == PEOPLE
    limited = session.query(
        f"query q() {{ {match} return {{ {key} as k, min($p.name) as n }} {order} limit 3 }}"
    ).rows()
    assert [row["k"] for row in limited] == expected[:3]


@pytest.mark.parametrize("name", ["count1", "sum1", "place", "key0", "min1"])
def test_a_variable_may_have_any_name(session, name):
    text = (
        f"query q() {{ match {{ ${name}: Person  ${name} memberOf $t }} return {{ ${name}.age as a, sum($t.budget) as s"
    )
    rows = session.query(text + f", count(${name}) as n, min($t.code) as m }} order {{ a }} }}").rows()
    assert [row["a"] for row in rows] == list(range(7))
    assert sum(row["n"] for row in rows) == PEOPLE
    assert sum(row["s"] for row in rows) == sum(float(at * 7 % TEAMS % 3) for at in range(PEOPLE))
