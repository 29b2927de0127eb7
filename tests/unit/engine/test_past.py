"""Reads of earlier states under the names of now: types and properties are found by identity, never by name."""

from __future__ import annotations

import pytest

import omnigraph
from omnigraph import QueryOptions
from omnigraph.errors import QueryTypeError

SCHEMA = """
interface Named {
    name: String
}
node Person implements Named {
    slug: String @key
    age: I32 @index
    team: String?
}
node Robot implements Named {
    serial: String @key
}
edge Knows: Person -> Person {
    since: I32
}
"""
LATER = """
interface Named {
    label: String @rename_from("name")
}
node Human @rename_from("Person") implements Named {
    slug: String @key
    years: I64 @rename_from("age") @index
    city: String?
}
node Person implements Named {
    code: String @key
}
edge Meets: Human -> Human @rename_from("Knows") {
    year: I64 @rename_from("since")
}
"""
REUSED = "node Person implements Named {\n    code: String @key\n}\n"
ROWS = """
insert Person { slug: "ada", name: "Ada", age: 36, team: "x" }
insert Person { slug: "bo", name: "Bo", age: 20 }
insert Robot { serial: "r1", name: "Robbie" }
insert Knows { from: "ada", to: "bo", since: 2019 }
"""
MODES = ("indexed", "csr")


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    """A graph whose types and properties got other names, and whose old name of a type was given to another one."""
    with omnigraph.init(tmp_path_factory.mktemp("past") / "g.omni", SCHEMA) as graph:
        graph.mutate(f"query m() {{ {ROWS} }}")
        graph.create_tag("before")
        graph.create_branch("old")
        without_robots = SCHEMA.replace("node Robot implements Named {\n    serial: String @key\n}\n", "")
        graph.apply_schema(without_robots, allow_data_loss=False)
        graph.apply_schema(LATER.replace(REUSED, ""))
        graph.apply_schema(LATER)
        graph.mutate(
            'query m() { insert Person { code: "p", label: "P" } update Human set { years: 37 } where slug = "ada" }'
        )
        yield graph


def _rows(state, text, **options):
    return [
        state.query(f"query q() {{ {text} }}", options=QueryOptions(mode=mode, **options)).to_arrow().to_pylist()
        for mode in MODES
    ]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (
            "match { $h: Human } return { $h.slug, $h.years, $h.label, $h.city } order { $h.slug }",
            [
                {"h.slug": "ada", "h.years": 36, "h.label": "Ada", "h.city": None},
                {"h.slug": "bo", "h.years": 20, "h.label": "Bo", "h.city": None},
            ],
        ),
        ("match { $h: Human { years: 20 } } return { $h.slug }", [{"h.slug": "bo"}]),
        ('match { $h: Human { slug: "ada" } } return { $h.years as y }', [{"y": 36}]),
        ("match { $h: Human $h.years > 30 } return { $h.slug }", [{"h.slug": "ada"}]),
        (
            "match { $a $m:meets $b } return { $a.slug, $b.years, $m.year }",
            [{"a.slug": "ada", "b.years": 20, "m.year": 2019}],
        ),
        ("match { $h: Human } return { sum($h.years) as s, count($h.city) as c }", [{"s": 56, "c": 0}]),
        ("match { $n: Named } return { $n.label as l } order { l }", [{"l": "Ada"}, {"l": "Bo"}]),
        ('match { $h: Human search($h.label, "ada") } return { $h.slug }', [{"h.slug": "ada"}]),
    ],
)
def test_a_query_of_now_reads_an_earlier_state_under_the_names_of_now(graph, text, rows):
    assert _rows(graph.at("tag:before"), text) == [rows, rows]


def test_a_name_that_was_given_to_another_type_does_not_catch_the_rows_of_the_first(graph):
    with pytest.raises(QueryTypeError, match="node type 'Person' does not exist at this snapshot") as caught:
        graph.at("tag:before").query("query q() { match { $p: Person } return { $p.label } }")
    assert "schema of that commit" in str(caught.value.details.suggestion)
    assert graph.query("query q() { match { $p: Person } return { $p.code } }").to_arrow().to_pylist() == [
        {"p.code": "p"}
    ]


def test_the_schema_of_the_commit_is_a_mode(graph):
    text = "match { $p: Person } return { $p.name, $p.age, $p.team } order { $p.age }"
    rows = [{"p.name": "Bo", "p.age": 20, "p.team": None}, {"p.name": "Ada", "p.age": 36, "p.team": "x"}]
    assert _rows(graph.at("tag:before"), text, schema="commit") == [rows, rows]
    with pytest.raises(QueryTypeError):
        graph.at("tag:before").query(
            "query q() { match { $h: Human } return { $h } }", options=QueryOptions(schema="commit")
        )


def test_a_reference_that_names_a_branch_uses_the_names_of_that_branch(graph):
    found = graph.at("old~0").query("query q() { match { $p: Person } return { $p.age } order { $p.age } }")
    assert found.to_arrow().to_pylist() == [{"p.age": 20}, {"p.age": 36}]
    from_old = graph.branch("old").at("tag:before")
    assert len(from_old.query("query q() { match { $p: Person } return { $p.age } }").to_arrow().to_pylist()) == 2


def test_an_entity_is_found_by_the_name_of_its_type_now(graph):
    found = graph.at("tag:before").entity("Human", "ada")
    assert found.type_name == "Human"
    assert found.properties == {"slug": "ada", "years": 36, "label": "Ada", "city": None}


def test_versions_are_those_of_the_state(graph):
    before = graph.at("tag:before")
    (rows, _) = _rows(before, "match { $h: Human } return { version($h) as v }")
    assert {row["v"] for row in rows} == {str(before.commit.id)}


def test_repeated_reads_of_one_schema_share_a_catalog(graph):
    reads = graph._backend._engine.reads
    first, second = (reads.resolve("main", "tag:before")[1] for _ in range(2))
    assert first is not None
    assert first.catalog is second.catalog
