"""A read that was asked before is not parsed or planned again, and few rows stay where they are."""

from __future__ import annotations

import pytest
from tests.session_graph import RELAXED

import omnigraph
from omnigraph.engine.query import planned
from omnigraph.engine.query.operators import scan
from omnigraph.engine.query.output import aggregates, ordering, relational
from omnigraph.engine.relational import EnginePool
from omnigraph.errors import ValueFormatError
from omnigraph.ir import compile as compiling

SCHEMA = """
node Person { name: String @key  age: I32?  height: F64? }
node Day { number: I32 @key  name: String }
edge Knows: Person -> Person
"""
ROWS = {
    "Person": [
        {"name": f"p{number}", "age": None if number % 5 == 0 else number % 3, "height": number % 2 + 0.5}
        for number in range(20)
    ],
    "Day": [{"number": number, "name": f"d{number}"} for number in range(3)],
    "Knows": [{"from": f"p{number}", "to": f"p{(number * 7 + step) % 20}"} for number in range(20) for step in (1, 2)],
}
IN_MEMORY = omnigraph.QueryOptions(mode="csr")
POINT = "query q($name: String) { match { $p: Person { name: $name } } return { $p.age } }"
HOPS = (
    "query q($name: String) { match { $p: Person { name: $name }  $p knows $f  $f knows $g }"
    " return distinct { $g.name } }"
)


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    with omnigraph.init(tmp_path_factory.mktemp("graphs") / "g", SCHEMA) as made:
        made.load(ROWS)
        yield made


@pytest.mark.parametrize("text", [POINT, HOPS], ids=["point lookup", "two hops"])
def test_a_repeated_read_is_parsed_and_planned_once(graph, count, text):
    graph.query(text, {"name": "p1"})
    watched = [count(compiling, "parse_queries"), count(planned, "plan_read")]
    answers = [graph.query(text, {"name": f"p{number}"}).rows() for number in range(20)]
    assert watched == [[]] * len(watched)
    assert len({repr(answer) for answer in answers}) > 1


def test_a_repeated_lookup_reads_nothing_however_many_tables_and_rows_there_are(tmp_path):
    costs = set()
    for types, rows in ((1, 20), (60, 20), (1, 20_000)):
        others = "\n".join(f"node Other{number} {{ name: String @key }}" for number in range(types))
        with omnigraph.init(tmp_path / f"{types}-{rows}", f"{SCHEMA}\n{others}", settings=RELAXED) as made:
            made.load({"Person": [{"name": f"p{number}", "age": 1} for number in range(rows)]})
            made.optimize()
            for number in range(60):
                cost = made.query(POINT, {"name": f"p{number % 20}"}, options=IN_MEMORY).cost
            costs.add((cost.total_calls, cost.serial_stages, cost.bytes_read))
    # Whether there is a newer version is all that is asked.
    assert costs == {(0, 1, 0)}


def test_a_read_behind_a_write_sees_it_whoever_wrote(graph, tmp_path):
    place = tmp_path / "g"
    with omnigraph.init(place, SCHEMA) as one, omnigraph.open(place) as other:
        for number in range(8):
            (one if number % 2 else other).mutate(f'query q() {{ insert Day {{ number: {number}, name: "d" }} }}')
            for reader in (one, other):
                read = reader.query("query q() { match { $d: Day } return { count($d) as n } }").rows()
                assert read == [{"n": number + 1}]


def test_every_run_of_a_plan_has_figures_of_its_own(graph):
    one, other = (graph.query(HOPS, {"name": name}) for name in ("p1", "nobody"))
    assert [step.rows for step in one.info.explanation.steps] != [step.rows for step in other.info.explanation.steps]
    assert [step.label for step in one.info.explanation.steps] == [step.label for step in other.info.explanation.steps]


def test_a_key_that_was_looked_up_is_not_compared_again(graph, count):
    compared = count(scan, "evaluate")
    assert graph.query(POINT, {"name": "p7"}).rows() == [{"p.age": 1}]
    assert compared == []


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("$p: Person { name: $name }  $p.age = 1", 1),
        ("$p: Person { name: $name }  $p.age = 2", 0),
        ('$p: Person { name: $name }  $p.name = "p7"', 1),
        ('$p: Person { name: $name }  $p.name = "p8"', 0),
        ('$p: Person { name: $name }  $p.name != "p7"', 0),
        ("$p: Person { name: $name }  $p.name = null", 0),
    ],
)
def test_every_other_filter_still_decides(graph, pattern, found):
    text = f"query q($name: String) {{ match {{ {pattern} }} return {{ $p.name }} }}"
    assert len(graph.query(text, {"name": "p7"}).rows()) == found


def test_the_filter_of_a_key_that_is_no_text_still_decides(graph, count):
    compared = count(scan, "evaluate")
    text = "query q($number: I32) { match { $d: Day { number: $number } } return { $d.name } }"
    assert graph.query(text, {"number": 2}).rows() == [{"d.name": "d2"}]
    assert len(compared) == 1


DISTINCT = {
    "texts": "return distinct { $p.name, $f.name }",
    "one number, NULL once": "return distinct { $f.age }",
    "numbers and texts": "return distinct { $p.age, $f.name }",
    "truth": "return distinct { $p.age = 1 as same }",
    "cut": "return distinct { $f.age } limit 2",
    "floats": "return distinct { $f.height }",
    "ordered": "return distinct { $f.name } order { $f.name }",
}


@pytest.mark.parametrize("returned", DISTINCT.values(), ids=DISTINCT)
def test_few_rows_are_made_distinct_where_they_are_and_as_the_engine_would(graph, count, monkeypatch, returned):
    text = f"query q() {{ match {{ $p: Person  $p knows $f }} {returned} }}"
    taken = count(EnginePool, "take")
    few = graph.query(text).rows()
    assert taken == []
    monkeypatch.setattr(relational, "MOST_ROWS", 0)
    many = graph.query(text).rows()
    assert len(taken) == 1
    assert len(few) == len({repr(row) for row in few})
    if "limit" in returned:
        assert len(few) == len(many)
    else:
        assert sorted(map(repr, few)) == sorted(map(repr, many))


@pytest.mark.parametrize("limit", ["MOST_ROWS", "MOST_BYTES"])
def test_what_is_too_much_to_stay_reaches_the_engine_whole(graph, monkeypatch, limit):
    text = "query q() { match { $p: Person  $f: Person } return distinct { $p.name, $f.name } }"
    monkeypatch.setattr(relational, limit, 100)
    assert len(graph.query(text).rows()) == 400


ORDERS = {
    "ties by entity": "order { $g.age }",
    "ties behind two keys": "order { $g.age desc, $f.age }",
    "no ties": "order { $g.name desc, $f.name, $p.name }",
    "one key for all": "order { $p.name }",
}


@pytest.mark.parametrize("limit", ["", "limit 1", "limit 7", "limit 1000"])
@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_few_rows_have_the_order_of_many(graph, monkeypatch, order, limit):
    text = (
        "query q($name: String) { match { $p: Person { name: $name }  $p knows $f  $f knows $g }"
        f" return {{ $g.name, $f.name, $g.age }} {order} {limit} }}"
    )
    few = [graph.query(text, {"name": f"p{number}"}).rows() for number in range(20)]
    monkeypatch.setattr(ordering, "_RANKED_ROWS", 0)
    assert few == [graph.query(text, {"name": f"p{number}"}).rows() for number in range(20)]


@pytest.mark.parametrize("returned", ["count($g) as n", "count($g) as n, count($p) as m"])
def test_rows_that_are_only_counted_are_counted_as_groups_would_be(graph, monkeypatch, returned):
    text = f"query q() {{ match {{ $p: Person  $p knows $f  $f knows $g }} return {{ {returned} }} }}"
    nothing = f'query q() {{ match {{ $p: Person {{ name: "x" }}  $p knows $g }} return {{ {returned} }} }}'
    counted = [graph.query(one).rows() for one in (text, nothing)]
    monkeypatch.setattr(aggregates, "_counts_rows", lambda _: False)
    assert counted == [graph.query(one).rows() for one in (text, nothing)]
    assert [row["n"] > 0 for (row,) in counted] == [True, False]


def test_a_name_that_is_no_text_is_refused_however_often_the_text_was_asked(graph):
    graph.query(POINT, {"name": "p1"})
    for name in ([], 7):
        with pytest.raises(ValueFormatError, match="name must be text"):
            graph.query(POINT, {"name": "p1"}, name)
