"""What the query benchmark asks, in each engine's own language and with one meaning.

A traversal of omnigraph finds each neighbour of a row once, and a walk of several hops each node at its least distance,
so Cypher and SQL say DISTINCT, or follow shortest paths, where parallel edges would otherwise count. Each stands in the
fastest form found that says the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from bench.generate import Dataset, Stream

KeyKind = Literal["person", "people", "hub", "acquaintance", "pair", "text", "vector", "hybrid", "day", "none"]
GraphName = Literal["social", "items"]
Parameters = dict[str, object]

DIMENSION = 128
# Where among all persons, ordered by how many others they know, the asked ones stand.
_DEGREE_RANKS = (0.01, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0)
# How many persons are asked for where ordinary ones are meant, whoever they know.
_PEOPLE = 32
_TEXTS = ("quiet river", "writes letter", "graph", "early morning bridge", "every number")
_SEED = 7
# What an update writes: every time something else, so that no engine is spared the work.
_DAYS = tuple(f"2025-01-{day:02}" for day in range(1, 9))


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One question.

    Args:
        title: what the report calls it.
        gq: the question to omnigraph.
        cypher: the question to ladybug; None when it cannot be asked.
        sql: the question to DuckDB; None when it cannot be asked.
        keys: what its parameters are.
        graph: which graph it is asked of.
        is_ordered: whether the rows come in one order only.
        is_write: whether it changes the graph; its answer is how many entities it changed.
    """

    title: str
    gq: str
    cypher: str | None
    sql: str | None
    keys: KeyKind = "none"
    graph: GraphName = "social"
    is_ordered: bool = False
    is_write: bool = False


def _from_person(body: str) -> str:
    return f"query q($slug: String) {{ match {{ $p: Person {{ slug: $slug }}  {body} }}"


def _hops(count: int) -> str:
    """Return the SQL parts ``h1`` to ``h<count>``: the persons first met after so many hops."""
    parts = ['h1 AS MATERIALIZED (SELECT DISTINCT "to" AS n FROM Knows WHERE "from" = $slug AND "to" <> $slug)']
    for hop in range(2, count + 1):
        before = " ".join(f"ANTI JOIN h{near} USING (n)" for near in range(1, hop))
        met = f'SELECT DISTINCT "to" AS n FROM Knows SEMI JOIN h{hop - 1} ON "from" = n'  # noqa: S608 - numbers only
        parts.append(f"h{hop} AS MATERIALIZED (SELECT n FROM ({met}) {before} WHERE n <> $slug)")  # noqa: S608 - as above
    return "WITH " + ", ".join(parts)


def _distance(most: int) -> str:
    """Return the SQL that finds how many hops one person is from another, up to so many."""
    met = " UNION ALL ".join(f"SELECT {hop} AS d FROM h{hop} WHERE n = $other" for hop in range(1, most + 1))  # noqa: S608 - numbers only
    return f"{_hops(most)} SELECT d FROM ({met})"  # noqa: S608 - as above


def _walked(hops: int) -> tuple[str, str]:
    """Return the Cypher and the SQL that count the other persons whom walks of so many hops lead to."""
    steps = "".join(f"-[:Knows]->(p{hop}:Person)" for hop in range(1, hops + 1))
    cypher = f"MATCH (p:Person {{slug: $slug}}){steps} WHERE p{hops}.slug <> $slug RETURN count(DISTINCT p{hops}.slug)"
    parts = ['w1 AS MATERIALIZED (SELECT DISTINCT "to" AS n FROM Knows WHERE "from" = $slug)']
    parts += [
        f'w{hop} AS MATERIALIZED (SELECT DISTINCT "to" AS n FROM Knows SEMI JOIN w{hop - 1} ON "from" = n)'  # noqa: S608 - numbers only
        for hop in range(2, hops + 1)
    ]
    return cypher, f"WITH {', '.join(parts)} SELECT count(*) FROM w{hops} WHERE n <> $slug"  # noqa: S608 - as above


CASES = (
    Case(
        title="point lookup by key",
        gq=_from_person("") + " return { $p.name, $p.age, $p.country } }",
        cypher="MATCH (p:Person {slug: $slug}) RETURN p.name, p.age, p.country",
        sql="SELECT name, age, country FROM Person WHERE slug = $slug",
        keys="person",
    ),
    Case(
        title="one hop with properties",
        gq=_from_person("$p knows $f") + " return { $f.slug, $f.name, $f.age } }",
        cypher="MATCH (p:Person {slug: $slug})-[:Knows]->(f:Person) RETURN DISTINCT f.slug, f.name, f.age",
        sql='SELECT slug, name, age FROM Person WHERE slug IN (SELECT "to" FROM Knows WHERE "from" = $slug)',
        keys="person",
    ),
    Case(
        title="one hop with node and edge property",
        gq=_from_person("$p $e:knows $f") + " return { $f.slug, $f.name, $e.weight } }",
        cypher="MATCH (p:Person {slug: $slug})-[e:Knows]->(f:Person) RETURN f.slug, f.name, e.weight",
        sql='SELECT slug, name, weight FROM Knows JOIN Person ON slug = "to" WHERE "from" = $slug',
        keys="people",
    ),
    Case(
        title="two hops, distinct count",
        gq=_from_person("$p knows{2,2} $f") + " return { count($f) as n } }",
        cypher=_walked(2)[0],
        sql=_walked(2)[1],
        keys="person",
    ),
    Case(
        title="three hops, distinct count",
        gq=_from_person("$p knows{3,3} $f") + " return { count($f) as n } }",
        cypher=_walked(3)[0],
        sql=_walked(3)[1],
        keys="person",
    ),
    Case(
        title="friends of friends, filter, order, limit 20",
        gq=_from_person("$p knows $f  $f knows $c  $c.age >= 30")
        + " return { $c.slug, $c.name, $c.age } order { $c.age desc, $c.slug } limit 20 }",
        cypher="MATCH (p:Person {slug: $slug})-[:Knows]->(f:Person)-[:Knows]->(c:Person) WHERE c.age >= 30"
        " WITH DISTINCT f, c RETURN c.slug, c.name, c.age ORDER BY c.age DESC, c.slug LIMIT 20",
        sql='WITH d AS (SELECT DISTINCT "from", "to" FROM Knows'
        ' WHERE "from" IN (SELECT "to" FROM Knows WHERE "from" = $slug))'
        ' SELECT c.slug, c.name, c.age FROM d JOIN Person c ON c.slug = d."to" WHERE c.age >= 30'
        " ORDER BY c.age DESC, c.slug LIMIT 20",
        keys="person",
        is_ordered=True,
    ),
    Case(
        title="top 10 organisations by employees",
        gq="query q() { match { $p: Person  $p worksAt $o } return { $o.slug, $o.name, count($p) as n }"
        " order { n desc, $o.slug } limit 10 }",
        cypher="MATCH (:Person)-[:WorksAt]->(o:Organisation) WITH o, count(*) AS n"
        " RETURN o.slug, o.name, n ORDER BY n DESC, o.slug LIMIT 10",
        sql='SELECT o.slug, o.name, n FROM (SELECT "to" AS slug, count(*) AS n FROM WorksAt GROUP BY 1)'
        " JOIN Organisation o USING (slug) ORDER BY n DESC, o.slug LIMIT 10",
        is_ordered=True,
    ),
    Case(
        title="Knows joined with Person, grouped by country",
        gq="query q() { match { $p: Person  $p $e:knows $f } return { $f.country as country, count($e) as n } }",
        cypher="MATCH (:Person)-[:Knows]->(f:Person) RETURN f.country, count(*)",
        sql='SELECT country, count(*) FROM Knows JOIN Person ON slug = "to" GROUP BY country',
    ),
    Case(
        title="whole graph: two-hop paths, linked pairs",
        gq="query q() { match { $a: Person  $a knows $b  $b knows $c } return { count($c) as n } }",
        cypher="MATCH (a:Person)-[:Knows]->(b:Person) WITH DISTINCT a, b WITH b, count(*) AS i"
        " MATCH (b)-[:Knows]->(c:Person) WITH DISTINCT b, i, c RETURN sum(i)",
        sql='WITH d AS MATERIALIZED (SELECT DISTINCT "from", "to" FROM Knows),'
        ' i AS (SELECT "to" AS k, count(*) AS n FROM d GROUP BY 1),'
        ' o AS (SELECT "from" AS k, count(*) AS n FROM d GROUP BY 1)'
        " SELECT sum(i.n * o.n) FROM i JOIN o USING (k)",
    ),
    Case(
        title="whole graph: two-hop paths, every edge",
        gq="query q() { match { $a: Person  $a $v:knows $b  $b $w:knows $c } return { count($c) as n } }",
        cypher="MATCH (a:Person)-[:Knows]->(b:Person)-[:Knows]->(c:Person) RETURN count(*)",
        sql='WITH i AS (SELECT "to" AS k, count(*) AS n FROM Knows GROUP BY 1),'
        ' o AS (SELECT "from" AS k, count(*) AS n FROM Knows GROUP BY 1)'
        " SELECT sum(i.n * o.n) FROM i JOIN o USING (k)",
    ),
    Case(
        title="reachability 1..3",
        gq=_from_person("$p knows{1,3} $f") + " return { count($f) as n } }",
        cypher="MATCH (p:Person {slug: $slug})-[e:Knows* SHORTEST 1..3]->(f:Person) RETURN count(f)",
        sql=f"{_hops(3)} SELECT count(*) FROM (FROM h1 UNION ALL FROM h2 UNION ALL FROM h3)",  # noqa: S608 - constants only
        keys="person",
    ),
    Case(
        title="bm25 top 10 over posts",
        gq="query q($text: String) { match { $p: Post } return { $p.slug } order { bm25($p.body, $text) } limit 10 }",
        cypher=None,
        sql=None,
        keys="text",
        is_ordered=True,
    ),
    Case(
        title="nearest 10 vectors",
        gq=f"query q($vec: Vector({DIMENSION})) {{ match {{ $i: Item }} return {{ $i.slug }}"
        " order { nearest($i.vec, $vec) } limit 10 }",
        cypher="MATCH (i:Item) RETURN i.slug"
        f" ORDER BY array_distance(i.vec, CAST($vec AS FLOAT[{DIMENSION}])) LIMIT 10",
        sql=f"SELECT slug FROM Item ORDER BY array_distance(vec, $vec::FLOAT[{DIMENSION}]) LIMIT 10",  # noqa: S608 - constants only
        keys="vector",
        graph="items",
    ),
    Case(
        title="hybrid: nearest and bm25 by rrf, top 10",
        gq=f"query q($vec: Vector({DIMENSION}), $text: String) {{ match {{ $i: Item }} return {{ $i.slug }}"
        " order { rrf(nearest($i.vec, $vec), bm25($i.title, $text)) } limit 10 }",
        cypher=None,
        sql=None,
        keys="hybrid",
        graph="items",
        is_ordered=True,
    ),
    Case(
        title="friends of everybody, none counts too, first 20",
        gq="query q() { match { $p: Person  optional { $p knows $f } } return { $p.slug, count($f) as n }"
        " order { n, $p.slug } limit 20 }",
        cypher="MATCH (p:Person) OPTIONAL MATCH (p)-[:Knows]->(f:Person) WITH p, count(DISTINCT f) AS n"
        " RETURN p.slug, n ORDER BY n, p.slug LIMIT 20",
        sql='SELECT slug, count(DISTINCT "to") AS n FROM Person LEFT JOIN Knows ON "from" = slug'
        " GROUP BY slug ORDER BY n, slug LIMIT 20",
        is_ordered=True,
    ),
    Case(
        title="distinct ends of two hops",
        gq=_from_person("$p knows $f  $f knows $c") + " return distinct { $c.slug as slug } }",
        cypher="MATCH (p:Person {slug: $slug})-[:Knows]->(:Person)-[:Knows]->(c:Person) RETURN DISTINCT c.slug",
        sql='SELECT DISTINCT "to" FROM Knows WHERE "from" IN (SELECT "to" FROM Knows WHERE "from" = $slug)',
        keys="person",
    ),
    Case(
        title="the 3 oldest employees of every organisation",
        gq="query q() { match { $p: Person  $p worksAt $o  $p.age is not null }"
        " return { $o.slug as org, $p.slug as person, $p.age as age }"
        " order { $p.age desc, $p.slug } limit 3 per { $o.slug } }",
        cypher="MATCH (p:Person)-[:WorksAt]->(o:Organisation) WHERE p.age IS NOT NULL"
        " WITH o, list_sort(collect(concat(CAST(999 - p.age AS STRING), p.slug))) AS best UNWIND best[1:3] AS one"
        " RETURN o.slug, substring(one, 4, 100), 999 - CAST(substring(one, 1, 3) AS INT64)",
        sql='SELECT "to", slug, age FROM Person JOIN WorksAt ON "from" = slug WHERE age IS NOT NULL'
        ' QUALIFY row_number() OVER (PARTITION BY "to" ORDER BY age DESC, slug) <= 3',
    ),
    Case(
        title="shortest path between two persons, 1..6",
        gq="query q($slug: String, $other: String) { match { $a: Person { slug: $slug }  $b: Person { slug: $other }"
        "  path $p: $a knows{1,6} $b } return { length($p) as n } }",
        cypher="MATCH (a:Person {slug: $slug})-[e:Knows* SHORTEST 1..6]->(b:Person {slug: $other}) RETURN length(e)",
        sql=_distance(6),
        keys="pair",
    ),
    Case(
        title="whole graph: triangles, every edge",
        gq="query q() { match { $a: Person  $a $x:knows $b  $b $y:knows $c  $a $z:knows $c }"
        " return { count($c) as n } }",
        # Its intersection of neighbours counts parallel edges in a way of its own.
        cypher=None,
        sql='WITH d AS MATERIALIZED (SELECT "from" AS f, "to" AS t, count(*) AS n FROM Knows GROUP BY ALL)'
        " SELECT sum(x.n * y.n * z.n) FROM d x JOIN d y ON x.t = y.f JOIN d z ON z.f = x.f AND z.t = y.t",
    ),
    Case(
        title="whole graph: triangles, linked persons",
        gq="query q() { match { $a: Person  $a knows $b  $b knows $c  $a knows $c } return { count($c) as n } }",
        cypher="MATCH (a:Person)-[:Knows]->(b:Person)-[:Knows]->(c:Person), (a)-[:Knows]->(c)"
        " WITH DISTINCT a, b, c RETURN count(*)",
        sql='WITH d AS MATERIALIZED (SELECT DISTINCT "from" AS f, "to" AS t FROM Knows)'
        " SELECT count(*) FROM d x JOIN d y ON x.t = y.f JOIN d z ON z.f = x.f AND z.t = y.t",
    ),
    Case(
        title="update by pattern, about 10,000 edges of size S",
        gq='query q($day: Date) { match { $p: Person { country: "at" }  $p $e:knows $f  $f.age < 50 }'
        " update $e set { since: $day } }",
        cypher="MATCH (p:Person {country: 'at'})-[e:Knows]->(f:Person) WHERE f.age < 50"
        " SET e.since = date($day) RETURN count(*)",
        sql='UPDATE Knows SET since = $day::DATE FROM Person p, Person f WHERE "from" = p.slug AND "to" = f.slug'
        " AND p.country = 'at' AND f.age < 50",
        keys="day",
        is_write=True,
    ),
)

# Changes what other questions find, so it is asked apart from them.
INSERT = Case(
    title="insert an edge",
    gq="query q($slug: String, $other: String) { insert Knows { from: $slug, to: $other, since: null, weight: 0.5 } }",
    cypher="MATCH (a:Person {slug: $slug}), (b:Person {slug: $other})"
    " CREATE (a)-[:Knows {weight: 0.5}]->(b) RETURN count(*)",
    sql="INSERT INTO Knows VALUES ($slug, $other, NULL, 0.5)",
    keys="acquaintance",
    is_write=True,
)


def parameters_of(dataset: Dataset) -> dict[KeyKind, list[Parameters]]:
    """Return what every kind of question is asked for: the same for all engines."""
    vectors = np.round(Stream(_SEED).fractions(len(_TEXTS) * DIMENSION), 3).reshape(-1, DIMENSION).tolist()
    texts = [{"text": text} for text in _TEXTS]
    nearest = [{"vec": vector} for vector in vectors]
    ordered = _persons_by_degree(dataset)
    persons = [ordered[round(rank * (len(ordered) - 1))] for rank in _DEGREE_RANKS]
    people = [ordered[number] for number in Stream(_SEED + 2).integers(_PEOPLE, len(ordered)).tolist()]
    return {
        "people": [{"slug": slug} for slug in people],
        "hub": [{"slug": ordered[-1]}],
        "acquaintance": [{"slug": one, "other": other} for one, other in zip(people, reversed(people), strict=True)],
        "person": [{"slug": slug} for slug in persons],
        "pair": [{"slug": one, "other": other} for one, other in zip(persons, reversed(persons), strict=True)],
        "day": [{"day": day} for day in _DAYS],
        "text": texts,
        "vector": nearest,
        "hybrid": [{**one, **other} for one, other in zip(texts, nearest, strict=True)],
        "none": [{}],
    }


def make_items(count: int) -> pa.Table:
    """Return so many things with a short text and a vector each."""
    stream = Stream(_SEED + 1)
    numbers = pc.cast(pa.array(np.arange(count)), pa.string())
    words = np.array(" ".join(_TEXTS).split())[stream.integers(3 * count, 10)].reshape(-1, 3)
    values = pa.array(stream.fractions(count * DIMENSION).astype(np.float32))
    return pa.table(
        {
            "slug": pc.binary_join_element_wise("item", numbers, "-"),
            "title": pa.array([" ".join(row) for row in words.tolist()]),
            "vec": pa.FixedSizeListArray.from_arrays(values, DIMENSION),
        }
    )


def _persons_by_degree(dataset: Dataset) -> list[str]:
    """Return everybody who knows somebody, by how many."""
    counts = pq.read_table(dataset.table("Knows"), columns=["from"]).group_by("from").aggregate([("from", "count")])
    ordered: list[str] = counts.sort_by([("from_count", "ascending"), ("from", "ascending")]).column("from").to_pylist()
    return ordered
