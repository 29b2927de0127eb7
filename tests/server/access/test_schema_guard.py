"""A stored query of a served graph stays valid, whichever verb would bring its main branch to another schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import omnigraph
from omnigraph.errors import OmnigraphError, QueryTypeError, SchemaManagedError
from omnigraph.ir.stored_queries import QuerySource, StoredQueries
from omnigraph.operations.history import CreateBranchRequest, MergeRequest
from omnigraph.operations.proposals import MergeProposalRequest, OpenProposalRequest
from omnigraph.operations.registry import RegistryBackend
from omnigraph.operations.request import Backend
from omnigraph.operations.stored import InvokeReadRequest
from omnigraph.operations.writes import ApplySchemaRequest, MutateRequest
from omnigraph.server.control.served import GuardedSchema
from tests.session_graph import RELAXED

SCHEMA = "node P { name: String @key  age: I32? }"
NARROW = "node P { name: String @key }"
AGES = "query ages() { match { $p: P } return { $p.age } }"
QUERIES = StoredQueries.parse([QuerySource(name="q.gq", text=AGES)])


def branch_of(served: Backend, *, diverged: bool) -> None:
    """Make a branch with the narrow schema; with ``diverged`` main has a commit that the branch has not."""
    served.execute(CreateBranchRequest(name="dev"))
    served.execute(ApplySchemaRequest(text=NARROW, branch="dev"))
    if diverged:
        served.execute(MutateRequest(text='query q() { insert P { name: "new" } }'))


def by_apply(served: Backend) -> Any:
    return served.execute(ApplySchemaRequest(text=NARROW))


def by_padded_name(served: Backend) -> Any:
    return served.execute(ApplySchemaRequest(text=NARROW, branch=" main\n"))


def by_fast_forward(served: Backend) -> Any:
    branch_of(served, diverged=False)
    return served.execute(MergeRequest(source="dev"))


def by_merge(served: Backend) -> Any:
    branch_of(served, diverged=True)
    return served.execute(MergeRequest(source="dev", target=" main"))


def by_proposal(served: Backend) -> Any:
    branch_of(served, diverged=False)
    served.execute(OpenProposalRequest(source="dev", title="t", actor="mira"))
    return served.execute(MergeProposalRequest(number=1, actor="jon"))


def by_branch_of_branch(served: Backend) -> Any:
    branch_of(served, diverged=True)
    served.execute(CreateBranchRequest(name="other"))
    served.execute(MergeRequest(source="dev", target="other"))
    return served.execute(MergeRequest(source="other"))


WAYS = pytest.mark.parametrize(
    "way", [by_apply, by_padded_name, by_fast_forward, by_merge, by_proposal, by_branch_of_branch]
)


@WAYS
def test_no_verb_brings_main_to_a_schema_that_a_stored_query_does_not_fit(tmp_path, way: Callable[[Backend], Any]):
    with omnigraph.init(tmp_path / "graph", SCHEMA, settings=RELAXED) as graph:
        served = GuardedSchema(graph.backend, "people", QUERIES, is_managed=False)
        with pytest.raises(QueryTypeError, match="has no property 'age'"):
            way(served)
        assert list(RegistryBackend(served, QUERIES).execute(InvokeReadRequest(name="ages"))) is not None
        assert "age" in graph.schema.source


@WAYS
def test_no_verb_changes_the_schema_of_a_graph_that_a_cluster_describes(tmp_path, way: Callable[[Backend], Any]):
    with omnigraph.init(tmp_path / "graph", SCHEMA, settings=RELAXED) as graph:
        served = GuardedSchema(graph.backend, "people", QUERIES, is_managed=True)
        with pytest.raises(SchemaManagedError):
            way(served)


def test_a_branch_of_another_schema_is_not_merged_into_a_graph_that_a_cluster_describes(tmp_path):
    with omnigraph.init(tmp_path / "graph", SCHEMA, settings=RELAXED) as graph:
        branch_of(graph.backend, diverged=False)
        served = GuardedSchema(graph.backend, "people", QUERIES, is_managed=True)
        with pytest.raises(SchemaManagedError):
            served.execute(MergeRequest(source="dev"))


def test_other_branches_and_schemas_that_fit_are_free(tmp_path):
    with omnigraph.init(tmp_path / "graph", SCHEMA, settings=RELAXED) as graph:
        served = GuardedSchema(graph.backend, "people", QUERIES, is_managed=False)
        branch_of(served, diverged=False)
        assert served.execute(ApplySchemaRequest(text=SCHEMA.replace("age", "rank: I32? age"))).commit is not None
        with pytest.raises(OmnigraphError):
            served.execute(MergeRequest(source="dev"))
