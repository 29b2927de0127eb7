"""Which argument of a command is its graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.test_flags import COMMANDS, MATRIX

from omnigraph.cli import main
from omnigraph.cli.graphs import graph_address
from omnigraph.cli.options import GraphOptions, place_graph
from omnigraph.errors import UsageError

DIFF, QUERY, CREATE = COMMANDS["diff"], COMMANDS["query"], COMMANDS["branch create"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path))
    return tmp_path


def placed(command: Any, *values: str, **options: str) -> dict[str, Any]:
    names = [parameter.name for parameter in command.params if parameter.param_type_name == "argument"]
    given = {**dict.fromkeys(names), **dict(zip(names, values, strict=False)), **options}
    return {name: value for name, value in place_graph(command.params, given).items() if value is not None}


def test_every_command_on_a_graph_takes_it_first_and_by_store():
    for path, command in COMMANDS.items():
        arguments = [one for one in command.params if one.param_type_name == "argument"]
        if path.startswith("pipeline "):
            # Its first argument is the declaration, which names the graph itself if it wants to.
            assert arguments[0].metavar == "FILE", path
            continue
        takes_graph = bool(arguments) and (arguments[0].name, arguments[0].metavar) == ("uri", "GRAPH")
        assert takes_graph is ("--store" in MATRIX[path]), path


def test_the_first_argument_is_the_graph_where_nothing_else_names_it():
    assert placed(DIFF, "g", "main") == {"uri": "g", "before": "main"}
    assert placed(DIFF, "g", "main", "draft") == {"uri": "g", "before": "main", "after": "draft"}
    assert placed(QUERY, "g") == {"uri": "g"}


@pytest.mark.parametrize("option", ["store", "uri_option", "profile"])
def test_an_option_that_names_the_graph_leaves_the_arguments_to_the_command(option: str):
    assert placed(DIFF, "main", **{option: "x"}) == {"before": "main", option: "x"}
    assert placed(DIFF, "main", "draft", **{option: "x"}) == {"before": "main", "after": "draft", option: "x"}
    assert placed(QUERY, "odd.name", **{option: "x"}) == {"query_name": "odd.name", option: "x"}


@pytest.mark.parametrize("variable", ["OMNIGRAPH_STORE", "OMNIGRAPH_PROFILE"])
def test_a_remembered_graph_leaves_the_arguments_to_the_command(variable: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(variable, "x")
    assert placed(DIFF, "main", "draft") == {"before": "main", "after": "draft"}
    assert placed(CREATE, "draft") == {"name": "draft"}
    assert placed(QUERY, "adults") == {"query_name": "adults"}


def test_a_graph_before_all_arguments_of_the_command_goes_before_a_remembered_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OMNIGRAPH_STORE", "x")
    assert placed(CREATE, "g", "draft") == {"uri": "g", "name": "draft"}
    assert placed(QUERY, "g", "adults") == {"uri": "g", "query_name": "adults"}


def test_what_cannot_name_a_query_is_the_graph(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OMNIGRAPH_STORE", "x")
    for address in ("g.omni", "./g", "s3://bucket/g"):
        assert placed(QUERY, address) == {"uri": address}


def test_too_few_arguments_for_graph_and_command_say_what_may_be_missing():
    with pytest.raises(UsageError, match="the graph or NAME is missing") as caught:
        placed(CREATE, "draft")
    assert "OMNIGRAPH_STORE" in str(caught.value.hint)


def test_two_addresses_on_one_command_line_are_refused():
    with pytest.raises(UsageError, match="the graph is named twice"):
        graph_address(GraphOptions(uri="g", store="h"))


def test_the_address_goes_before_a_profile_and_that_before_the_rest(home: Path, monkeypatch: pytest.MonkeyPatch):
    (home / "config.yaml").write_text("profiles:\n  p: { store: /of/profile }\ndefaults: { store: /of/defaults }\n")
    assert graph_address(GraphOptions()) == "/of/defaults"
    monkeypatch.setenv("OMNIGRAPH_PROFILE", "p")
    assert graph_address(GraphOptions()) == "/of/profile"
    monkeypatch.setenv("OMNIGRAPH_STORE", "/of/environment")
    assert graph_address(GraphOptions()) == "/of/environment"
    assert graph_address(GraphOptions(uri="/given")) == "/given"
    code = main.run(lambda: main._invoke(["status", "--profile", "p"]), [])
    assert code == 5
