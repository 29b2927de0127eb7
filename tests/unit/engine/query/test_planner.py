"""What each rewrite rule makes of a plan."""

from __future__ import annotations

import pytest
from tests.unit.engine.query.graphs import plan, steps

from omnigraph.engine.query.planner import RULES
from omnigraph.engine.query.steps import AntiJoinStep, CountExpand, LinkTest, Scan
from omnigraph.errors import UsageError
from omnigraph.ir.model import Expand, Filter

BY_NAME = "match { $p: Person { name: $n } } return { $p.age }"


def test_a_node_whose_key_is_given_is_looked_up() -> None:
    only = plan(BY_NAME, "$n: String").steps[0]
    assert isinstance(only, Scan)
    assert only.key is not None
    assert str(only) == "look up $p: Person where $p.name = $n"


def test_a_key_that_is_only_bounded_is_not_looked_up() -> None:
    only = plan('match { $p: Person  $p.name >= "a" } return { $p.age }').steps[0]
    assert isinstance(only, Scan)
    assert only.key is None


def test_a_match_starts_at_the_end_that_is_known() -> None:
    body = 'match { $p: Person  $p memberOf $t  $t: Team { code: "core" } } return { $p.name }'
    first, second = plan(body).steps
    assert isinstance(first, Scan)
    assert first.variable == "t"
    assert isinstance(second, Expand)
    assert (second.source, second.destination, second.direction) == ("t", "p", "in")


def test_the_written_start_stays_when_nothing_is_clearly_better() -> None:
    first, second = plan("match { $p: Person  $p knows $f } return { $f.name }").steps
    assert isinstance(first, Scan)
    assert first.variable == "p"
    assert isinstance(second, Expand)
    assert second.direction == "out"


def test_a_turned_walk_keeps_what_its_bounds_mean() -> None:
    body = 'match { $p: Person  $p knows{2,3} $f  $f: Person { name: "Bo" } } return { $p.name }'
    _, walk = plan(body).steps
    assert isinstance(walk, Expand)
    assert (walk.source, walk.direction, walk.min_hops, walk.max_hops) == ("f", "in", 2, 3)


def test_a_cycle_is_closed_by_a_test() -> None:
    body = "match { $a: Person  $a knows $b  $b knows $a } return { $a.name }"
    last = plan(body).steps[-1]
    assert isinstance(last, LinkTest)
    assert (last.source, last.destination) == ("b", "a")
    without = plan(body, rules_off=frozenset({"link_test"})).steps
    assert [type(step) for step in without[-2:]] == [Expand, Filter]


def test_a_walk_of_several_hops_into_a_bound_variable_stays_a_walk() -> None:
    kinds = [type(step) for step in plan("match { $a: Person  $a knows{1,2} $a } return { $a.name }").steps]
    assert kinds == [Scan, Expand, Filter]


def test_absence_of_any_neighbour_is_asked_without_running_the_inner_steps() -> None:
    last = plan("match { $p: Person  not { $p memberOf $_ } } return { $p.name }").steps[-1]
    assert isinstance(last, AntiJoinStep)
    assert last.is_existence
    filtered = plan('match { $p: Person  not { $p memberOf $t  $t.code = "x" } } return { $p.name }').steps[-1]
    assert isinstance(filtered, AntiJoinStep)
    assert not filtered.is_existence


def test_expansions_that_are_only_counted_are_not_listed() -> None:
    scan, count_expand = plan("match { $a: Person  $a knows $b  $b knows $c } return { count($c) as n }").steps
    assert isinstance(scan, Scan)
    assert isinstance(count_expand, CountExpand)
    assert count_expand.expand.destination == "b"
    assert [inner.expand.destination for inner in count_expand.inner] == ["c"]


def test_edges_that_are_only_counted_are_not_listed_either() -> None:
    _, count_expand = plan("match { $a: Person  $a $w:knows $b } return { $a.name, count($b) as n }").steps
    assert isinstance(count_expand, CountExpand)
    assert count_expand.expand.edge_variable == "w"
    listed = plan("match { $a: Person  $a $w:knows $b } return { $w.since, count($b) as n }").steps
    assert not any(isinstance(step, CountExpand) for step in listed)


def test_two_expansions_of_one_variable_are_counted_side_by_side() -> None:
    _, first, second = plan("match { $a: Person  $a knows $b  $a memberOf $t } return { count($a) as n }").steps
    assert isinstance(first, CountExpand)
    assert isinstance(second, CountExpand)
    assert {first.expand.destination, second.expand.destination} == {"b", "t"}


@pytest.mark.parametrize(
    "returned",
    ["$a.name, $c.name, count($b) as n", "count($c.age) as n", "avg($c.age) as n", "max($c) as n"],
)
def test_what_somebody_looks_at_is_listed(returned: str) -> None:
    found = plan(f"match {{ $a: Person  $a knows $b  $b knows $c }} return {{ {returned} }}").steps
    assert not any(isinstance(step, CountExpand) for step in found)


def test_groups_that_only_count_start_at_the_entity_that_makes_them() -> None:
    body = "match { $a: Person  $a knows $b  $b $w:knows $c }"
    for counted in ("$a", "$b", "$w"):
        scan, count_expand = plan(f"{body} return {{ $c.name, count({counted}) as n }}").steps
        assert isinstance(scan, Scan)
        assert scan.variable == "c"
        assert isinstance(count_expand, CountExpand)
        assert (count_expand.expand.destination, count_expand.expand.direction) == ("b", "in")
        assert [inner.expand.destination for inner in count_expand.inner] == ["a"]
    off = plan(f"{body} return {{ $c.name, count($a) as n }}", rules_off={"join_order"}).steps
    assert not any(isinstance(step, CountExpand) for step in off)


def test_an_expansion_behind_which_rows_are_filtered_is_listed() -> None:
    body = "match { $a: Person  $a knows $b  $a.age < $b.age } return { count($b) as n }"
    assert not any(isinstance(step, CountExpand) for step in plan(body).steps)


def test_a_limit_stops_a_bare_scan() -> None:
    only = plan("match { $p: Person } return { $p.name } limit 5").steps[0]
    assert isinstance(only, Scan)
    assert only.limit == 5
    ordered = plan("match { $p: Person } return { $p.name } order { $p.name } limit 5").steps[0]
    assert isinstance(ordered, Scan)
    assert ordered.limit is None


def test_only_properties_that_are_looked_at_are_read() -> None:
    body = "match { $p: Person  $p.age > 3  not { $p memberOf $t  $t.budget > 1.0 } } return { $p.name }"
    assert plan(body).columns == {"node:Person": ("age", "name"), "node:Team": ("budget",)}
    whole = plan(body, rules_off=frozenset({"prune_columns"})).columns
    assert whole["node:Person"] == ("name", "age", "bio")


def test_one_name_may_mean_two_types_in_two_anti_joins() -> None:
    body = "match { $p: Person  not { $p memberOf $x } not { $p knows $x  $x.age > 3 } } return { $p.name }"
    first, second = plan(body).steps[1:]
    assert isinstance(first, AntiJoinStep)
    assert isinstance(second, AntiJoinStep)
    assert first.variables["x"] == "node:Team"
    assert second.variables["x"] == "node:Person"


def test_every_rule_leaves_its_name_in_the_plan() -> None:
    assert plan(BY_NAME, "$n: String").rules == tuple(RULES)
    assert "join_order" not in plan(BY_NAME, "$n: String", rules_off=frozenset({"join_order"})).rules


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown rewrite rule 'join_odrer'"):
        plan(BY_NAME, "$n: String", rules_off=frozenset({"join_odrer"}))


def test_steps_read_like_the_query() -> None:
    body = 'match { $p: Person { name: "Ann" }  $p knows{1,2} $f  not { $f memberOf $_ } } return { count($f) as n }'
    assert steps(body) == [
        'look up $p: Person where $p.name = "Ann"',
        "expand $p -Knows{1,2}-> $f: Person",
        "anti-join on $f by existence",
    ]
