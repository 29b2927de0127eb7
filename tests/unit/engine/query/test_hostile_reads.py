"""Texts that ask for too much, through the whole engine: the right answer, or an error that says why."""

from __future__ import annotations

import os

import pytest
from tests.unit.engine.query.graphs import open_ring, plan, steps

from omnigraph.engine.query.options import QueryOptions
from omnigraph.errors import QueryMemoryError, QueryRuntimeError, QuerySyntaxError, SourceTooLargeError

pytestmark = pytest.mark.more

IS_LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"
COUNT = 50
MANY = 10_000 if IS_LONG else 1_500
MEMORY = 32 << 20


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    with open_ring(tmp_path_factory.mktemp("hostile") / "graph", COUNT) as opened:
        yield opened


def rows(session, text, params=None, **options):
    options.setdefault("memory_bytes", MEMORY)
    return list(session.query(text, params, options=QueryOptions(**options)).rows())


def where(condition, shown="$p.name as n"):
    return f"query q() {{ match {{ $p: Person  {condition} }} return {{ {shown} }} }}"


@pytest.mark.parametrize(
    ("term", "found"),
    [
        ("$p.age = {0}", COUNT - 40),
        ("$p.age = {0} or $p.name = 'q{0}'", COUNT - 40),
        ("$p.age + 1 = {0}", COUNT - 39),
        ("$p.age > {0}", COUNT - 41),
    ],
)
def test_thousands_of_alternatives(session, term, found):
    count = MANY if term == "$p.age = {0}" or IS_LONG else 500
    alternatives = " or ".join(term.format(at) for at in range(40, 40 + count))
    assert len(rows(session, where(alternatives))) == found


def test_alternatives_of_one_value_are_a_list_unless_something_between_them_may_fail():
    (scan,) = steps(
        'match { $p: Person  $p.age = 1 or $p.name = "a" or 2 = $p.age or $p.name = "b" } return { $p.age }'
    )
    assert '[1, 2] has member $p.age or ["a", "b"] has member $p.name' in scan
    computed = "$p.age + 1 = 1 or $p.age + 1 = 2 or 1 / $p.age = 2.0 or $p.age = 3 or $p.age + 1 = 5 or $p.age = 4"
    (scan,) = steps(f"match {{ $p: Person  {computed} }} return {{ $p.age }}")
    assert "(($p.age + 1) in [1, 2]) or ((1 / $p.age) = 2.0) or $p.age = 3 or (($p.age + 1) = 5) or $p.age = 4" in scan


def test_a_clique_of_twenty(session):
    for edge in ("knows", "<knows>"):
        pairs = "  ".join(f"$p{one} {edge} $p{other}" for one in range(20) for other in range(one + 1, 20))
        assert rows(session, f"query q() {{ match {{ {pairs} }} return {{ count($p0) as n }} }}") == [{"n": 0}]


def test_thousands_of_columns(session):
    count = 10_000 if IS_LONG else 1_000
    shown = ", ".join(f"$p.age + {at} as c{at}" for at in range(count))
    (row,) = rows(session, where('$p.name = "p1"', shown))
    assert len(row) == count
    assert row[f"c{count - 1}"] == count


@pytest.mark.parametrize(
    "shown",
    [
        "count($p where $p.age > {0}) as c{0}",
        "count(* where $p.age > {0}) as c{0}",
        "collect($p.age where $p.age = {0}) as c{0}",
    ],
)
def test_thousands_of_aggregates(session, shown):
    """Their memory grows with their number, not with its square."""
    count = 2_000 if IS_LONG else 200
    text = f"query q() {{ match {{ $p: Person }} return {{ {', '.join(shown.format(at) for at in range(count))} }} }}"
    (row,) = rows(session, text, memory_bytes=64 << 20)
    expected = [48] if shown.startswith("collect") else 1
    assert (len(row), row["c48"]) == (count, expected)


def test_conditions_that_no_list_can_hold(session):
    mixed = " or ".join(f'($p.age = {at} and $p.name != "x")' for at in range(40, 440))
    assert len(rows(session, where(mixed))) == COUNT - 40
    assert len(rows(session, where("  ".join(f"$p.age != {at}" for at in range(500))))) == 0


def test_a_list_of_a_hundred_thousand_items(session):
    text = "query q($ages: [I64]) { match { $p: Person  $p.age in $ages } return { $p.name } }"
    assert len(rows(session, text, {"ages": list(range(10, 100_010))})) == COUNT - 10
    items = ", ".join(map(str, range(10, 3_010)))
    assert len(rows(session, where(f"not ($p.age in [{items}])"))) == 10


@pytest.mark.parametrize("pattern", ["(a*)*b", "(p|p)*(p|p)*(p|p)*x", "(" * 60 + "p" + ")" * 60])
def test_patterns_that_others_choke_on(session, pattern):
    assert len(rows(session, where(f'$p.name matches "{pattern}"'))) == (COUNT if pattern.startswith("((") else 0)


@pytest.mark.parametrize("pattern", ["((a{1,100}){1,100}){1,100}", "[0-9]{1000}{1000}", "("])
def test_patterns_that_are_refused(session, pattern):
    with pytest.raises(QueryRuntimeError, match="pattern"):
        rows(session, where(f'$p.name matches "{pattern}"'))


def test_what_is_nested_too_deeply_is_refused_and_what_is_not_runs(session):
    case = "case when $p.age > 1 then " * 50 + "1" + " else 2 end" * 50
    assert len(rows(session, where("$p.age >= 0", f"{case} as n"))) == COUNT
    assert len(rows(session, where("(" * 60 + "$p.age > 1" + ")" * 60))) == COUNT - 2
    for condition in ("(" * 1_000 + "$p.age > 1" + ")" * 1_000, "not " * 1_000 + "$p.age > 1"):
        with pytest.raises((QuerySyntaxError, SourceTooLargeError), match="levels deep"):
            rows(session, where(condition))
    for shown in ("lower(" * 1_000 + "$p.name" + ")" * 1_000, " + ".join(["1"] * 1_000)):
        with pytest.raises((QuerySyntaxError, SourceTooLargeError), match="levels deep"):
            rows(session, where("$p.age > 1", f"{shown} as n"))


def test_blocks_inside_blocks_that_double_every_time_are_too_much(session):
    nested = "".join(f"$q{at} knows $q{at + 1}  " for at in range(30))
    for block in ("exists", "count", "optional"):
        opened = f"{block} {{ $p knows $q0  {nested} }}"
        with pytest.raises(QueryMemoryError):
            rows(session, where(opened if block == "optional" else f"{opened} {'> 0' if block == 'count' else ''}"))


def test_hundreds_of_stages(session):
    stages = " ".join(f"with {{ v{at} + 1 as v{at + 1} }}" for at in range(200))
    text = f"query q() {{ match {{ $p: Person }} with {{ $p.age as v0 }} {stages} return {{ v200 as v }} }}"
    assert sorted(row["v"] for row in rows(session, text)) == [at + 200 for at in range(COUNT)]


def test_hundreds_of_unions(session):
    part = "match { $p: Person } return { $p.age as a }"
    for word, count in (("union", COUNT), ("union all", 120 * COUNT)):
        assert len(rows(session, f"query q() {{ {f' {word} '.join([part] * 120)} }}")) == count
    mixed = f"{part} union all {part} union {part} union all {part}"
    assert len(rows(session, f"query q() {{ {mixed} }}")) == 2 * COUNT


def test_a_long_chain_of_hops(session):
    hops = "  ".join(f"$p{at} knows $p{at + 1}  $p{at + 1}.age < 0" for at in range(150))
    text = f'query q() {{ match {{ $p0: Person {{ name: "p1" }}  {hops} }} return {{ $p150.name }} }}'
    assert rows(session, text) == []
    chain = "  ".join(f"$p{at} $e{at}:knows $p{at + 1}  $p{at + 1} memberOf $t" for at in range(80))
    assert len(plan(f"match {{ $p0: Person  {chain} }} return {{ $p80.name }}").steps) > 100


@pytest.mark.parametrize(
    "shown",
    [
        "length(" + "replace(" * 9 + "$p.name" + ', "p", "pppppppppp")' * 9 + ")",
        "length(" + "replace(" * 9 + "$p.name" + ', substring($p.name, 0, 1), "pppppppppp")' * 9 + ")",
    ],
)
def test_texts_that_grow_tenfold_again_and_again(session, shown):
    with pytest.raises(QueryMemoryError):
        rows(session, where("$p.age >= 0", f"{shown} as n"))


@pytest.mark.parametrize("doubled", ["concat(v{0}, v{0}, v{0}, v{0})", "v{0} + v{0} + v{0} + v{0}"])
def test_texts_that_grow_from_stage_to_stage(session, doubled):
    stages = " ".join(f"with {{ {doubled.format(at)} as v{at + 1} }}" for at in range(16))
    text = f"query q() {{ match {{ $p: Person }} with {{ $p.name as v0 }} {stages} return {{ length(v16) as n }} }}"
    with pytest.raises(QueryMemoryError):
        rows(session, text)


def test_a_long_parameter_beside_many_rows(session):
    text = "query q($t: String) { match { $p: Person  $q: Person } return { size(split($t, ',')) as n } }"
    with pytest.raises(QueryMemoryError):
        rows(session, text, {"t": "a," * 50_000})
    assert rows(session, text.replace("$q: Person", '$p.name = "p1"'), {"t": "a," * 50_000}) == [{"n": 50_001}]


def test_lists_that_multiply_rows(session):
    text = "query q($t: [I64]) { match { each $x in $t  each $y in $t } return { count(*) as n } }"
    assert rows(session, text, {"t": list(range(300))}) == [{"n": 90_000}]
    with pytest.raises(QueryMemoryError):
        rows(session, text, {"t": list(range(20_000))})


@pytest.mark.parametrize(
    "shown",
    ["power(10.0, 400)", "exp(100000)", "power(-1.0, 0.5)", "ln(0.0)", "9223372036854775807 * 2",
     "abs(-9223372036854775807 - 1)", "today() + years(9223372036854775807)", "today() + days(9000000000000)",
     "now() + hours(9223372036854775807)", "today() - months(9223372036854775807)"],
)  # fmt: skip
def test_numbers_that_leave_their_range(session, shown):
    with pytest.raises(QueryRuntimeError):
        rows(session, where("$p.age >= 0", f"{shown} as n"))


def test_bounds_at_the_end_of_the_range(session):
    most = 2**63 - 1
    ordered = f"query q() {{ match {{ $p: Person }} return {{ $p.age as a }} order {{ a }} limit {most}"
    assert len(rows(session, f"{ordered} }}")) == COUNT
    assert len(rows(session, f"{ordered} per {{ $p.age }} }}")) == COUNT
    cut = ordered.replace("limit", f"offset {most} limit")
    assert rows(session, f"{cut} }}") == []
    assert rows(session, f"{cut} per {{ $p.age }} }}") == []
    assert rows(session, where('$p.name = "p7"', f"substring($p.name, 0, {most}) as n")) == [{"n": "p7"}]
    assert rows(session, where('$p.name = "p7"', f"[1, 2][{most}] as n")) == [{"n": None}]
    for digits, rounded in ((most, 1.5), (400, 1.5), (0, 2.0), (-1, 0.0), (-400, 0.0), (-most, 0.0)):
        assert rows(session, where('$p.name = "p7"', f"round(1.5, {digits}) as n")) == [{"n": rounded}]
