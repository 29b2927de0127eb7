"""Algorithms on stored graphs: the same result for the same rows, clear errors for what does not fit, and limits."""

from __future__ import annotations

import inspect
import sys
import threading

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.engine.algorithms.graphs import REQUIRED, SCHEMA, create, lines, load

import omnigraph
from omnigraph.engine.algorithms import ALGORITHMS
from omnigraph.engine.results.info import ReadInfo
from omnigraph.errors import (
    AlgorithmInputError,
    LibraryMissingError,
    QueryCancelledError,
    QueryMemoryError,
    QueryRowLimitError,
    QueryTimeoutError,
    TypeMissingError,
    UsageError,
    ValueFormatError,
)
from omnigraph.graph.algorithms import Algorithms
from omnigraph.runtime import CallContext, calling


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    with create(tmp_path_factory.mktemp("algorithms"), lines()) as made:
        yield made


def every(state, edges=None, **params):
    """Return what every algorithm gives."""
    return {
        name: state.algorithms.run(name, edges, {**REQUIRED.get(name, {}), **params}).to_arrow() for name in ALGORITHMS
    }


def test_results_do_not_depend_on_the_order_of_rows_nor_on_what_was_there_before(graph, tmp_path):
    wanted = every(graph)
    rows = lines()
    shuffled = [rows[at] for at in np.random.default_rng(5).permutation(len(rows))]
    extra = [{"type": "Person", "data": {"name": "aa", "must": 0.0}}, {"type": "Team", "data": {"code": "a"}}]
    extra += [{"edge": "Knows", "from": "aa", "to": name, "data": {"w": 1.0}} for name in ("p00", "p09", "aa")]
    with create(tmp_path, [*extra, *shuffled]) as other:
        changed = every(other)
        assert changed["degree"] != wanted["degree"]
        # The same rows again, by way of deletes on a branch, and after the tables were compacted.
        branch = other.create_branch("without")
        branch.mutate('query q() { delete Person where name = "aa" delete Team where code = "a" }')
        assert every(branch) == wanted
        assert every(other) == changed
        other.merge("without")
        assert every(other) == wanted
        other.optimize()
        assert every(other) == wanted
        assert every(other.at("~1")) == wanted


def test_edge_types_are_named_one_several_or_all(graph):
    one = graph.algorithms.degree("Knows", direction="out")
    assert set(one.to_arrow()["type"].to_pylist()) == {"Person"}
    both = graph.algorithms.degree(["In", "Knows", "In"], direction="out")
    assert both.to_arrow() == graph.algorithms.degree(direction="out").to_arrow()
    assert sum(row["degree"] for row in both) == 3 * 30 + 30
    assert sum(row["degree"] for row in one) == 3 * 30
    # As in queries, the name of an edge type may be written in any letter case.
    assert graph.algorithms.degree("knows").to_arrow() == graph.algorithms.degree("Knows").to_arrow()
    assert graph.algorithms.degree([]).num_rows == 0


def test_a_result_says_where_it_comes_from_and_is_cut_by_a_limit(graph):
    found = graph.algorithms.pagerank("Knows", limit=3)
    assert found.num_rows == 3
    assert found.columns == ("type", "id", "score")
    assert (found.query_name, found.info.branch, found.written) == ("pagerank", "main", None)
    assert found.commit_id == str(graph.log()[0].id)
    assert found.to_arrow() == graph.algorithms.pagerank("Knows").to_arrow().slice(0, 3)
    assert str(found).startswith("3 rows from branch main via pagerank")
    assert graph.at("~0").algorithms.degree("Knows").info.snapshot is not None


def test_an_earlier_state_is_read_under_the_names_of_now(tmp_path):
    rows = [{"type": "Person", "data": {"name": name, "must": 1.0}} for name in "ab"]
    rows.append({"edge": "Knows", "from": "a", "to": "b", "data": {"w": 2.0}})
    with create(tmp_path, rows) as graph:
        then = graph.log()[0]
        renamed = SCHEMA.replace(
            "edge Knows: Person -> Person", 'edge Likes: Person -> Person @rename_from("Knows")'
        ).replace("w: F64?  n:", 'length: F64? @rename_from("w")  n:')
        graph.apply_schema(renamed)
        graph.mutate('query q() { insert Person { name: "c", must: 1.0 } }')
        found = graph.at(then).algorithms.degree("Likes", weight="length", direction="out").rows()
        assert [(row["id"], row["degree"]) for row in found] == [("a", 2.0), ("b", 0.0)]
        own = omnigraph.QueryOptions(schema="commit")
        assert graph.at(then).algorithms.degree("Knows", weight="w", options=own).num_rows == 2


def test_empty_graphs_have_empty_results(tmp_path):
    with create(tmp_path, []) as graph:
        for name in ALGORITHMS:
            if name == "shortest_paths":
                continue
            found = graph.algorithms.run(name, None, REQUIRED.get(name, {}))
            assert found.num_rows == 0
            assert found.columns == ALGORITHMS[name].columns
        load(graph, tmp_path, lines()[:2])
        found = graph.algorithms.shortest_paths(sources="p00")
        assert [row["id"] for row in found] == ["p00"]
        assert graph.algorithms.pagerank().to_arrow()["score"].to_pylist() == [0.5, 0.5]


def test_weights_may_be_of_any_type_of_numbers(graph):
    assert graph.algorithms.degree("Knows", weight="n", direction="out").schema.field("degree").type == pa.float64()
    total = sum(row["degree"] for row in graph.algorithms.degree("Knows", weight="d", direction="out"))
    assert total == 90 * 1.25
    below = sum(row["degree"] for row in graph.algorithms.degree("Knows", weight="neg", direction="out"))
    assert below == sum(range(-3, 87))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: a.pagerank("Knows", weight="ww"), "edge type 'Knows' has no property 'ww'"),
        (lambda a: a.pagerank("Knows", weight="note"), "property 'note' of 'Knows' is String"),
        (lambda a: a.pagerank(weight="n"), "edge type 'In' has no property 'n'"),
        (lambda a: a.pagerank("Knows", weight="neg"), "edge 'k000' of 'Knows' has neg -3.0"),
        (lambda a: a.betweenness("Knows", weight="n"), "and a weight must be a finite number above zero"),
        (lambda a: a.shortest_paths("Knows", sources="nobody"), "source 'nobody' was not found"),
        (lambda a: a.shortest_paths("Knows", sources=[("Team", "t0")]), "source 'Team:t0' was not found"),
        (lambda a: a.shortest_paths("Knows", sources="p00", target="Person:x"), "target 'Person:x' was not found"),
        (lambda a: a.pagerank("Knows", sources={"p00": 0}), "the shares of all sources are zero"),
    ],
)
def test_what_the_graph_does_not_have_is_an_error_that_says_what_is_missing(graph, call, message):
    with pytest.raises(AlgorithmInputError, match=message):
        call(graph.algorithms)


def test_an_edge_without_a_weight_is_named(tmp_path):
    rows = [{"type": "Person", "data": {"name": name, "must": 1.0}} for name in "ab"]
    rows += [{"edge": "Knows", "from": "a", "to": "b", "data": {"id": name}} for name in ("z", "e")]
    rows += [{"edge": "Knows", "from": "a", "to": "b", "data": {"id": "a", "w": 1.0}}]
    with create(tmp_path, rows) as graph:
        with pytest.raises(AlgorithmInputError, match="edge 'e' of 'Knows' has no w, and") as refused:
            graph.algorithms.shortest_paths("Knows", sources="a", weight="w")
        assert "set such a w" in refused.value.hint


def test_an_id_of_two_types_has_to_be_told_apart(tmp_path):
    rows = [{"type": "Person", "data": {"name": "x", "must": 1.0}}, {"type": "Team", "data": {"code": "x"}}]
    rows.append({"edge": "In", "from": "x", "to": "x", "data": {}})
    with create(tmp_path, rows) as graph:
        with pytest.raises(AlgorithmInputError, match="source 'x' is an id of Person and Team") as refused:
            graph.algorithms.shortest_paths(sources="x")
        assert refused.value.hint == "write 'Person:x'"
        for sources in ("Person:x", [("Person", "x")]):
            assert [row["distance"] for row in graph.algorithms.shortest_paths("In", sources=sources)] == [0, 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: a.run("page_rank"), "algorithm must be"),
        (lambda a: a.run("pagerank", None, {"dumping": 0.5}), "pagerank has no parameter 'dumping'"),
        (lambda a: a.run("shortest_paths"), "shortest_paths needs 'sources'"),
        (lambda a: a.pagerank(damping=1.0), "damping must be"),
        (lambda a: a.pagerank(damping=-0.1), "damping must be"),
        (lambda a: a.pagerank(damping="x"), "damping must be"),
        (lambda a: a.pagerank(tolerance=float("nan")), "tolerance must be"),
        (lambda a: a.pagerank(max_iterations=0), "max_iterations must be"),
        (lambda a: a.pagerank(sources=[]), "sources must be at least one node"),
        (lambda a: a.pagerank(sources=7), "sources must be nodes"),
        (lambda a: a.pagerank(sources=[7]), "source must be an id"),
        (lambda a: a.pagerank(sources={"p00": -1}), "share of a source must be"),
        (lambda a: a.degree(direction="up"), "direction must be"),
        (lambda a: a.degree(7), "edges must be several names"),
        (lambda a: a.degree([7]), "must be text"),
        (lambda a: a.degree(weight=7), "weight must be text"),
        (lambda a: a.degree(limit=-1), "limit must be"),
        (lambda a: a.degree(options="x"), "options must be"),
        (lambda a: a.degree(lmit=1), "argument must be"),
        (lambda a: a.degree(message="x"), "'message' needs write: without it nothing is committed"),
        (lambda a: a.betweenness(samples=0), "samples must be"),
        (lambda a: a.betweenness(normalized=1), "normalized must be"),
        (lambda a: a.fast_rp(dimension=0), "dimension must be"),
        (lambda a: a.fast_rp(weights=[]), "weights must be at least one number"),
        (lambda a: a.fast_rp(weights=["x"]), "weights must be"),
        (lambda a: a.node_similarity(min_similarity=2), "min_similarity must be"),
        (lambda a: a.shortest_paths("Knows", sources="p00", target="p01", each=True), "nearest source"),
        (lambda a: a.shortest_paths("Knows", sources=[]), "sources must be at least one node"),
    ],
)
def test_an_argument_that_does_not_fit_is_refused(graph, call, message):
    with pytest.raises((UsageError, ValueFormatError), match=message):
        call(graph.algorithms)


def test_an_unknown_edge_type_is_refused_with_names_that_there_are(graph):
    with pytest.raises(TypeMissingError, match="type 'Know' was not found") as refused:
        graph.algorithms.degree("Know")
    assert "Knows" in refused.value.details.near
    with pytest.raises(UsageError) as mistaken:
        graph.algorithms.run("pagerang")
    assert mistaken.value.hint == "did you mean 'pagerank'?"


@pytest.mark.more
def test_limits_reach_every_algorithm(graph):
    for name in ALGORITHMS:
        params = REQUIRED.get(name, {})

        def run(**options):
            return graph.algorithms.run(name, None, params, options=omnigraph.QueryOptions(**options))  # noqa: B023 - called in the loop

        with pytest.raises(QueryMemoryError, match="the algorithm needs"):
            run(memory_bytes=1000)
        stopped = threading.Event()
        stopped.set()
        with pytest.raises(QueryCancelledError, match="the algorithm was cancelled"):
            run(cancel=stopped)
        with pytest.raises(QueryRowLimitError):
            run(max_rows=2)
        with calling(CallContext(deadline_s=0.0)), pytest.raises(QueryTimeoutError):
            run()
        with calling(CallContext(memory_bytes=1000)), pytest.raises(QueryMemoryError):
            run()


def test_reads_of_one_state_share_its_arrays(graph):
    topology = graph.backend.engine.reads.memory.topology
    graph.algorithms.degree()
    before = topology.stats
    again = graph.algorithms.pagerank()
    after = topology.stats
    assert (after.builds, after.extensions) == (before.builds, before.extensions)
    assert after.hits > before.hits
    assert again.cost.total_calls <= 2


def test_a_missing_extra_is_an_error_that_says_what_to_install(graph, monkeypatch):
    for name in ("scipy.sparse", "igraph"):
        monkeypatch.setitem(sys.modules, name, None)
    for call in (graph.algorithms.pagerank, graph.algorithms.k_core):
        with pytest.raises(LibraryMissingError, match=r"this algorithm needs (scipy|igraph), which is not") as refused:
            call()
        assert "omnigraphdb[algorithms]" in refused.value.hint
    assert graph.algorithms.degree().num_rows


def test_methods_have_the_parameters_and_defaults_of_the_catalogue():
    for name, algorithm in ALGORITHMS.items():
        declared = inspect.signature(getattr(Algorithms, name)).parameters
        taken = {one.name: one.default for one in declared.values() if one.kind is one.KEYWORD_ONLY}
        wanted = {one.name: inspect.Parameter.empty if one.is_required else one.default for one in algorithm.parameters}
        assert taken == wanted, name
    assert str(Algorithms(None, "main", None)).splitlines()[0].startswith("betweenness")


def test_a_result_without_a_written_property_shows_none():
    assert ReadInfo(query_name="q").written is None


def test_any_number_of_parallel_edges_is_one_connection(tmp_path):
    """So many that their sum is zero in the small numbers of a sparse matrix."""
    with omnigraph.init(tmp_path / "g", "node P { k: String @key }\nedge E: P -> P") as graph:
        graph.load({"P": [{"k": "a"}, {"k": "b"}], "E": [{"from": "a", "to": "b"}] * 256})
        assert [row["size"] for row in graph.algorithms.connected_components("E")] == [2, 2]
