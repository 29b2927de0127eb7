"""Operations as data: every one of them is declared, can be executed, and survives its JSON form."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields

import pytest

import omnigraph
from omnigraph.engine.load import Dialect, LoadSettings, Source
from omnigraph.errors import OmnigraphError, RemoteUnsupportedError, UsageError
from omnigraph.graph import opening
from omnigraph.operations import all_operations
from omnigraph.operations.json_form import request_from_json, request_to_json
from omnigraph.operations.local.backend import find_handler
from omnigraph.operations.reads import QueryRequest
from omnigraph.operations.request import _checks_of, check_request
from omnigraph.operations.writes import LoadRequest, SentSource
from omnigraph.policy import Action
from tests.contract.graph.json_backend import JsonBackend
from tests.session_graph import RELAXED

OPERATIONS = all_operations()
SCHEMA = "node Person { name: String @key }"
ADD = "query add($name: String) { insert Person { name: $name } }"
# What the fields without a default are given here; the values do not matter, their types do.
REQUIRED = {
    "sources": [SentSource(file="0")],
    "rows": [{}],
    "limit": 7,
    "number": 1,
    "batches": [{}],
    "call": QueryRequest(text="x"),
}


def test_an_operation_has_a_handler_and_survives_its_json_form():
    for name, declared in OPERATIONS.items():
        assert declared.operation.name == name
        assert declared.operation.action in Action, name
        assert callable(find_handler(declared)), name
        given = {one.name: REQUIRED.get(one.name, "x") for one in fields(declared) if one.default is MISSING}
        request = declared(**given)
        assert request_from_json(json.loads(json.dumps(request_to_json(request)))).__class__ is declared


def test_options_and_sources_survive_the_json_form():
    request = LoadRequest(
        sources=[
            SentSource(file="0", type_name="Person", columns={"name": "n"}),
            SentSource(file="1", dialect=Dialect(delimiter=";", header=["a", "b"], null=["NULL"])),
        ],
        settings=LoadSettings(threads=1),
    )
    assert request_from_json(json.loads(json.dumps(request_to_json(request)))) == request


@pytest.mark.parametrize("source", ["a.jsonl", Source(path="a.jsonl"), Source(path="sent:a.jsonl")], ids=str)
def test_no_document_makes_a_source_that_names_a_place(source):
    document = {"operation": "load", "sources": [source]}
    if isinstance(source, Source):
        document = {"operation": "load", "sources": [{"$record": "Source", "path": source.path}]}
    with pytest.raises(RemoteUnsupportedError, match="reads no files but those that are sent"):
        request_from_json(document)


def test_every_type_that_a_field_is_declared_with_is_checked():
    for declared in OPERATIONS.values():
        given = {one.name: object() for one in fields(declared)}
        wrong = declared(**given)
        if given:
            with pytest.raises(OmnigraphError):
                check_request(wrong)
    # Their types are known, or this fails.
    assert {name: len(_checks_of(declared)) for name, declared in OPERATIONS.items()}.keys() == OPERATIONS.keys()


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"operation": "drop"}, "unknown operation 'drop'"),
        ({}, "unknown operation 'None'"),
        ({"operation": "query", "text": "x", "txet": "y"}, "QueryRequest has no field 'txet'"),
    ],
)
def test_a_document_that_is_no_request_is_refused(document, message):
    with pytest.raises(UsageError, match=message):
        request_from_json(document)


def test_a_value_without_a_json_form_is_refused():
    with pytest.raises(UsageError, match="a value of type function cannot be part of a request"):
        request_to_json(QueryRequest(text="x", params={"p": lambda: None}))


def test_writes_are_what_a_reading_graph_refuses(tmp_path):
    with omnigraph.init(tmp_path / "g", SCHEMA, settings=RELAXED) as graph:
        graph.mutate(ADD, {"name": "ann"})
    with omnigraph.open(tmp_path / "g", mode="read_only") as graph, pytest.raises(omnigraph.OmnigraphError):
        graph.mutate(ADD, {"name": "bo"})
    writing = {name for name, declared in OPERATIONS.items() if declared.operation.writes}
    assert {"mutate", "load", "merge", "apply_schema", "cleanup"} <= writing
    assert not {"query", "diff", "log", "status", "export"} & writing


def test_every_method_goes_through_a_request(tmp_path, monkeypatch):
    monkeypatch.setattr(opening, "LocalBackend", JsonBackend)
    with omnigraph.init(tmp_path / "g", SCHEMA, settings=RELAXED) as graph:
        graph.mutate(ADD, {"name": "ann"})
        graph.query("query q() { match { $p: Person } return { $p.name } }")
        graph.log()
        assert [one["operation"] for one in graph.backend.requests] == ["mutate", "query", "log"]
        assert graph.backend.requests[0]["params"] == {"name": "ann"}
