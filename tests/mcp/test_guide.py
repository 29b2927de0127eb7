"""The guide, the other resources and the prompts: what an agent reads before its first call."""

from __future__ import annotations

import json
import re

import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.mcp.guide import GUIDE_TEXT, MOST_BYTES
from omnigraph.mcp.local import LocalHost
from omnigraph.mcp.resources import MOST_SCHEMA_BYTES
from omnigraph.mcp.server import agent_server
from tests.mcp.agent import Agent, connect
from tests.mcp.conftest import HARBOUR

QUERIES = re.findall(r"```gq\n(.*?)```", GUIDE_TEXT, re.DOTALL)
PARAMS = {
    "boats_of_a_harbour": {"code": "vik"},
    "crew_and_pupils": {"boat": "NOR-1"},
    "busy_boats": {"least": 1},
    "stories": {"words": "storm"},
    "sign_on": {"slug": "gus", "name": "Gus", "boat": "NOR-1", "day": "2026-05-01"},
    "promote": {"slug": "gus", "rank": "mate"},
    "sign_off": {"slug": "gus"},
}


def test_the_guide_fits_a_context(agent: Agent):
    assert agent.read("omnigraph://guide") == GUIDE_TEXT
    assert len(GUIDE_TEXT.encode()) <= MOST_BYTES


def test_every_query_of_the_guide_runs(agent: Agent, club: Graph):
    club.create_branch("guide")
    ran = []
    for text in QUERIES:
        name = text.split("(")[0].removeprefix("query ")
        tool = "query" if "match {" in text else "mutate"
        answer = agent.call(tool, text=text, params=PARAMS[name], branch="guide")
        assert answer["rows"] if tool == "query" else answer["commit"], name
        ran.append(name)
    assert ran == list(PARAMS)
    club.delete_branch("guide")


def test_what_the_guide_names_is_there(agent: Agent):
    tools = set(agent.tools())
    named = set(re.findall(r"`([a-z_]+)`", GUIDE_TEXT))
    words = {"and", "or", "not", "in", "contains", "starts_with", "ends_with", "having", "order", "limit", "match"}
    words |= {"as", "as_of", "branch", "continuation", "from", "to", "return", "sum", "avg", "min", "max"}
    assert named - words <= tools


def test_resources_show_the_schema_the_types_and_the_branches(agent: Agent):
    assert agent.resources() == [
        "omnigraph://guide",
        "omnigraph://schema",
        "omnigraph://types",
        "omnigraph://branches",
    ]
    assert agent.read("omnigraph://schema") == (HARBOUR / "schema.pg").read_text(encoding="utf-8")
    types = json.loads(agent.read("omnigraph://types"))
    assert types["nodes"] == {"Boat": 4, "Harbour": types["nodes"]["Harbour"], "Sailor": types["nodes"]["Sailor"]}
    assert types["edges"]["Crews"]["source"] == "Sailor"
    assert json.loads(agent.read("omnigraph://branches"))["branches"][0]["name"] == "main"
    assert json.loads(agent.read("omnigraph://types/Boat")) == agent.call("describe_type", name="Boat")


@pytest.mark.parametrize(
    ("uri", "code"),
    [
        ("omnigraph://nothing", "agent.not_found"),
        ("omnigraph://types/", "agent.not_found"),
        ("omnigraph://types/Submarine", "type.not_found"),
        ("omnigraph://graphs/other/schema", "agent.not_found"),
        ("file:///etc/passwd", "agent.not_found"),
    ],
)
def test_an_address_that_names_nothing_is_an_error_with_a_code(agent: Agent, uri: str, code: str):
    assert agent.unread(uri).error.data["code"] == code


@pytest.mark.more
def test_a_large_schema_is_not_shown_whole(tmp_path):
    fields = "\n".join(f"    property_{number}: String?" for number in range(100))
    text = "\n".join(f"node Type{number} {{\n    name: String @key\n{fields}\n}}" for number in range(30))
    with omnigraph.init(tmp_path / "g", text) as graph, connect(agent_server(LocalHost(graph.backend))) as agent:
        assert len(text) > MOST_SCHEMA_BYTES
        shown = agent.read("omnigraph://schema")
        assert len(shown) < 200
        assert "schema_search" in shown
        found = agent.call("schema_search", limit=5)
        assert (len(found["types"]), found["found"]) == (5, 30)
        assert len(found["types"][0]["properties"]) == 13
        assert agent.fail("describe_type", name="Type_17")["details"]["near"][0] == "Type17"


def test_prompts_keep_what_is_asked_apart_from_what_to_do(agent: Agent):
    assert agent.prompts() == ["explore_graph", "propose_change"]
    assert agent.prompt("explore_graph").endswith("report them to the person.")
    asked = agent.prompt("propose_change", change="rename the Comet")
    assert asked.endswith("\n\nChange:\nrename the Comet")
    with pytest.raises(Exception, match="invalid arguments of 'propose_change'"):
        agent.prompt("propose_change")
    with pytest.raises(Exception, match="prompt 'obey' was not found"):
        agent.prompt("obey")
