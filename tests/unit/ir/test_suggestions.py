"""What a slip gets back: the near name, or what to write here, in every construct where a name can stand."""

from __future__ import annotations

import pytest
from tests.unit.ir.graphs import compile_text

from omnigraph.errors import DiagnosticError
from omnigraph.ir import compile_query

CATALOG = compile_text(
    """
interface Named { name: String }
node Person implements Named {
    slug: String @key
    age: I32?
    name: String
    tags: [String]?
    bio: Vector(2)?
    text: String?
}
node Team implements Named { code: String @key  name: String }
edge Knows: Person -> Person { since: Date?  weight: I64? }
edge Likes: Person -> Person { weight: I64? }
edge MemberOf: Person -> Team { role: String? }
"""
)


@pytest.mark.parametrize(
    ("body", "suggestion"),
    [
        ("match { $p: Persn } return { $p }", "did you mean 'Person'?"),
        ("match { $p: Naemd } return { $p }", "did you mean 'Named'?"),
        ("match { $p: Person optional { $t: Taem } } return { $p }", "did you mean 'Team'?"),
        ("match { $p: Person exists { $t: Taem $p memberOf $t } } return { $p }", "did you mean 'Team'?"),
        ('insert Persn { slug: "a" }', "did you mean 'Person'?"),
        ('upsert Persn { slug: "a" }', "did you mean 'Person'?"),
        ('update Persn set { age: 1 } where slug = "a"', "did you mean 'Person'?"),
        ('delete Knws where from = "a"', "did you mean 'Knows'?"),
        ("match { $p: Person $p knws $f } return { $p.name }", "did you mean 'knows'?"),
        ("match { $p: Person $p knows|lies $f } return { $p.name }", "did you mean 'likes'?"),
        ("match { $p: Person path $w: $p knws{1,3} $f } return { $p.name }", "did you mean 'knows'?"),
        ("match { $p: Person $p $e:knws{1,2} $f where $e.weight > 1 } return { $p.name }", "did you mean 'knows'?"),
        ("match { $p: Person $p <knws> $f } return { $p.name }", "did you mean 'knows'?"),
        ("match { $p: Person not { $p knws $f } } return { $p.name }", "did you mean 'knows'?"),
        ("match { $p: Person optional { $p knws $f } } return { $p.name }", "did you mean 'knows'?"),
        ("match { $p: Person count { $p knws $f } > 1 } return { $p.name }", "did you mean 'knows'?"),
        ("match { $person: Person $persn.age > 1 } return { $person }", "did you mean '$person'?"),
        ("match { $person: Person } return { $persn.age }", "did you mean '$person'?"),
        ("match { $person: Person } return { id($persn) }", "did you mean '$person'?"),
        ("match { $person: Person } return { count($persn) }", "did you mean '$person'?"),
        ("match { $person: Person } return { $person.name } order { $persn.age }", "did you mean '$person'?"),
        ("match { $person: Person each $t in $persn.tags } return { $person }", "did you mean '$person'?"),
        (
            "match { $person: Person exists { $person knows $f $persn.age > 1 } } return { $person }",
            "did you mean '$person'?",
        ),
        ("match { $person: Person } with { $persn } return { $persn }", "did you mean '$person'?"),
        ("match { $person: Person } with { $person, count(*) as n } return { $persn.name }", "did you mean '$person'?"),
        (
            "match { $person: Person } return { $person.name as n } limit 3 per { $persn.age }",
            "did you mean '$person'?",
        ),
        ("match { $person: Person } update $persn set { age: 1 }", "did you mean '$person'?"),
        ("match { $person: Person } delete $persn", "did you mean '$person'?"),
        (
            'match { $person: Person } insert Team { code: $persn.slug, name: "a" } for each $person',
            "did you mean '$person'?",
        ),
        ('match { $person: Person } insert Team { code: "a", name: "a" } for each $persn', "did you mean '$person'?"),
        ("match { $person: Person } update $person set { age: $persn.age }", "did you mean '$person'?"),
        ("match { $person: Person { age: $minimm } } return { $person }", "did you mean '$minimum'?"),
        ("match { $person: Person $person.age > $minimm } return { $person }", "did you mean '$minimum'?"),
        ("match { $person: Person } return { $person } limit $minimm", "did you mean '$minimum'?"),
        ("match { $person: Person } return { $person } offset $minimm", "did you mean '$minimum'?"),
        ("match { $person: Person path $way: $person knows{1,3} $f } return { length($wy) }", "did you mean '$way'?"),
        ('match { $person: Person each $tag in $person.tags $tg = "a" } return { $person }', "did you mean '$tag'?"),
        ("match { $person: Person $person $edge:knows $f } return { $edg.since }", "did you mean '$edge'?"),
        (
            "match { $person: Person $person $edge:knows{1,2} $f where $edg.weight > 1 } return { $f }",
            "did you mean '$edge'?",
        ),
        ("match { $person: Person } return { sum($person.age where $persn.age > 1) as s }", "did you mean '$person'?"),
        ('update Person set { age: $minimm } where slug = "a"', "did you mean '$minimum'?"),
        ("update Person set { age: 1 } where slug = $minimm", "did you mean '$minimum'?"),
        ('update Person set { age: 1 } where slug = "a" if version = $minimm', "did you mean '$minimum'?"),
        ("delete Person where age > $minimm + 1", "did you mean '$minimum'?"),
        ('match { $person: Person search($persn.text, "a") } return { $person }', "did you mean '$person'?"),
        (
            "match { $person: Person } return { $person.name } order { nearest($persn.bio, [1.0, 2.0]) } limit 3",
            "did you mean '$person'?",
        ),
        (
            "match { $person: Person } return { $person.name } order { nearest($person.boi, [1.0, 2.0]) } limit 3",
            "did you mean 'bio'?",
        ),
        ("match { $p: Person { agee: 1 } } return { $p }", "did you mean 'age'?"),
        ("match { $p: Person $p.agee > 1 } return { $p }", "did you mean 'age'?"),
        ("match { $p: Person } return { $p.agee }", "did you mean 'age'?"),
        ("match { $p: Person } return { $p.name } order { $p.agee }", "did you mean 'age'?"),
        ('match { $x: Named $x.nme = "a" } return { $x }', "did you mean 'name'?"),
        ("match { $p $e:knows|likes $f $e.wieght > 1 } return { $p }", "did you mean 'weight'?"),
        ("match { $p $e:knows{1,2} $f where $e.wieght > 1 } return { $p }", "did you mean 'weight'?"),
        ("match { $p: Person } return { sum($p.agee) as s }", "did you mean 'age'?"),
        ("match { $p: Person optional { $p knows $f $f.agee > 1 } } return { $p }", "did you mean 'age'?"),
        ("match { $p: Person each $t in $p.tgas } return { $t }", "did you mean 'tags'?"),
        ('insert Person { slug: "a", nme: "b" }', "did you mean 'name'?"),
        ('upsert Person { slug: "a", nme: "b" }', "did you mean 'name'?"),
        ('update Person set { agee: 1 } where slug = "a"', "did you mean 'age'?"),
        ('update Person set { age: agee + 1 } where slug = "a"', "did you mean 'age'?"),
        ('update Person set { age: 1 } where slgu = "a"', "did you mean 'slug'?"),
        ('update Person set { age: 1 } where slgu = "a" or age > 1', "did you mean 'slug'?"),
        ('delete Person where lower(slgu) = "a"', "did you mean 'slug'?"),
        ("match { $p: Person } update $p set { agee: 1 }", "did you mean 'age'?"),
        ('insert Knows { form: "a", to: "b" }', "did you mean 'from'?"),
        ('delete Knows where form = "a" and to = "b"', "did you mean 'from'?"),
        ('delete Knows where src = "a"', "write 'from'"),
        ('update Knows set { wieght: 1 } where from = "a"', "did you mean 'weight'?"),
        ('match { $p: Person { id: "a" } } return { $p }', "write id($p)"),
        ('match { $p: Person $p.id = "a" } return { $p }', "write id($p)"),
        (
            'match { $a $e:knows $b $e.from = "a" } return { $a }',
            "write id($a) of the node at this end: '$a $e:knows $b'",
        ),
        (
            'match { $a $e:knows $b $e.src = "a" } return { $a }',
            "write id($a) of the node at this end: '$a $e:knows $b'",
        ),
        ('update Person set { age: 1 } where slug = "a" return { nme }', "did you mean 'name'?"),
        ("match { $p: Person } update $p set { age: 1 } return { $p.nme }", "did you mean 'name'?"),
        ('match { $p: Person lowr($p.name) = "a" } return { $p }', "did you mean 'lower'?"),
        ("match { $p: Person } return { lenght($p.name) }", "did you mean 'length'?"),
        ("match { $p: Person } return { cuont($p) }", "did you mean 'count'?"),
        ("match { $p: Person } return { sm($p.age) as s }", "did you mean 'sum'?"),
        ("match { $p: Person } return { averge($p.age) as s }", "did you mean 'avg'?"),
        ('update Person set { name: uper(name) } where slug = "a"', "did you mean 'upper'?"),
        ("match { $p: Person } return { $p.name } having lenght($p.name) > 1", "did you mean 'length'?"),
        ("match { $p: Person } return { nww() }", "did you mean 'now'?"),
        (
            "match { $p: Person } return { $p.name } order { nearst($p.bio, [1.0, 2.0]) } limit 3",
            "did you mean 'nearest'?",
        ),
        ('match { $p: Person serch($p.text, "a") } return { $p }', "did you mean 'search'?"),
        ("match { $p: Person } return { $p.name as label } order { labl }", "did you mean 'label'?"),
        ('match { $p: Person } return { $p.name as label, count(*) as n } having labl = "a"', "did you mean 'label'?"),
        ("match { $p: Person } with { $p, count(*) as total } return { totl }", "did you mean 'total'?"),
        (
            "match { $p: Person } with { $p, count(*) as total } match { $p.age > totl } return { total }",
            "did you mean 'total'?",
        ),
        ("match { $p: Person } return { $p.name as label } limit 3 per { labl }", "did you mean 'label'?"),
        ("match { $p: Person } with { count(*) as total } having totl > 1 return { total }", "did you mean 'total'?"),
        (
            "match { $p: Team } return { $p.name as label } union match { $p: Team } return { $p.name } order { labl }",
            "did you mean 'label'?",
        ),
        ("match { $p: Person age > 1 } return { $p }", "did you mean '$p.age'?"),
        (
            "match { $p: Person } with { $p, count(*) as total } return { $p.name } order { totl }",
            "did you mean 'total'?",
        ),
        ("match { $p: Person 1 < $p.age < 3 } return { $p }", "comparisons cannot be chained: write 'a < b and b < c'"),
        ("match { $p: Person $p.age > 1 && $p.age < 3 } return { $p }", "write 'and'"),
        ("match { $p: Person $p.age == 1 } return { $p }", "write '='"),
        ("match { $p: Person } retrun { $p }", "did you mean 'return'?"),
        ("match { $p: Person optinal { $p knows $f } } return { $p }", "did you mean 'optional'?"),
        ("match { $p: Person exist { $p knows $f } } return { $p }", "did you mean 'exists'?"),
        ("match { $p: Person } return { $p.name } order { $p.name dsc }", "did you mean 'desc'?"),
        ("match { $p: Person } return { $p.name } order { $p.name nulls lst }", "did you mean 'last'?"),
        ("match { $p: Person } return { $p.name } ofset 3", "did you mean 'offset'?"),
        ("match { $p: Person } wth { $p } return { $p.name }", "did you mean 'with'?"),
        ("match { $p: Person } return { $p.name } limit 3 pr { $p.age }", "did you mean 'per'?"),
        (
            "match { $p: Person } return { $p.name } uniom match { $p: Person } return { $p.name }",
            "did you mean 'union'?",
        ),
        ('insert Person { slug: "a", name: "b" } if absnt', "did you mean 'absent'?"),
        ('insert Person { slug: "a", name: "b" } for ech $p', "did you mean 'each'?"),
        ("match { $p: Person } return { $p.name } havng 1 = 1", "did you mean 'having'?"),
        ("match { $p: Person } return { case whn 1 = 1 then 2 end }", "write 'case when … then … end'"),
        ("match { $p: Person $p.age is nul } return { $p }", "write 'is null' or 'is not null'"),
        ('update Person set { age: 1 } were slug = "a"', "did you mean 'where'?"),
        ('update Person st { age: 1 } where slug = "a"', "did you mean 'set'?"),
        ('update Person set { age: 1 } where slug = "a" if vrsion = "x"', "did you mean 'version'?"),
    ],
)
def test_a_slip_is_told_what_was_probably_meant(body: str, suggestion: str) -> None:
    """The place is that of the slip, and the suggestion can be typed as it stands."""
    with pytest.raises(DiagnosticError) as caught:
        compile_query(f"query q($minimum: I64) {{ {body} }}", None, CATALOG)
    assert caught.value.details.suggestion == suggestion
    assert caught.value.details.place is not None
