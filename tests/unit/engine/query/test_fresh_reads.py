"""What a read behind a write pays for: what the write changed, and none of what was known before it."""

import pytest

import omnigraph
from omnigraph.engine.query import planned
from omnigraph.engine.query.entities import Entities
from omnigraph.engine.query.output import once, relational
from omnigraph.engine.query.topology import cache as caching
from omnigraph.engine.query.topology import layers as layering
from omnigraph.engine.relational import EnginePool

SCHEMA = """
node Person { name: String @key  age: I32? }
node Town { name: String @key }
edge Knows: Person -> Person { weight: I32? }
"""
COUNT = 40
KNOWS = [(number, (number * 7 + step) % COUNT) for number in range(COUNT) for step in (1, 1, 2)]
ROWS = {
    "Person": [{"name": f"p{number}", "age": number % 3} for number in range(COUNT)],
    "Town": [{"name": "one"}],
    "Knows": [{"from": f"p{one}", "to": f"p{other}", "weight": other} for one, other in KNOWS],
}
HOPS = (
    "query q($name: String) { match { $p: Person { name: $name }  $p knows $f  $f knows $g }"
    " return distinct { $g.name as name } }"
)
OUT = "query q($name: String) { match { $p: Person { name: $name }  $p $e:knows $f } return { $e.weight as w } }"
BACK = "query q($name: String) { match { $p: Person { name: $name }  $f knows $p } return { $f.name as name } }"
INSERT = "query q($one: String, $other: String) { insert Knows { from: $one, to: $other } }"


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(tmp_path / "g", SCHEMA) as made:
        made.load(ROWS)
        yield made


def ends(pairs, name):
    first = {other for one, other in pairs if f"p{one}" == name}
    return sorted({f"p{other}" for one, other in pairs if one in first})


def builds(graph):
    return graph.backend.engine.reads.memory.topology.stats.builds


def found(graph, name):
    return sorted(row["name"] for row in graph.query(HOPS, {"name": name}).rows())


def test_a_write_makes_no_plan_anew_until_the_size_of_a_table_says_so(graph, count):
    pairs = list(KNOWS)
    assert found(graph, "p1") == ends(pairs, "p1")
    plans = count(planned, "plan_read")
    # 120 edges: counts from 120 to 127 make one plan.
    for other in range(8):
        graph.mutate(INSERT, {"one": "p1", "other": f"p{other}"})
        pairs.append((1, other))
        graph.mutate("query q($name: String) { insert Town { name: $name } }", {"name": f"t{other}"})
        assert found(graph, "p1") == ends(pairs, "p1")
        assert len(plans) == (1 if len(pairs) == 128 else 0)


def test_what_a_plan_expects_is_told_for_the_state_that_is_explained(graph):
    text = "query q() { match { $p: Person } return { count($p) as n } }"
    assert graph.query(text).rows() == [{"n": COUNT}]
    for number in range(3):
        graph.mutate("query q($name: String) { insert Person { name: $name } }", {"name": f"x{number}"})
        graph.query(text)
        assert graph.explain(text).steps[0].estimated_rows == COUNT + number + 1


@pytest.fixture
def stored(monkeypatch):
    """However few edges there are, versions are made from one another."""
    monkeypatch.setattr(caching, "LEAST_EDGES", 0)


CHANGES = {
    "an edge comes": (INSERT, {"one": "p1", "other": "p9"}, lambda pairs: [*pairs, (1, 9)]),
    "edges go": (
        "query q() { delete Knows where weight = 9 }",
        {},
        lambda pairs: [pair for pair in pairs if pair[1] != 9],
    ),
    "a node changes": ('query q() { update Person set { age: 77 } where name = "p9" }', {}, list),
    "a node goes": (
        'query q() { delete Person where name = "p9" }',
        {},
        lambda pairs: [pair for pair in pairs if 9 not in pair],
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_reads_behind_a_write_sort_nothing_and_see_it(graph, tmp_path, stored, count, what):
    pairs = list(KNOWS)
    for name in ("p1", "p2", "p3") * 3:
        assert found(graph, name) == ends(pairs, name)
    text, parameters, change = CHANGES[what]
    with omnigraph.open(tmp_path / "g") as other:
        for writer in (graph, other):
            writer.mutate(text, parameters)
            pairs = change(pairs)
            walked = count(layering.LayeredEdges, "overlaid")
            sorted_anew, built = count(layering.LayeredEdges, "adjacency"), builds(graph)
            for name in ("p1", "p2", "p33"):
                assert found(graph, name) == ends(pairs, name)
                weights = [row["w"] for row in graph.query(OUT, {"name": name}).rows()]
                known = [other for one, other in pairs if f"p{one}" == name]
                # The edge that comes has no weight.
                assert sorted(weight for weight in weights if weight is not None) == sorted(
                    other for one, other in KNOWS if f"p{one}" == name and (one, other) in pairs
                )
                assert len(weights) == len(known)
                assert sorted(row["name"] for row in graph.query(BACK, {"name": name}).rows()) == sorted(
                    {f"p{one}" for one, other in pairs if f"p{other}" == name}
                )
            assert (sorted_anew, builds(graph)) == ([], built)
            assert walked != []


@pytest.mark.parametrize("marks", [0, 3, 1 << 22], ids=["listed", "first marked", "marked"])
def test_an_entity_that_many_rows_lead_to_is_looked_at_once(graph, count, monkeypatch, marks):
    monkeypatch.setattr(once, "_MARKS", marks)
    monkeypatch.setattr(relational, "MOST_ROWS", 0)
    match = "$p: Person  $p knows $f  $f knows $g"
    text = f"query q() {{ match {{ {match} }} return distinct {{ $g.name as name, $g.age as age }} }}"
    graph.query(text)
    taken, engines = count(Entities, "values"), count(EnginePool, "take")
    rows = graph.query(text).rows()
    reached = {other for one, other in KNOWS if one in {middle for _, middle in KNOWS}}
    assert sorted(row["name"] for row in rows) == sorted(f"p{number}" for number in reached)
    assert all(row["age"] == int(row["name"][1:]) % 3 for row in rows)
    assert {len(arguments[1]) for arguments in taken if arguments[2] in {"name", "age"}} == {len(reached)}
    assert engines == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("return distinct { $g.age as v } order { $g.age }", [0, 1, 2]),
        ("return distinct { $g.age * 2 as v } order { v desc } limit 2", [4, 2]),
        ("return distinct { $g.name as v } order { $g.name } offset 1 limit 2", ["p1", "p10"]),
        ("return distinct { $p.age as v } order { $p.age }", [0, 1, 2]),
        ("return distinct { 1 as v }", [1]),
    ],
)
def test_values_that_entities_share_are_still_told_once(graph, text, expected):
    rows = graph.query(f"query q() {{ match {{ $p: Person  $p knows $g }} {text} }}").rows()
    assert [row["v"] for row in rows] == expected


def test_somebody_who_is_missing_is_one_row(graph):
    graph.mutate('query q() { insert Person { name: "alone" } insert Person { name: "lonely" } }')
    text = "query q() { match { $p: Person  optional { $p knows $f } } return distinct { $f.name as name } }"
    rows = [row["name"] for row in graph.query(text).rows()]
    assert rows.count(None) == 1
    assert len(rows) == len(set(rows)) == 1 + len({other for _, other in KNOWS})


def test_a_read_of_what_is_pending_shares_nothing_with_other_transactions(tmp_path, stored):
    everyone = (
        "query q() { match { $p: Person  $p knows{1,2} $f  $f.name != $p.name }"
        " return { $p.name as one, $f.name as other } }"
    )
    near = {(one, other) for one, other in KNOWS} | {(a, d) for a, b in KNOWS for c, d in KNOWS if b == c}
    pairs = sorted((f"p{one}", f"p{other}") for one, other in near if one != other)
    with omnigraph.init(tmp_path / "g", SCHEMA) as graph:
        graph.load({**ROWS, "Person": [{"name": "a loner"}, *ROWS["Person"]]})
        for text in (
            'query q() { insert Person { name: "new" } }',
            # From here on rows of the copy have other row ids than those of the transaction before.
            'query q() { delete Person where name = "a loner" }',
        ):
            with graph.transaction() as transaction:
                transaction.mutate(text)
                assert sorted((row["one"], row["other"]) for row in transaction.query(everyone).rows()) == pairs
                transaction.rollback()
    assert list((tmp_path / "g").rglob("adjacency*")) == []
