"""The command as clients start it: a process that talks over standard input and output."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

import omnigraph
from omnigraph.cli.commands.graph import agents
from omnigraph.errors import LibraryMissingError
from tests.e2e.process import omnigraph as run_omnigraph
from tests.mcp.agent import Agent, Person, connect
from tests.mcp.conftest import make_club, process_of


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_club(tmp_path_factory.mktemp("stdio") / "club.omni")


@pytest.fixture(scope="module")
def person() -> Person:
    return Person()


@pytest.fixture(scope="module")
def agent(place: Path, person: Person) -> Iterator[Agent]:
    with connect(process_of(place, "--as", "ada@example.com"), person=person) as connected:
        yield connected


def test_an_agent_goes_from_an_unknown_graph_to_a_merged_change(agent: Agent, person: Person, place: Path):
    """It reads the guide, looks around, changes something, reviews and merges it. Every name comes from an answer."""
    assert "omnigraph://guide" in agent.client.instructions
    assert "insert Sailor" in agent.read("omnigraph://guide")
    types = agent.call("schema_search", text="berths")["types"]
    harbour = agent.call("describe_type", name=types[0]["name"])
    assert harbour["key"] == ["code"]
    (mooring,) = [edge["name"] for edge in harbour["edges"] if edge["source"] != edge["target"]]
    rows = agent.call("query", text=harbour["example"])["rows"]
    full = max(rows, key=lambda row: row["x.berths"] or 0)

    edge = mooring[:1].lower() + mooring[1:]
    question = (
        f"query moored($code: String) {{ match {{ $h: Harbour {{ code: $code }} $b {edge} $h }} return {{ $b }} }}"
    )
    before = agent.call("query", text=question, params={"code": full["x.code"]})

    record = {"type": "Boat", "data": {"sail": "NOR-99", "name": "Newcomer"}}
    written = agent.call("load", records=[record], message="a boat arrives")
    branch = written["branch"]
    assert branch.startswith("agents/ada_40example_2ecom/load-")
    moor = f"query moor($boat: String, $code: String) {{ insert {mooring} {{ from: $boat, to: $code }} }}"
    agent.call("mutate", text=moor, params={"boat": "NOR-99", "code": full["x.code"]}, branch=branch)

    diff, preview, merge = written["next"]
    summary = agent.call(diff["tool"], **diff["arguments"])["summary"]
    assert (summary["inserts"], summary["updates"], summary["deletes"]) == (2, 0, 0)
    assert agent.call(preview["tool"], **preview["arguments"])["conflict_count"] == 0
    merged = agent.call(merge["tool"], **merge["arguments"], message="welcome")
    assert (len(person.asked), merged["outcome"]) == (1, "fast_forward")

    after = agent.call("query", text=question, params={"code": full["x.code"]})
    assert len(after["rows"]) == len(before["rows"]) + 1
    assert (
        agent.call("query", text=question, params={"code": full["x.code"]}, as_of=before["commit"])["rows"]
        == (before["rows"])
    )
    with omnigraph.open(place) as graph:
        assert graph.log()[0].actor == "ada@example.com"
        assert graph.entity("Boat", "NOR-99")["name"] == "Newcomer"


@pytest.mark.more
def test_a_process_of_the_old_version_answers_the_same(agent: Agent, place: Path):
    with connect(process_of(place, "--read-only"), mode="legacy") as reader:
        assert set(reader.tools()) < set(agent.tools())
        assert reader.call("schema_search")["types"] == agent.call("schema_search")["types"]
        assert json.loads(reader.read("omnigraph://types")) == json.loads(agent.read("omnigraph://types"))
        assert reader.fail("mutate", text="query q() { delete Boat where sail != '' }")["code"] == "agent.not_found"


@pytest.mark.more
def test_stored_queries_and_another_branch_come_from_the_command_line(place: Path, tmp_path: Path):
    queries = tmp_path / "queries.gq"
    queries.write_text(
        'query harbours() @mcp("expose") { match { $h: Harbour } return { $h.code as code } order { code } }\n'
        "query boats() { match { $b: Boat } return { count($b) as n } }\n",
        encoding="utf-8",
    )
    with omnigraph.open(place) as graph:
        graph.create_branch("season")
    with connect(process_of(place, "--queries", str(queries), "--branch", "season")) as agent:
        assert "harbours" in agent.tools()
        assert agent.call("stored_query_run", name="boats")["rows"]
        written = agent.call("load", records=[{"type": "Harbour", "data": {"code": "zzz", "name": "Z"}}])
        assert written["next"][-1]["arguments"]["target"] == "season"
        assert {"code": "zzz"} in agent.call("harbours", branch=written["branch"])["rows"]
        # The branch that it works on is as protected as main.
        assert agent.fail("merge", source=written["branch"], target="season")["code"] == "agent.consent"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["missing.omni"], 5, "missing.omni"),
        (["--server", "http://127.0.0.1:9", "--graph", "x", "--queries", "q.gq"], 2, "--queries does not apply"),
        (["missing.omni", "--branch", "a//b"], 2, "invalid branch name"),
    ],
)
def test_a_command_that_cannot_start_says_why(tmp_path: Path, arguments: list[str], code: int, message: str):
    ran = run_omnigraph("mcp", *arguments, cwd=tmp_path)
    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err


def test_without_the_sdk_the_command_says_what_to_install(place: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "mcp", None)
    app = get_command(agents.app)
    with pytest.raises(LibraryMissingError, match="this command needs mcp, which is not installed") as caught:
        app.main(["--store", str(place)], standalone_mode=False)
    assert caught.value.hint == "install it with `pip install 'omnigraphdb[mcp]'`"
