"""The table of dispositions, row by row: what an apply does about each kind of change in each situation."""

import pytest
from tests.cluster_directory import dispositions

from omnigraph.cluster.ledger.state import StoredResource
from omnigraph.cluster.plan.diff import diff_resources
from omnigraph.cluster.plan.dispositions import Standing, decide

A, B = "a" * 64, "b" * 64
GRAPH = {"graph.g": A, "schema.g": A}


def _resources(digests):
    """Resources by address: a digest, or a digest with what the resource says beside it."""
    return {
        address: found if isinstance(found, StoredResource) else StoredResource(digest=found)
        for address, found in digests.items()
    }


def _bound(digest, *targets):
    return StoredResource(digest=digest, applies_to=targets)


def _using(digest, provider):
    return StoredResource(digest=digest, embedding_provider=provider)


# What is declared, what was applied, what else is so, and what becomes of each change.
ROWS = {
    "graph and schema are made together": (GRAPH, {}, {}, {"graph.g": "applied", "schema.g": "applied"}),
    "graph to be made while an earlier attempt is not recovered": (
        {**GRAPH, "query.g.q": A, "policy.p": _bound(A, "graph.g")},
        {},
        {"pending": frozenset({"g"})},
        {
            "graph.g": "blocked/cluster_recovery_pending",
            "policy.p": "blocked/cluster_recovery_pending",
            "query.g.q": "blocked/dependency_not_applied",
            "schema.g": "blocked/cluster_recovery_pending",
        },
    ),
    "graph that could not be made": (
        {**GRAPH, "query.g.q": A, "policy.p": _bound(A, "graph.g")},
        {},
        {"failed": {"graph.g": "graph_create_failed"}},
        {
            "graph.g": "blocked/graph_create_failed",
            "policy.p": "blocked/dependency_not_applied",
            "query.g.q": "blocked/dependency_not_applied",
            "schema.g": "blocked/graph_create_failed",
        },
    ),
    "schema is updated": (
        {"graph.g": B, "schema.g": B, "query.g.q": B},
        {**GRAPH, "query.g.q": A},
        {},
        {"graph.g": "derived", "query.g.q": "applied", "schema.g": "applied"},
    ),
    "schema to be updated while an earlier attempt is not recovered": (
        {"graph.g": B, "schema.g": B, "query.g.q": B},
        {**GRAPH, "query.g.q": A},
        {"pending": frozenset({"g"})},
        {
            "graph.g": "deferred/dependency_not_applied",
            "query.g.q": "blocked/dependency_not_applied",
            "schema.g": "blocked/cluster_recovery_pending",
        },
    ),
    "schema that the graph cannot come to": (
        {"graph.g": B, "schema.g": B, "query.g.new": A, "policy.p": _bound(B, "graph.g")},
        {**GRAPH, "query.g.old": A, "policy.p": _bound(A, "graph.g")},
        {"failed": {"schema.g": "schema_apply_failed"}},
        {
            "graph.g": "deferred/dependency_not_applied",
            "policy.p": "applied",
            "query.g.new": "blocked/dependency_not_applied",
            "query.g.old": "applied",
            "schema.g": "blocked/schema_apply_failed",
        },
    ),
    "query alone": ({**GRAPH, "query.g.q": B}, {**GRAPH, "query.g.q": A}, {}, {"query.g.q": "applied"}),
    "query is deleted": (GRAPH, {**GRAPH, "query.g.q": A}, {}, {"query.g.q": "applied"}),
    "graph to be deleted without an approval": (
        {},
        {**GRAPH, "query.g.q": A},
        {},
        {
            "graph.g": "blocked/approval_required",
            "query.g.q": "blocked/approval_required",
            "schema.g": "blocked/approval_required",
        },
    ),
    "graph to be deleted with an approval": (
        {},
        {**GRAPH, "query.g.q": A},
        {"approved": frozenset({"g"})},
        {"graph.g": "applied", "query.g.q": "applied", "schema.g": "applied"},
    ),
    "graph that could not be deleted": (
        {},
        {**GRAPH, "query.g.q": A},
        {"approved": frozenset({"g"}), "failed": {"graph.g": "graph_delete_failed"}},
        {
            "graph.g": "blocked/graph_delete_failed",
            "query.g.q": "blocked/graph_delete_failed",
            "schema.g": "blocked/graph_delete_failed",
        },
    ),
    "policies and providers": (
        {"policy.p": _bound(B, "cluster"), "policy.n": _bound(A, "cluster"), "provider.embedding.v": B},
        {"policy.p": _bound(A, "cluster"), "policy.o": _bound(A, "cluster"), "provider.embedding.o": A},
        {},
        {
            "policy.n": "applied",
            "policy.o": "applied",
            "policy.p": "applied",
            "provider.embedding.o": "applied",
            "provider.embedding.v": "applied",
        },
    ),
    "provider of a graph that stays as it was": (
        {"graph.g": B, "schema.g": B},
        {"graph.g": _using(A, "provider.embedding.v"), "schema.g": A, "provider.embedding.v": A},
        {"failed": {"schema.g": "schema_apply_failed"}},
        {
            "graph.g": "deferred/dependency_not_applied",
            "provider.embedding.v": "blocked/dependency_not_applied",
            "schema.g": "blocked/schema_apply_failed",
        },
    ),
    "policy of a graph whose deletion nobody has approved": (
        {},
        {**GRAPH, "policy.p": _bound(A, "graph.g")},
        {},
        {
            "graph.g": "blocked/approval_required",
            "policy.p": "blocked/dependency_not_applied",
            "schema.g": "blocked/approval_required",
        },
    ),
    "policies that take the place of one that stays": (
        {
            "graph.g": A,
            "schema.g": A,
            "policy.new": _bound(B, "graph.g"),
            "policy.next": _bound(B, "graph.h"),
            "policy.own": _bound(B, "cluster"),
            "graph.h": A,
            "schema.h": A,
            "graph.i": A,
            "schema.i": A,
            "policy.new2": _bound(B, "graph.i"),
        },
        {
            **GRAPH,
            "graph.h": A,
            "schema.h": A,
            "graph.i": A,
            "schema.i": A,
            "graph.x": A,
            "schema.x": A,
            "policy.old": _bound(A, "graph.g", "graph.x"),
            "policy.new": _bound(A, "graph.h"),
            "policy.old2": _bound(A, "graph.i"),
        },
        {},
        {
            "graph.x": "blocked/approval_required",
            # They would apply to a graph besides the one that stays for x, or for g.
            "policy.new": "blocked/dependency_not_applied",
            "policy.next": "blocked/dependency_not_applied",
            "policy.old": "blocked/dependency_not_applied",
            "policy.new2": "applied",
            "policy.old2": "applied",
            "policy.own": "applied",
            "schema.x": "blocked/approval_required",
        },
    ),
    "schema that the ledger has lost": (
        {**GRAPH, "query.g.q": A},
        {"graph.g": A},
        {},
        {"query.g.q": "blocked/dependency_not_applied", "schema.g": "blocked/cluster_recovery_pending"},
    ),
    "schema without a graph": ({}, {"schema.g": A}, {}, {"schema.g": "deferred/apply_unsupported_kind"}),
    "kind that nobody knows": ({}, {"pipeline.p": A}, {}, {"pipeline.p": "deferred/apply_unsupported_kind"}),
}


@pytest.mark.parametrize("row", ROWS)
def test_disposition(row):
    desired, applied, more, expected = ROWS[row]
    desired, applied = _resources(desired), _resources(applied)
    changes = decide(diff_resources(desired, applied), Standing(applied=applied, desired=desired, **more))
    assert dispositions(changes) == expected
    assert [change.resource for change in changes] == sorted(expected)
