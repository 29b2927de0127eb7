"""Completion: what is offered at each kind of place, and what is not."""

from __future__ import annotations

import pytest
from tests.unit.ir.graphs import compile_text

from omnigraph.ir.complete import Completion, complete
from omnigraph.ir.functions import FUNCTIONS
from omnigraph.lang.gq.parser import scan_queries, words_of

CATALOG = compile_text(
    """
interface Named { name: String }
node Person implements Named { slug: String @key  age: I32?  name: String }
node Team implements Named { code: String @key  name: String }
edge Knows: Person -> Person { since: Date? }
edge MemberOf: Person -> Team { role: String? }
"""
)


def offers(text: str) -> list[Completion]:
    """Complete at the bar of a text."""
    before, _bar, after = text.partition("¦")
    return complete(before + after, len(before), CATALOG)


def texts(text: str, kind: str | None = None) -> list[str]:
    """Return the texts that are offered, of one kind."""
    return [item.text for item in offers(text) if kind is None or item.kind == kind]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("¦", ["query"]),
        ("qu¦", ["query"]),
        ("query q(¦", []),
        (
            "query q($a: ¦",
            [
                "Blob",
                "Bool",
                "Date",
                "DateTime",
                "Decimal",
                "F32",
                "F64",
                "I32",
                "I64",
                "String",
                "U32",
                "U64",
                "Vector",
            ],
        ),
        ("query q($a: Str¦", ["String"]),
        ("query q() { ma¦", ["match"]),
        ("query q() { match { $p: ¦", ["Person", "Team", "Named"]),
        ("query q() { match { $p: P¦ } return { $p.name }", ["Person"]),
        ("query q() { match { $p: Person { ¦", ["age", "name", "slug"]),
        ("query q() { match { $p: Named { ¦", ["name"]),
        ("query q() { match { $p: Person { slug: 'a', a¦", ["age"]),
        ("query q() { match { $p: Person $p.¦", ["age", "name", "slug"]),
        ("query q() { match { $p: Person $p.a¦", ["age"]),
        ("query q() { match { $p: Person $p knows|m¦", ["memberOf"]),
        ("query q() { match { $p: Person $p $e:¦", ["knows", "memberOf"]),
        ("query q() { match { $p: Person $p $e:knows $f } return { $e.¦", ["since"]),
        ("query q() { match { $p: Person $p memberOf $t } return { $t.¦", ["code", "name"]),
        ("query q() { match { $t: Team $t memberOf $m } return { $m.a¦", ["age"]),
        ("query q() { match { $p <knows>{1,3} $f $f.s¦", ["slug"]),
        ("query q() { match { $p: Person } return { $p.name as n } ord¦", ["order"]),
        ("query q() { match { $p: Person } return ¦", ["distinct"]),
        ("query q() { match { $p: Person } return { count(dis¦", ["distinct"]),
        ("query q() { match { $p: Person } return { $p.name } order { $p.name nu¦", ["nulls"]),
        ("query q() { match { $p: Person } return { $p.name } order { $p.name nulls ¦", ["first", "last"]),
        ("query q() { match { $p: Person } return { $p.name } limit 3 p¦", ["per"]),
        ("query q() { insert P¦", ["Person"]),
        ("query q() { insert ¦", ["Knows", "MemberOf", "Person", "Team"]),
        ("query q() { insert MemberOf { ¦", ["from", "role", "to"]),
        ("query q() { insert MemberOf { from: 'a' ro¦", ["role"]),
        ("query q() { update Person set { a¦", ["age"]),
        ("query q() { update Person set { age: 1 } wh¦", ["where"]),
        ("query q() { update Person set { age: 1 } where sl¦", ["slug"]),
        ("query q() { match { $p: Person } update $p set { na¦", ["name"]),
        ("query q() { match { $p: Person } delete ¦", ["$p", "Knows", "MemberOf", "Person", "Team"]),
        ("query q() { match { $p: Person } delete $p match { $t: Team } delete $¦", ["$t"]),
        ("query q() { match { $p: Person } insert Team { code: $p.slug } f¦", ["for"]),
    ],
)
def test_a_place_offers_what_can_stand_there(text: str, wanted: list[str]) -> None:
    """Names come from the schema, keywords from the state of the parser."""
    assert sorted(texts(text)) == sorted(wanted)


def test_variables_are_offered_with_what_they_are() -> None:
    """Parameters stand where a value can, and say their type like bound variables."""
    found = offers("query q($low: I64?) { match { $p: Person $p knows $friend $p.age > $¦")
    shown = {item.text: item.detail for item in found if item.kind == "variable"}
    assert shown == {"$p": "Person", "$friend": "Person", "$low": "I64?"}
    assert all(
        item.start == len("query q($low: I64?) { match { $p: Person $p knows $friend $p.age > ") for item in found
    )


def test_an_edge_is_offered_behind_a_variable_only_in_a_match() -> None:
    """In a return another projection may follow a variable, but never an edge."""
    assert "knows" in texts("query q() { match { $p: Person $p ¦", "edge")
    assert texts("query q() { match { $p: Person } return { $p ¦", "edge") == []


def test_functions_are_offered_with_their_signatures() -> None:
    """Every function of the table is offered where a value can begin, aggregates where rows are returned."""
    matched = {item.text: item for item in offers("query q() { match { $p: Person ¦") if item.kind == "function"}
    assert set(FUNCTIONS) <= set(matched)
    assert matched["substring"].detail == FUNCTIONS["substring"].signature
    assert "sum" not in matched
    assert "sum" in texts("query q() { match { $p: Person } return { ¦", "function")
    assert texts("query q() { match { $p: Person ¦ ", "keyword").count("optional") == 1
    assert "optional" not in texts("query q() { match { $p: Person $p.age > ¦ ")


def test_behind_a_stage_only_what_it_names_is_offered() -> None:
    """Variables that a with leaves out are gone, aliases are there."""
    found = texts("query q() { match { $p: Person $p memberOf $t } with { $t, count($p) as n } match { $t.¦")
    assert found == ["code", "name"]
    staged = "query q() { match { $p: Person $p memberOf $t } with { $t, max($p.age) as n } match { ¦"
    assert texts(staged, "variable") == ["$t"]
    assert texts(staged.replace("$t, max", "$t as team, max"), "variable") == ["$team"]
    assert "n" in texts(staged, "alias")
    ordered = "query q() { match { $p: Person } return { $p.name as who } order { wh¦"
    assert texts(ordered) == ["who"]


def test_what_a_block_binds_stays_in_the_block() -> None:
    """A variable of exists is no variable of the rows."""
    text = "query q() { match { $p: Person exists { $p knows $f } } return { $¦"
    assert texts(text) == ["$p"]


@pytest.mark.parametrize(
    "text",
    [
        "query q() { match { $p: Person { slug: 'a¦",
        'query q() { match { $p: Person { slug: "a $¦',
        "query q() { match { $p: Person // $¦",
        "query q() { match { /* $¦",
        "query q() { match } $¦",
        "query q() { match { $p: Person } return { $x.¦",
        "query q() { match { $p: Person } return { $p.name as ¦",
    ],
)
def test_nothing_is_offered_where_nothing_is_known(text: str) -> None:
    """Strings, comments, errors and unknown variables offer nothing."""
    assert texts(text) == []


def test_a_text_of_any_cut_is_completed_without_an_error() -> None:
    """Whatever was typed so far, completion answers, and what was written is among the offers."""
    text = (
        "query top($least: I64) { match { $t: Team optional { $p memberOf $t } not { $p knows $_ } }"
        " with { $t, count($p) as n } having n >= $least match { path $w: $a knows{1,3} $b each $i in [1, 2] }"
        " return distinct { $t.name as team, n, case when n > 1 then 'a' else null end as c }"
        " order { n desc nulls last } offset 1 limit 3 per { team } }"
    )
    scan = scan_queries(text)
    for position in range(len(text) + 1):
        assert all(item.start <= position for item in complete(text, position, CATALOG))
    words = [token for token in scan.tokens if words_of(token.type)]
    missed = [token for token in words if str(token) not in offered_at(text, token.start_pos)]
    assert missed == []


def offered_at(text: str, position: int) -> set[str]:
    """Return the words that are offered at a place."""
    return {item.text for item in complete(text, position, CATALOG)}
