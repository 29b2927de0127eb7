"""Reads ranked by words make no rows that the ranking would drop, and leave none out that it would not."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from tests.session_graph import create_graph, open_session
from tests.text_tables import no_limit
from tests.unit.engine.query.graphs import SCHEMA

from omnigraph.engine.query.options import QueryOptions
from omnigraph.engine.query.search import TextIndex

PEOPLE = 60
WORDS = ("river", "stone", "lake", "bridge")
NAMES = [f"p{at:03}" for at in range(PEOPLE)]
BIOS: list[str | None] = [
    None if at % 9 == 8 else " ".join(WORDS[at * step % 4] for step in range(at % 5)) for at in range(PEOPLE)
]
# A rare word.
BIOS[3], BIOS[52] = "canal", "canal river"


@pytest.fixture(scope="module", params=["indexed", "csr"])
def ask(request, tmp_path_factory):
    root = tmp_path_factory.mktemp("words") / "graph"
    lines = [
        {"type": "Person", "data": {"name": name, "age": at % 7, "bio": bio}}
        for at, (name, bio) in enumerate(zip(NAMES, BIOS, strict=True))
    ]
    lines += [{"type": "Team", "data": {"code": f"t{at}", "budget": 1.0}} for at in range(5)]
    lines += [
        {"edge": "MemberOf", "from": NAMES[at], "to": f"t{at % 5}", "data": {"id": f"m{at}"}}
        for at in range(0, PEOPLE, 2)
    ]
    create_graph(root, SCHEMA, "\n".join(json.dumps(line) for line in lines))
    with open_session(root) as session:

        def run(text, query="river"):
            options = QueryOptions(mode=request.param)
            return session.query(f"query q($q: String) {{ {text} }}", {"q": query}, options=options)

        yield run


def best(query, names=NAMES):
    """Everybody who has any of the words, best first, ties by name; and the scores."""
    codes, scores = TextIndex.build(pa.chunked_array([BIOS], pa.string()), no_limit).scores(query)
    ranked = sorted(zip(-scores, (NAMES[code] for code in codes), strict=True))
    return [(name, -score) for score, name in ranked if name in names]


@pytest.mark.parametrize("query", ["river", "stone bridge", "lake lake", "nobody", "the"])
@pytest.mark.parametrize("limit", [None, 1, 7, 1000])
def test_the_best_come_first_and_the_others_not_at_all(ask, query, limit):
    cut = "" if limit is None else f"limit {limit}"
    text = f"match {{ $p: Person }} return {{ $p.name as n, bm25($p.bio, $q) as s }} order {{ bm25($p.bio, $q) }} {cut}"
    assert [(row["n"], row["s"]) for row in ask(text, query).rows()] == best(query)[:limit]


@pytest.mark.parametrize("query", ["river", "canal"])
def test_a_filter_acts_before_the_limit(ask, query):
    text = "match { $p: Person $p.age = 3 } return { $p.name as n } order { bm25($p.bio, $q) } limit 3"
    wanted = [name for at, name in enumerate(NAMES) if at % 7 == 3]
    found = [row["n"] for row in ask(text, query).rows()]
    assert found == [name for name, _ in best(query, wanted)[:3]]
    assert found


@pytest.mark.parametrize(("words", "found"), [("canal", ["p003", "p052"]), ("canal lake", ["p003", "p052"])])
def test_a_search_may_stand_beside_the_ranking(ask, words, found):
    text = f'match {{ $p: Person search($p.bio, "{words}") }} return {{ $p.name as n }} order {{ bm25($p.bio, $q) }}'
    assert [row["n"] for row in ask(text, "canal").rows()] == found


@pytest.mark.parametrize(
    "match",
    [
        "$p: Person $p memberOf $t",
        "$t: Team $p: Person $p memberOf $t",
        "$p: Person exists { $p memberOf $t }",
    ],
)
def test_a_traversal_acts_before_the_limit(ask, match):
    text = f"match {{ {match} }} return {{ $p.name as n }} order {{ bm25($p.bio, $q) }} limit 6"
    assert [row["n"] for row in ask(text).rows()] == [name for name, _ in best("river", NAMES[::2])[:6]]


def test_a_name_that_a_block_uses_too_is_another_variable(ask):
    text = (
        "match { $p: Person not { $p memberOf $t $o memberOf $t $o.age = 3 $p.age = 3 } }"
        " return { $p.name as n } order { bm25($p.bio, $q) }"
    )
    wanted = [name for at, name in enumerate(NAMES) if at % 2 or at % 7 != 3]
    assert [row["n"] for row in ask(text).rows()] == [name for name, _ in best("river", wanted)]


def test_a_block_that_finds_nothing_keeps_the_row(ask):
    text = (
        "match { $p: Person optional { $p memberOf $t } }"
        " return { $p.name as n, $t.code as t } order { bm25($p.bio, $q) } limit 8"
    )
    rows = ask(text).rows()
    expected = [(name, f"t{int(name[1:]) % 5}" if not int(name[1:]) % 2 else None) for name, _ in best("river")[:8]]
    assert [(row["n"], row["t"]) for row in rows] == expected


def test_every_pair_of_rows_stays(ask):
    text = "match { $p: Person $o: Person $o.age = 6 } return { $p.name as n, $o.name as o } order { bm25($p.bio, $q) }"
    others = [name for at, name in enumerate(NAMES) if at % 7 == 6]
    rows = ask(text).rows()
    assert [(row["n"], row["o"]) for row in rows] == [(name, other) for name, _ in best("river") for other in others]


def test_groups_count_rows_without_the_words_too(ask):
    text = "match { $p: Person } return { $p.age as a, count($p) as n } order { bm25($p.bio, $q) }"
    assert sum(row["n"] for row in ask(text).rows()) == PEOPLE


def test_later_stages_see_every_row(ask):
    text = "match { $p: Person } with { count($p) as n } match { $o: Person } return { n, $o.name as o }"
    rows = ask(f"{text} order {{ bm25($o.bio, $q) }} limit 2").rows()
    assert [(row["n"], row["o"]) for row in rows] == [(PEOPLE, name) for name, _ in best("river")[:2]]


@pytest.mark.parametrize(("limit", "count"), [("limit 4", 4), ("", None)])
def test_rows_are_made_of_those_who_have_the_words_alone(ask, limit, count):
    result = ask(f"match {{ $p: Person }} return {{ $p.name }} order {{ bm25($p.bio, $q) }} {limit}")
    result.rows()
    [scan] = [step for step in result.info.explanation.steps if step.label.startswith("scan")]
    assert scan.rows == (count or len(best("river")))
