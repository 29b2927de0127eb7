"""An enum parameter that is no member of the enum is legal, and the result says that it was probably not meant."""

from __future__ import annotations

import json

import pytest

import omnigraph
from omnigraph.errors import ConstraintViolationError

SCHEMA = "node Person { slug: String @key  level: enum(junior, senior, lead)  mood: enum(good, bad)? }"
MEANT = "parameter 'l' is 'laed', which is not a value of 'level': did you mean 'lead'?"
UNMEANT = "parameter 'l' is 'boss', which is not a value of 'level': expected junior, lead, senior"


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(tmp_path / "g", SCHEMA) as opened:
        opened.mutate('query add() { insert Person { slug: "a", level: "lead" } }')
        yield opened


READS = {
    "inline": "match { $p: Person { level: $l } }",
    "filter": "match { $p: Person  $p.level = $l }",
    "turned": "match { $p: Person  $l = $p.level }",
    "condition": 'match { $p: Person  $p.level = $l or $p.slug = "z" }',
    "list": "match { $p: Person  $p.level in [$l] }",
    "block": "match { $p: Person  exists { $p.level = $l } }",
    "stage": "match { $p: Person } with { $p, $p.level as level } having level = $l",
}


@pytest.mark.parametrize("match", READS.values(), ids=READS.keys())
def test_read_tells_of_a_parameter_that_its_enum_does_not_have(graph, match):
    text = f"query q($l: String) {{ {match} return {{ $p.slug }} }}"
    found = graph.query(text, {"l": "laed"})
    assert found.rows() == []
    assert found.warnings == (MEANT,)
    assert json.loads(found.to_json())["warnings"] == [MEANT]
    assert str(found).endswith(f"warning: {MEANT}")
    assert graph.query(text, {"l": "boss"}).warnings == (UNMEANT,)
    fine = graph.query(text, {"l": "lead"})
    assert (len(fine), fine.warnings) == (1, ())
    assert "warnings" not in json.loads(fine.to_json())


def test_items_of_a_list_are_looked_at_one_by_one(graph):
    text = (
        "query q($l: [String], $m: String?) { match { $p: Person  $p.level in $l  $p.mood != $m } return { $p.slug } }"
    )
    assert graph.query(text, {"l": ["lead", "laed", "boss"]}).warnings == (MEANT, UNMEANT)


def test_mutation_tells_of_it_too_and_refuses_to_assign_it(graph):
    text = 'query q($l: String) { update Person set { mood: "bad" } where level = $l }'
    done = graph.mutate(text, {"l": "laed"})
    assert (done.updated, done.warnings) == (0, (MEANT,))
    assert done.to_json()["warnings"] == [MEANT]
    assert graph.mutate_batch(text, [{"l": "boss"}, {"l": "lead"}, {"l": "boss"}]).warnings == (UNMEANT,)
    matched = 'query q($l: String) { match { $p: Person { level: $l } } update $p set { mood: "bad" } }'
    assert graph.mutate(matched, {"l": "laed"}).warnings == (MEANT,)
    assert "warnings" not in graph.mutate(text, {"l": "lead"}).to_json()
    with pytest.raises(ConstraintViolationError, match="'laed'"):
        graph.mutate('query q($l: String) { insert Person { slug: "b", level: $l } }', {"l": "laed"})
