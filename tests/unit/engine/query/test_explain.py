"""Plans as people and programs read them, before and after a run."""

from __future__ import annotations

import pytest
from tests.unit.engine.query.graphs import open_ring

from omnigraph.engine.query.options import QueryOptions
from omnigraph.errors import WrongQueryKindError

BODY = (
    "query friends($n: String) { match { $p: Person { name: $n }  $p knows $f"
    "  not { $f memberOf $t  $t.budget > 1.5 } } return { $f.name } order { $f.name } limit 3 }"
)


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    with open_ring(tmp_path_factory.mktemp("explain") / "graph", 60) as opened:
        yield opened


def test_a_plan_shows_its_steps_with_estimates(session):
    shown = session.explain(BODY, {"n": "p1"}).describe().splitlines()
    assert shown[0] == "read friends"
    assert shown[1].split() == ["step", "estimate"]
    assert shown[2].startswith("look up $p: Person where $p.name = $n")
    assert shown[3].startswith("expand $p -Knows-> $f: Person")
    assert shown[4].startswith("anti-join on $f")
    assert shown[5].startswith("  expand $f -MemberOf-> $t: Team where $t.budget > 1.5")
    assert "order by $f.name asc nulls first; limit 3; return f.name" in shown[6]


def test_a_run_adds_rows_calls_and_time(session):
    found = session.explain(BODY, {"n": "p1"}, run=True).to_json()
    by_step = {step["step"].split(" ")[0]: step for step in found["steps"]}
    assert by_step["look"]["rows"] == 1
    assert by_step["expand"]["rows"] in {1, 2}
    assert by_step["order"]["rows"] == 1
    assert all({"rows", "calls", "ms", "estimated_rows"} <= step.keys() for step in found["steps"])
    assert found["columns"] == {"node:Person": ["name"], "node:Team": ["budget"]}


def test_a_plan_that_did_not_run_has_no_actual_figures(session):
    assert all("rows" not in step for step in session.explain(BODY, {"n": "p1"}).to_json()["steps"])


def test_calls_of_the_steps_add_up_to_what_the_read_cost(session):
    body = "query q() { match { $p: Person  $p knows $f } return { $f.age, count($p) as n } }"
    result = session.query(body, options=QueryOptions(mode="indexed"))
    calls = sum(step["calls"] for step in result.explanation.to_json()["steps"])
    # Finding the newest state comes before the first step.
    assert 0 <= result.cost.total_calls - calls <= 4


def test_counted_rows_are_shown_as_rows(session):
    body = "query q() { match { $a: Person  $a knows $b } return { count($b) as n } }"
    steps = session.explain(body, run=True).to_json()["steps"]
    assert [step["rows"] for step in steps] == [60, 120, 1]


def test_a_literal_cannot_break_the_lines_of_a_plan(session):
    body = 'query q() { match { $p: Person  $p.bio = "a\nb\x1b[2J" } return { $p.name } }'
    shown = session.explain(body).describe()
    assert "\x1b" not in shown
    assert len(shown.splitlines()) == 5


@pytest.mark.parametrize(
    ("body", "labels"),
    [
        (
            "match { $p: Person optional { $p memberOf $t } } return { $p.name, $t.code }",
            ["optional join $t", "expand"],
        ),
        ("match { $p: Person exists { $p knows $f } or $p.age > 3 } return { $p.name }", ["exists on $p", "filter"]),
        ("match { $p: Person } return { $p.name, count { $p knows $_ } as n }", ["count on $p", "return p.name, n"]),
        ("match { $p: Person not { $p knows $f } } return { $p.name }", ["anti-join on $p"]),
        (
            'match { $p: Person } with { $p, bm25($p.bio, "x") as s } order { s } limit 2 return { $p.name, s }',
            ['with: rank by bm25($p.bio, "x") ties by id($p); limit 2; keep $p, s', "return p.name, s"],
        ),
        ("match { each $i in [1, 2] $p: Person $p.age = $i } return { $p.name }", ["each $i in [1, 2]"]),
        ("match { $p: Person $p knows{1,3} $f } return { $f.name }", ["expand $p -Knows{1,3}-> $f"]),
        (
            "match { $p: Person path $w: $p knows{1,3} $f } return { length($w) as n }",
            ["walk path $w: $p -Knows{1,3}->"],
        ),
        ("match { $p: Person $p.age + 1 > 3 } return { $p.age + 1 as n }", ["scan $p: Person where", "return n"]),
        (
            "match { $p: Person } with { $p, $p.age as a } order { a } limit 3 match { $p knows $f } return { $f }",
            ["with: order by", "keep $p, a", "expand $p", "return f"],
        ),
        (
            "match { $p: Person } with { $p.age as a, count(*) as n } having n > 0 return { n }",
            ["with: group by $p.age", "having"],
        ),
        ("match { $p: Person } return distinct { $p.age } order { $p.age } offset 1 limit 2", ["distinct", "offset 1"]),
        (
            "match { $p: Person } return { $p.name as n } union match { $t: Team } return { $t.code } order { n }",
            ["first read of a union", "scan $t: Team", "union: keep", "order by"],
        ),
        (
            "match { $p: Person } return { $p.name as n } union all match { $t: Team } return { $t.code }",
            ["first read of a union", "union all: keep"],
        ),
        ("match { $p: Person } return { $p.name } order { $p.name } limit 2 per { $p.age }", ["per $p.age", "limit 2"]),
        ("match { $p: Person version($p) = version($p) } return { $p.name }", ["version($p)"]),
    ],
)
def test_every_construct_is_a_step_with_expected_and_actual_rows(session, body, labels):
    found = session.explain(f"query q() {{ {body} }}", run=True)
    steps = found.to_json()["steps"]
    shown = "\n".join(step["step"] for step in steps)
    assert [label for label in labels if label not in shown] == []
    assert all(label in found.describe() for label in labels)
    assert all("estimated_rows" in step for step in steps)
    # What a block answers by looking at neighbours alone runs no step inside it.
    assert all("rows" in step for step in steps if step["depth"] == 0)


def test_a_stage_shows_what_it_hands_on(session):
    body = "match { $p: Person } with { $p } order { $p.name } limit 3 match { $p knows $f } return { $f.name }"
    steps = session.explain(f"query q() {{ {body} }}", run=True).to_json()["steps"]
    (handed,) = [step for step in steps if step["step"].startswith("with:")]
    assert (handed["estimated_rows"], handed["rows"]) == (3, 3)


def test_a_mutation_is_explained_and_not_run(session):
    before = session.snapshot().state.head.commit
    text = "query q() { match { $p: Person $p knows $f } update $p set { age: 1 } delete $f return { $p.name } }"
    found = session.explain(text)
    assert found.describe().splitlines()[0] == "mutation q"
    shown = [step["step"] for step in found.to_json()["steps"]]
    assert shown[0].startswith("scan $p: Person")
    assert shown[-3:] == ["update node $p: Person set age = 1", "delete $f: Person", "return p.name"]
    assert session.snapshot().state.head.commit == before
    with pytest.raises(WrongQueryKindError):
        session.explain(text, run=True)
