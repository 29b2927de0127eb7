"""Approximate search through ``@index(ann)``: what is returned is true, and what it may miss is said."""

from __future__ import annotations

import numpy as np
import pytest

import omnigraph
from omnigraph import QueryOptions
from omnigraph.engine.query.search import approximate
from omnigraph.errors import UsageError

SCHEMA = """
node Doc { slug: String @key  group: I32  v: Vector(8)? @index(ann) }
edge Cites: Doc -> Doc
"""
EXACT = QueryOptions(nearest="exact")
EVERYTHING = QueryOptions(probes=1 << 20)
TOP = (
    "query q($q: Vector(8)) { match { $d: Doc } return { $d.slug, nearest($d.v, $q) as far }"
    " order { nearest($d.v, $q) } limit 10 }"
)
MOVE = "query m($s: String, $v: Vector(8)) { update Doc set { v: $v } where slug = $s }"
REMOVE = "query m($s: String) { delete Doc where slug = $s }"
GROUP = TOP.replace("$d: Doc", "$d: Doc  $d.group < {least}")
ROWS = 9000


def vectors(seed, count=ROWS):
    random = np.random.default_rng(seed)
    centres = random.normal(size=(40, 8))
    return (centres[random.integers(0, 40, count)] + 0.3 * random.normal(size=(count, 8))).astype(np.float32)


def records(numbers, start=0):
    return [
        {"slug": f"d{start + at:05}", "group": (start + at) % 100, "v": row.tolist()} for at, row in enumerate(numbers)
    ]


def rows(found):
    return [tuple(row.values()) for row in found]


def searches(graph, body, query, **how):
    return graph.explain(body, {"q": query}, **how).to_json().get("searches", [])


@pytest.fixture(autouse=True)
def every_table_is_large(monkeypatch):
    """These tables are so small that a read would search them exactly unless it names probes."""
    monkeypatch.setattr(approximate, "_FEW_NUMBERS", 0)


@pytest.fixture(scope="module")
def numbers():
    return vectors(1)


@pytest.fixture(scope="module")
def built(tmp_path_factory, numbers):
    """A graph of some thousand documents whose vectors are indexed."""
    path = tmp_path_factory.mktemp("approximate") / "graph"
    with omnigraph.init(str(path), SCHEMA) as graph:
        graph.load({"Doc": records(numbers)})
        graph.optimize()
        yield graph


QUERIES = vectors(2, 20).tolist()


@pytest.mark.parametrize("query", QUERIES[:8])
def test_with_every_partition_the_answer_is_the_exact_one(built, query):
    assert searches(built, TOP, query)[0]["is_approximate"]
    assert rows(built.query(TOP, {"q": query}, options=EVERYTHING)) == rows(
        built.query(TOP, {"q": query}, options=EXACT)
    )


@pytest.mark.parametrize("query", QUERIES[:8])
def test_distances_are_true_though_one_partition_is_searched(built, numbers, query):
    found = rows(built.query(TOP, {"q": query}, options=QueryOptions(probes=1)))
    true = np.sqrt(((numbers.astype(np.float64) - np.float32(query)) ** 2).sum(axis=1))
    assert len(found) == 10
    assert [far for _, far in found] == pytest.approx([true[int(slug[1:])] for slug, _ in found], rel=1e-12)
    assert [far for _, far in found] == sorted(far for _, far in found)


@pytest.mark.parametrize("least", [95, 50, 25])
def test_filters_come_first(built, least):
    body = GROUP.replace("{least}", str(least))
    for query in QUERIES[:5]:
        found = rows(built.query(body, {"q": query}, options=EVERYTHING))
        assert found == rows(built.query(body, {"q": query}, options=EXACT))
        assert all(int(slug[1:]) % 100 < least for slug, _ in found)
    assert searches(built, body, QUERIES[0], run=True)[0]["is_approximate"]


def test_few_matching_rows_are_compared_one_by_one(built):
    body = GROUP.replace("{least}", "3")
    assert rows(built.query(body, {"q": QUERIES[0]})) == rows(built.query(body, {"q": QUERIES[0]}, options=EXACT))
    [search] = searches(built, body, QUERIES[0], run=True)
    assert (search["is_approximate"], search["exact_because"]) == (False, "few rows match")


def test_rows_that_match_far_from_the_query_are_searched_exactly(tmp_path):
    with omnigraph.init(str(tmp_path / "graph"), SCHEMA) as graph:
        near, away = np.zeros((6000, 8), np.float32), np.full((3000, 8), 100, np.float32)
        made = np.concatenate([near, away]) + vectors(3)
        graph.load({"Doc": [row | {"group": int(at >= 6000)} for at, row in enumerate(records(made))]})
        graph.optimize()
        body = TOP.replace("$d: Doc", "$d: Doc  $d.group = 1")
        query = made[0].tolist()
        assert rows(graph.query(body, {"q": query})) == rows(graph.query(body, {"q": query}, options=EXACT))
        [search] = searches(graph, body, query, run=True)
        assert search["exact_because"] == "the rows that match are far from the query"


def test_a_plan_says_which_index_it_uses_and_how(built):
    [search] = searches(built, TOP, QUERIES[0])
    assert search == {
        "search": "nearest($d.v, $q)",
        "type_key": "node:Doc",
        "is_approximate": True,
        "index": search["index"],
        "covered_rows": ROWS,
        "rows": ROWS,
        "index_kind": "IVF_SQ",
        "probes": 2,
        "partitions": 2,
        "candidates_per_row": 4,
        "recall": None,
    }
    assert search["index"].endswith("_ann")


def test_an_explained_run_says_how_much_of_the_exact_answer_it_found(built):
    [search] = searches(built, TOP, QUERIES[0], run=True, options=EVERYTHING)
    assert search["recall"] == 1.0
    shown = built.explain(TOP, {"q": QUERIES[0]}, run=True, options=EVERYTHING).describe().splitlines()[-1]
    assert shown == (
        f"approximate nearest($d.v, $q) in node:Doc: index {search['index']} (IVF_SQ), covers 9000 of 9000 rows, "
        "probes 2 of 2 partitions, 4 candidates per row, recall 1.000"
    )


def test_a_read_can_ask_for_the_exact_answer(built):
    [search] = searches(built, TOP, QUERIES[0], run=True, options=EXACT)
    assert (search["is_approximate"], search["exact_because"]) == (False, "the query requests an exact search")


@pytest.mark.parametrize("wrong", [{"nearest": "near"}, {"probes": 0}, {"probes": 1.5}])
def test_options_that_make_no_sense_are_refused(wrong):
    with pytest.raises(UsageError):
        QueryOptions(**wrong)


def test_before_it_is_optimized_a_graph_is_searched_exactly(tmp_path, numbers):
    with omnigraph.init(str(tmp_path / "graph"), SCHEMA) as graph:
        graph.load({"Doc": records(numbers[:3000])})
        [search] = searches(graph, TOP, QUERIES[0], run=True)
        assert search["exact_because"] == "the index is not built yet; run optimize"
        assert rows(graph.query(TOP, {"q": QUERIES[0]})) == rows(graph.query(TOP, {"q": QUERIES[0]}, options=EXACT))


def test_a_plain_index_is_never_approximate(tmp_path, numbers):
    with omnigraph.init(str(tmp_path / "graph"), SCHEMA.replace("(ann)", "")) as graph:
        graph.load({"Doc": records(numbers[:3000])})
        graph.optimize()
        assert searches(graph, TOP, QUERIES[0], run=True) == []


def test_writes_show_at_once(tmp_path, numbers):
    """Rows that the index does not cover are found, and rows that it still has but the version has not never are."""
    with omnigraph.init(str(tmp_path / "graph"), SCHEMA) as graph:
        graph.load({"Doc": records(numbers)})
        graph.optimize()
        query = QUERIES[3]
        before = rows(graph.query(TOP, {"q": query}, options=EVERYTHING))
        first, second, third = (slug for slug, _ in before[:3])
        graph.mutate(REMOVE, {"s": first})
        away = [50.0] * 8
        graph.mutate(MOVE, {"s": second, "v": away})
        graph.mutate('query m($v: Vector(8)) { insert Doc { slug: "new", group: 1, v: $v } }', {"v": query})
        for _ in range(2):
            found = rows(graph.query(TOP, {"q": query}, options=EVERYTHING))
            assert found == rows(graph.query(TOP, {"q": query}, options=EXACT))
            assert found[0] == ("new", 0.0)
            assert [slug for slug, _ in found[1:3]] == [third, before[3][0]]
            [search] = searches(graph, TOP, query, run=True)
            assert search["is_approximate"]
            # The row that was moved is found where it is, and no longer where it was.
            [moved] = rows(graph.query(TOP.replace("limit 10", "limit 1"), {"q": away}, options=EVERYTHING))
            assert moved == (second, 0.0)
            graph.optimize()


def test_a_later_segment_extends_the_index(tmp_path, numbers):
    """Rows that were rewritten are in an older segment too, under their old vectors: true distances tell."""
    with omnigraph.init(str(tmp_path / "graph"), SCHEMA) as graph:
        graph.load({"Doc": records(numbers)})
        graph.optimize()
        moved = vectors(5, 2000) + 3
        graph.load({"Doc": records(moved)}, mode="merge")
        assert searches(graph, TOP, QUERIES[0])[0]["covered_rows"] == ROWS - 2000
        graph.optimize()
        assert searches(graph, TOP, QUERIES[0])[0]["covered_rows"] == ROWS
        for query in (*QUERIES[:6], moved[7].tolist(), numbers[7].tolist()):
            found = rows(graph.query(TOP, {"q": query}, options=EVERYTHING))
            assert found == rows(graph.query(TOP, {"q": query}, options=EXACT))
            assert searches(graph, TOP, query, run=True)[0]["is_approximate"]


def test_branches_and_earlier_states_have_their_own_rows(tmp_path, numbers):
    with omnigraph.init(str(tmp_path / "graph"), SCHEMA) as graph:
        graph.load({"Doc": records(numbers)})
        graph.optimize()
        query = QUERIES[4]
        before = rows(graph.query(TOP, {"q": query}, options=EVERYTHING))
        commit = next(iter(graph.log()))
        branch = graph.create_branch("work")
        branch.mutate(REMOVE, {"s": before[0][0]})
        branch.mutate('query m($v: Vector(8)) { insert Doc { slug: "new", group: 1, v: $v } }', {"v": query})
        graph.mutate(REMOVE, {"s": before[1][0]})
        for state in (graph, branch, graph.at(commit)):
            found = rows(state.query(TOP, {"q": query}, options=EVERYTHING))
            assert found == rows(state.query(TOP, {"q": query}, options=EXACT))
            assert searches(state, TOP, query, run=True)[0]["is_approximate"]
        assert rows(graph.at(commit).query(TOP, {"q": query}, options=EVERYTHING)) == before
        assert rows(branch.query(TOP, {"q": query}))[0] == ("new", 0.0)


def test_a_transaction_sees_its_own_vectors(built):
    with built.transaction() as txn:
        txn.mutate('query m($v: Vector(8)) { insert Doc { slug: "mine", group: 1, v: $v } }', {"v": QUERIES[5]})
        assert rows(txn.query(TOP, {"q": QUERIES[5]}))[0] == ("mine", 0.0)
        txn.rollback()
    assert "mine" not in {slug for slug, _ in rows(built.query(TOP, {"q": QUERIES[5]}))}


def test_fusions_and_traversals_rank_by_the_index_too(built):
    fused = TOP.replace("order { nearest($d.v, $q) }", "order { rrf(nearest($d.v, $q), nearest($d.v, $q)) }")
    fused = fused.replace("nearest($d.v, $q) as far", "$d.group as far")
    query = QUERIES[6]
    assert rows(built.query(fused, {"q": query}, options=EVERYTHING)) == rows(
        built.query(fused, {"q": query}, options=EXACT)
    )
    assert len(searches(built, fused, query, run=True)) == 2
    staged = (
        "query q($q: Vector(8)) { match { $d: Doc } with { $d } order { nearest($d.v, $q) } limit 5 "
        "match { optional { $d cites $o } } return { $d.slug } order { $d.slug } }"
    )
    assert rows(built.query(staged, {"q": query}, options=EVERYTHING)) == rows(
        built.query(staged, {"q": query}, options=EXACT)
    )


def test_numbers_too_large_for_the_index_leave_the_search_exact(tmp_path, numbers):
    with omnigraph.init(str(tmp_path / "graph"), SCHEMA) as graph:
        made = numbers[:3000].copy()
        made[5] = 3e38
        graph.load({"Doc": records(made)})
        pending = graph.optimize().to_json()
        assert "large numbers" in str(pending)
        assert rows(graph.query(TOP, {"q": QUERIES[0]})) == rows(graph.query(TOP, {"q": QUERIES[0]}, options=EXACT))


def test_few_vectors_are_not_indexed(tmp_path, numbers):
    with omnigraph.init(str(tmp_path / "graph"), SCHEMA) as graph:
        graph.load({"Doc": records(numbers[:500])})
        assert "pending" not in str(graph.optimize())
        assert searches(graph, TOP, QUERIES[0])[0]["index"] is None


def test_few_vectors_are_searched_exactly_unless_a_read_names_probes(built, numbers, monkeypatch):
    query = numbers[3].tolist()
    monkeypatch.setattr(approximate, "_FEW_NUMBERS", ROWS * 8)
    monkeypatch.setattr(approximate.ApproximateSearch, "_candidates", lambda *_: pytest.fail("an index was asked"))
    [few] = searches(built, TOP, query, run=True)
    assert (few["is_approximate"], few["exact_because"]) == (
        False,
        "the table has few vectors, which a scan compares as quickly",
    )
    assert rows(built.query(TOP, {"q": query})) == rows(built.query(TOP, {"q": query}, options=EXACT))
    [named] = searches(built, TOP, query, options=QueryOptions(probes=2))
    assert (named["is_approximate"], named["probes"]) == (True, 2)
    monkeypatch.setattr(approximate, "_FEW_NUMBERS", ROWS * 8 - 1)
    [many] = searches(built, TOP, query)
    assert many["is_approximate"]
