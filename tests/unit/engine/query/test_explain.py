"""Plans as people and programs read them, before and after a run."""

from __future__ import annotations

import pytest
from tests.unit.engine.query.graphs import open_ring

from omnigraph.engine.query.options import QueryOptions

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
