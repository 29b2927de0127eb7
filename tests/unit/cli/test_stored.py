"""Stored queries for what works on queries instead of requests, such as reads on Spark."""

from __future__ import annotations

import pytest
from tests.session_graph import create_graph

from omnigraph.cli.options import GraphOptions
from omnigraph.cli.stored import find_queries, list_entries
from omnigraph.errors import StoredQueryMissingError, UsageError
from omnigraph.operations.reads import QueryRequest
from omnigraph.operations.stored import InvokeReadRequest

TEXT = "query names($n: String?) { match { $p: Person } return { $p.name } }"


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    create_graph(tmp_path / "g", "node Person { name: String @key }\n")
    (tmp_path / "q.gq").write_text(TEXT)
    return tmp_path


def test_an_invocation_becomes_the_query_that_it_stands_for(place):
    graph = GraphOptions(store=str(place / "g"))
    with find_queries(graph, [str(place / "q.gq")]) as found:
        declared = found.declared(InvokeReadRequest(name="names", params={"n": "x"}, at="main~0"))
        assert isinstance(declared, QueryRequest)
        assert (declared.text, declared.params, declared.at, declared.name) == (TEXT, {"n": "x"}, "main~0", "names")
        assert found.graph.execute(declared).num_rows == 0
        with pytest.raises(StoredQueryMissingError):
            found.declared(InvokeReadRequest(name="nmes"))


def test_files_are_listed_without_a_graph_and_with_one_that_is_there(place):
    files = [str(place / "q.gq")]
    assert [one.name for one in list_entries(GraphOptions(), files)[1]] == ["names"]
    found, entries = list_entries(GraphOptions(store=str(place / "g")), files)
    assert found is not None
    assert [one.name for one in entries] == ["names"]
    with pytest.raises(UsageError, match="no stored queries were named"):
        list_entries(GraphOptions(store=str(place / "g")), None)
