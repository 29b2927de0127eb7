"""What an algorithm finds, written as a property: one commit, only what changes, conflicts as any mutation has them."""

from __future__ import annotations

import re

import pytest
from tests.unit.engine.algorithms.graphs import SCHEMA, create

import omnigraph
from omnigraph.errors import (
    AffectedLimitError,
    AlgorithmInputError,
    ConstraintViolationError,
    ExpectedVersionMismatchError,
    PreconditionFailedError,
    ReadOnlyError,
    UsageError,
)
from omnigraph.operations.algorithms import WriteAlgorithmRequest
from omnigraph.runtime import CallContext, calling

PEOPLE = [{"type": "Person", "data": {"name": name, "must": 1.0, "photo": "base64:AAEC"}} for name in "abcd"]
TEAMS = [{"type": "Team", "data": {"code": "x"}}]
EDGES = [
    *({"edge": "Knows", "from": a, "to": b, "data": {"id": a + b, "w": 1.0}} for a, b in ("ab", "bc", "ca")),
    {"edge": "In", "from": "a", "to": "x", "data": {"id": "ax", "w": 1.0}},
]
LINK = "query l($a: String, $b: String) { insert Knows { from: $a, to: $b, w: 1.0 } }"


@pytest.fixture
def graph(tmp_path):
    with create(tmp_path, [*PEOPLE, *TEAMS, *EDGES]) as made:
        yield made


def stored(graph, name, type_name="Person", key="name"):
    """Return a property of all entities of a type, by their keys."""
    text = f"query q() {{ match {{ $p: {type_name} }} return {{ $p.{key} as k, $p.{name} as v }} }}"
    return {row["k"]: row["v"] for row in graph.query(text)}


def found(result, column):
    return {row["id"]: row[column] for row in result if row["type"] == "Person"}


def test_a_score_becomes_a_property_in_one_commit(graph):
    before = graph.log()[0]
    result = graph.algorithms.pagerank("Knows", write="score", actor="mira", message="rank")
    commit = graph.log()[0]
    assert graph.log()[1].id == before.id
    assert (commit.actor, commit.message, commit.operation) == ("mira", "rank", "mutate")
    assert stored(graph, "score") == found(result, "score") == found(graph.algorithms.pagerank("Knows"), "score")
    assert (result.written.updated, result.written.unchanged, result.written.commit_id) == (4, 0, str(commit.id))
    assert result.commit_id == str(before.id)
    # Nothing else of a row has changed, its Blob included.
    assert graph.entity("Person", "a")["photo"] == b"\x00\x01\x02"
    assert graph.entity("Person", "a")["must"] == 1.0


def test_rows_that_stay_the_same_are_not_written(graph):
    graph.algorithms.degree("Knows", write="place")
    head = graph.log()[0]
    again = graph.algorithms.degree("Knows", write="place")
    assert (again.written.updated, again.written.unchanged, again.written.commit_id) == (0, 4, None)
    assert graph.log()[0].id == head.id
    assert str(again).splitlines()[-1] == "wrote place: 0 nodes updated, 4 unchanged, nothing to commit"
    graph.mutate(LINK, {"a": "d", "b": "a"})
    third = graph.algorithms.degree("Knows", write="place")
    assert (third.written.updated, third.written.unchanged) == (2, 2)
    (page,) = [one for one in graph.commit_changes(graph.log()[0]).block.changes if one.id == "a"]
    assert page.op == "update"
    assert {one.id for one in graph.commit_changes(graph.log()[0]).block.changes} == {"a", "d"}


def test_every_node_type_is_written_or_the_one_that_is_named(graph):
    result = graph.algorithms.pagerank(write="score")
    assert result.written.updated == 5
    assert stored(graph, "score", "Team", "code") == {
        row["id"]: row["score"] for row in result if row["type"] == "Team"
    }
    only = graph.algorithms.connected_components(write="Person.place")
    assert (only.written.updated, only.num_rows) == (4, 5)


@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        (
            lambda a: a.pagerank(write="scores"),
            "node type 'Person' has no property 'scores' to write to",
            "did you mean 'score'?",
        ),
        (lambda a: a.pagerank(write="rank"), "has no property 'rank'", "add the line `rank: F64?` to node Person"),
        (lambda a: a.k_core("Knows", write="core"), "no property 'core'", "add the line `core: I64?` to node Person"),
        (
            lambda a: a.fast_rp("Knows", dimension=8, write="emb"),
            "no property 'emb'",
            "add the line `emb: Vector(8)?` to node Person",
        ),
        (lambda a: a.degree(write="place"), "node type 'Team' has no property 'place'", "to node Team"),
        (lambda a: a.pagerank("Knows", write="place"), "'place' of 'Person' is I64?, and F64? is needed", None),
        (lambda a: a.pagerank("Knows", write="text"), "'text' of 'Person' is String?, and F64? is needed", None),
        (lambda a: a.fast_rp("Knows", write="v"), "is Vector(4)?, and Vector(128)? is needed", None),
        (
            lambda a: a.pagerank("Knows", write="Team.score"),
            "'Team' is not a node type at the ends of these edges",
            None,
        ),
        (
            lambda a: a.shortest_paths("Knows", sources="a", write="must"),
            "Person 'd' has no distance, and 'must'",
            "F64?",
        ),
    ],
)
def test_a_property_that_does_not_fit_is_refused_with_the_line_to_add(graph, call, message, hint):
    head = graph.log()[0]
    with pytest.raises(AlgorithmInputError, match=re.escape(message)) as refused:
        call(graph.algorithms)
    assert hint is None or hint in refused.value.hint
    assert graph.log()[0].id == head.id


@pytest.mark.parametrize(
    "call",
    [
        lambda g: g.algorithms.node_similarity(write="score"),
        lambda g: g.algorithms.shortest_paths("Knows", sources="a", target="b", write="place"),
        lambda g: g.algorithms.shortest_paths("Knows", sources="a", each=True, write="place"),
        lambda g: g.at("main").algorithms.pagerank("Knows", write="score"),
        lambda g: g.algorithms.pagerank("Knows", write="score", on_conflict="wait"),
        lambda g: g.algorithms.pagerank("Knows", write=7),
        lambda g: g.algorithms.pagerank("Knows", write="score", max_affected=-1),
    ],
)
def test_what_cannot_be_written_is_refused(graph, call):
    with pytest.raises(omnigraph.OmnigraphError) as refused:
        call(graph)
    assert refused.value.code in {UsageError.row.code, "value.format"}


def test_values_fit_narrower_types_and_nodes_without_one_get_null(graph):
    result = graph.algorithms.pagerank("Knows", write="small")
    assert stored(graph, "small") == pytest.approx(found(result, "score"), rel=1e-6)
    assert graph.algorithms.pagerank("Knows", write="small").written.updated == 0
    graph.algorithms.degree("Knows", write="tiny")
    assert stored(graph, "tiny") == {"a": 2, "b": 2, "c": 2, "d": 0}
    graph.algorithms.degree("Knows", write="score")
    assert stored(graph, "score") == {"a": 2.0, "b": 2.0, "c": 2.0, "d": 0.0}
    graph.algorithms.shortest_paths("Knows", sources="a", write="place")
    assert stored(graph, "place") == {"a": 0, "b": 1, "c": 2, "d": None}
    graph.algorithms.shortest_paths("Knows", sources="a", weight="w", write="score")
    assert stored(graph, "score") == {"a": 0.0, "b": 1.0, "c": 2.0, "d": None}
    vectors = graph.algorithms.fast_rp("Knows", dimension=4, write="v")
    assert stored(graph, "v") == {row["id"]: row["embedding"] for row in vectors}
    again = graph.algorithms.fast_rp("Knows", dimension=4, write="v")
    assert (again.written.updated, again.written.unchanged) == (0, 4)


def test_a_branch_is_written_and_merged_like_any_other_change(graph):
    review = graph.create_branch("review")
    review.algorithms.pagerank("Knows", write="score")
    assert stored(graph, "score") == dict.fromkeys("abcd")
    assert {change.id for change in graph.diff("main", "review")} == set("abcd")
    graph.merge("review")
    assert stored(graph, "score") == stored(review, "score")


def race(graph, monkeypatch, between):
    """Let somebody else write between the run and its publish, once."""
    from omnigraph.txn.publish.writer import BranchWriter  # noqa: PLC0415 - beside its use

    commit, raced = BranchWriter.commit, []

    def commit_later(self, txn):
        if not raced and txn.message == "slow":
            raced.append(True)
            between()
        return commit(self, txn)

    monkeypatch.setattr(BranchWriter, "commit", commit_later)


def test_a_write_that_others_overtake_is_computed_again(graph, monkeypatch):
    race(graph, monkeypatch, lambda: graph.mutate(LINK, {"a": "d", "b": "a"}))
    result = graph.algorithms.degree("Knows", write="place", message="slow")
    assert found(result, "degree") == {"a": 3, "b": 2, "c": 2, "d": 1} == stored(graph, "place")
    assert result.commit_id == str(graph.log()[1].id)


def test_a_conflict_is_raised_where_it_is_to_be_refused(graph, monkeypatch):
    race(graph, monkeypatch, lambda: graph.mutate(LINK, {"a": "d", "b": "a"}))
    with pytest.raises(ExpectedVersionMismatchError):
        graph.algorithms.degree("Knows", write="place", message="slow", on_conflict="refuse")
    assert stored(graph, "place") == dict.fromkeys("abcd")


def test_an_unrelated_write_does_not_disturb(graph, monkeypatch):
    race(graph, monkeypatch, lambda: graph.mutate('query q() { insert Team { code: "y" } }'))
    result = graph.algorithms.degree("Knows", write="place", message="slow", on_conflict="refuse")
    assert result.written.updated == 4


def test_a_schema_that_changes_meanwhile_is_used_anew(graph, monkeypatch):
    race(graph, monkeypatch, lambda: graph.apply_schema(SCHEMA.replace("tiny: I32?", "tiny: I32?  more: I64?")))
    assert graph.algorithms.degree("Knows", write="place", message="slow").written.updated == 4
    assert graph.algorithms.degree("Knows", write="more").written.updated == 4


def test_preconditions_and_limits_of_a_commit_hold(graph):
    old = graph.log()[1]
    with pytest.raises(PreconditionFailedError):
        graph.algorithms.degree("Knows", write="place", expected_head=old)
    with pytest.raises(AffectedLimitError, match="4 entities would change, and at most 3 may"):
        graph.algorithms.degree("Knows", write="place", max_affected=3)
    with calling(CallContext(max_affected=1)), pytest.raises(AffectedLimitError):
        graph.algorithms.degree("Knows", write="place")
    assert stored(graph, "place") == dict.fromkeys("abcd")
    assert graph.algorithms.degree("Knows", write="place", expected_head=graph.log()[0], max_affected=4).written.updated
    with omnigraph.open(graph.uri, mode="read_only") as reading:
        with pytest.raises(ReadOnlyError):
            reading.algorithms.degree("Knows", write="place")
        assert reading.algorithms.degree("Knows").num_rows == 4


def test_a_rule_of_the_schema_is_kept(graph):
    graph.apply_schema(SCHEMA.replace("v: Vector(4)?", "v: Vector(4)?  @range(score, 0..0.2)"))
    with pytest.raises(ConstraintViolationError):
        graph.algorithms.pagerank("Knows", write="Person.score")
    assert stored(graph, "score") == dict.fromkeys("abcd")


def test_a_repeated_request_answers_with_the_first_commit(graph):
    request = WriteAlgorithmRequest(algorithm="degree", write="place", edges="Knows")
    call = CallContext(request_id="r1", idempotency_key="k1", payload_digest="d")
    with calling(call):
        first = graph.backend.execute(request)
    graph.mutate(LINK, {"a": "d", "b": "a"})
    with calling(call):
        second = graph.backend.execute(request)
    assert second.written == first.written
    assert second.num_rows == 0
    assert second.warnings == ("this request was executed before; its rows are not stored",)
