"""What lint doubts: texts with each doubt at its place, and texts like them that are meant."""

from __future__ import annotations

import pytest
from tests.unit.ir.graphs import compile_text

from omnigraph.ir.lint import lint_queries

CATALOG = compile_text(
    """
interface Named { name: String? }
node Person implements Named { slug: String @key  age: I32?  town: String? @index  name: String? }
node Team implements Named { code: String @key  name: String? }
edge Knows: Person -> Person { since: I64? }
edge MemberOf: Person -> Team
"""
)


INDEXED = "add @index to it, or use 'union'"
ONE_HOP = "the ends of MemberOf have different types, so no traversal has more than one hop; leave the bounds out"
PAIRED = "the result is a cross product; add a traversal or a condition that joins them"


def warnings_of(text: str) -> tuple[str, ...]:
    """Return what lint says about a query, which must fit the schema."""
    (result,) = lint_queries(text, "q.gq", CATALOG).results
    assert result.error is None, result.error
    return result.warnings


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (
            "query q($low: I64) { match { $p: Person } return { $p.name } }",
            "1:9: parameter '$low' is never used; remove it, or use it",
        ),
        ("query q() { match { $p: Person $p knows $f } return { $p.name } }", "1:41: '$f' is never used; write '$_'"),
        (
            "query q() { match { $p: Person $p $e:knows $f } return { $p.name, $f.name as other } }",
            "1:35: '$e' is never used; leave the edge variable out",
        ),
        (
            "query q() { match { $p: Person each $i in [1, 2] } return { $p.name } }",
            "1:37: '$i' is never used; remove it, or use it",
        ),
        (
            "query q() { match { $p: Person optional { $p memberOf $t } } return { $p.name } }",
            "1:32: nothing of this optional block is used: it only repeats rows; remove it, or use its variables",
        ),
        (
            "query q() { match { $p: Person $t: Team } return { $p.name, $t.code } }",
            "1:32: nothing connects '$t' with the clauses before it: " + PAIRED,
        ),
        (
            "query q() { match { $p: Person } with { $p } match { $t: Team } return { $p.name, $t.code } }",
            "1:54: nothing connects '$t' with the clauses before it: " + PAIRED,
        ),
        (
            "query q($x: Bool) { match { $p: Person $t: Team $x = true } delete $p, $t }",
            "1:40: nothing connects '$t' with the clauses before it: " + PAIRED,
        ),
        (
            'query q() { match { $p: Person $p.slug = "a" or $p.age > 3 } return { $p.name } }',
            "1:32: '$p.age' has no index, so that the other sides of this 'or' cannot use theirs; " + INDEXED,
        ),
        (
            'query q() { match { $p: Person $t: Team $p memberOf $t $p.slug = "a" or $t.code = "b" } return { $p } }',
            "1:56: this 'or' uses '$p' and '$t', so no index can be used; write two reads with 'union'",
        ),
        (
            "query q() { match { $p: Person } return distinct { $p.slug, $p.name } }",
            "1:52: distinct has no effect: the key of every entity is returned; remove 'distinct'",
        ),
        (
            "query q() { match { $p: Person } return distinct { $p.town, count(*) as n } }",
            "1:52: distinct has no effect: with an aggregate, rows are grouped by everything else; remove 'distinct'",
        ),
        (
            "query q() { match { $p: Person $p memberOf{1,6} $t } return { $p.name, $t.code } }",
            "1:43: " + ONE_HOP,
        ),
        (
            "query q() { match { $p: Person not { $p memberOf{2,} $_ } } return { $p.name } }",
            "1:49: " + ONE_HOP,
        ),
        (
            "query q() { match { $p: Person } return { $p.name } offset 20 limit 10 }",
            "1:43: offset without order: pages are not stable; add 'order { … }'",
        ),
    ],
)
def test_what_is_probably_not_meant_is_said_with_its_place(text: str, warning: str) -> None:
    """One warning each, which says what to do."""
    assert warnings_of(text) == (warning,)


@pytest.mark.parametrize(
    "text",
    [
        'query q($l: String?) { match { $p: Person { slug: "a" } $l is null or $p.slug = $l } return { $p.name } }',
        "query q($low: I64) { match { $p: Person $p.age > $low } return { $p.name } }",
        "query q($n: I64) { match { $p: Person } return { $p.name } order { $p.name } limit $n }",
        "query q() { match { $p: Person $p knows $_ } return { $p.name } }",
        "query q() { match { $p: Person $p knows $_f } return { $p.name } }",
        "query q() { match { $p: Person $p knows $f } return { $p.name, count($f) as n } }",
        "query q() { match { $p: Person $p $e:knows{1,3} $f where $e.since > 3 } return { $p.name, $f.slug } }",
        "query q() { match { $p: Person optional { $p memberOf $t } } return { $p.name, $t.name as team } }",
        "query q() { match { $p: Person exists { $p memberOf $_ } } return { $p.name } }",
        "query q() { match { $p: Person $t: Team $p memberOf $t } return { $p.name, $t.code } }",
        "query q() { match { $p: Person $t: Team $p.name = $t.name } return { $p.slug, $t.code } }",
        'query q() { match { $p: Person { slug: "a" } $o: Person } return { $p.name, $o.name as other } }',
        "query q() { match { $p: Person } with { $p, count(*) as n } match { $p knows $f } return { $f.name, n } }",
        'query q() { match { $p: Person $p.slug = "a" or $p.town = "b" } return { $p.name } }',
        'query q() { match { $p: Person $p.age = 1 or $p.name = "b" } return { $p.slug } }',
        'query q() { match { $p: Person $p.slug = "a" and $p.age > 3 } return { $p.name } }',
        "query q() { match { $p: Person } return distinct { $p.name } }",
        "query q() { match { $p: Person $p knows $f } return distinct { $p.slug, $f.name } }",
        "query q() { match { $x: Named } return distinct { $x.name } }",
        "query q() { match { $p: Person } return { $p.name } order { $p.slug } offset 20 limit 10 }",
        "query q() { match { $p: Person } return { $p.name } limit 10 }",
        "query q() { match { $p: Person } return { $p.name as n } union match { $t: Team } return { $t.name } }",
        "query q($s: String) { match { $p: Person { slug: $s } $p memberOf $t } delete $t }",
    ],
)
def test_what_may_be_meant_is_left_alone(text: str) -> None:
    """A doubt that is often wrong is worse than none."""
    assert warnings_of(text) == ()
