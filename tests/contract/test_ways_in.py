"""One call, made on every way in: a value that does not belong there is refused alike, and changes nothing.

Calls are computed from what operations declare, and values from the types of their fields. ``make test`` has a share of
them, the same every time, and ``make test-more`` all.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial

import pytest

import omnigraph
from omnigraph.aio.backend import AsyncLocalBackend
from omnigraph.client import ClientSettings, GraphAddress
from omnigraph.client._async.backend import AsyncRemoteBackend
from omnigraph.client._sync.backend import RemoteBackend
from omnigraph.mcp.local import LocalHost
from omnigraph.mcp.server import agent_server
from omnigraph.operations import all_operations
from omnigraph.operations.json_form import request_from_json
from omnigraph.operations.reads import QueryRequest
from omnigraph.operations.transactions import BeginTransactionRequest, CallInTransactionRequest
from omnigraph.operations.writes import LoadRequest
from tests.contract.graph.json_backend import JsonBackend
from tests.e2e.process import omnigraph as run
from tests.hostile_requests import ADD, IN_TRANSACTIONS, READ, SCHEMA, base
from tests.mcp.agent import connect
from tests.server.process import run_server
from tests.session_graph import RELAXED

AT_ONCE = ClientSettings(attempts=1)
SEED = 39
IN_EVERY_RUN, IN_MORE = 40, 220
PARTS = 10


class Thing:
    """Nothing that any call takes."""

    def __repr__(self):
        return "a thing"


VALUES = {
    "nothing": None,
    "true": True,
    "zero": 0,
    "negative": -1,
    "large": 2**63,
    "huge": 10**5000,
    "fraction": 1.5,
    "nan": float("nan"),
    "infinite": float("-inf"),
    "empty": "",
    "blank": " ",
    "nul": "a\0b",
    "surrogate": "\ud800",
    "long": "x" * 5000,
    "path": "/dev/null/secret.jsonl",
    "climbing": "../../../secret",
    "uri": "file:///dev/null/secret",
    "bucket": "http://169.254.169.254/latest",
    "bytes": b"\xff\0",
    "list": [],
    "lists": [[]],
    "texts": ["x"],
    "mapping": {"x": 1},
    "naive": datetime(2026, 1, 1),  # noqa: DTZ001 - without a zone
    "aware": datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
    "thing": Thing(),
    "type": Thing,
}
# Where a value may be anything that JSON has, what it has not is refused before it is sent.
_NOT_SENT = {"thing", "type"}
_OPEN = {"params", "rows", "batches", "decisions"}


def every_case():
    for name, declared in sorted(all_operations().items()):
        for one in dataclasses.fields(declared):
            for word in VALUES:
                yield name, one.name, word
    for name in IN_TRANSACTIONS:
        for one in dataclasses.fields(all_operations()[name]):
            for word in VALUES:
                yield f"call_in_transaction/{name}", one.name, word


# A schema without types is one, and would leave nothing to ask about.
CASES = [case for case in every_case() if case[:2] != ("apply_schema", "text") or VALUES[case[2]] not in ("", " ")]
random.Random(SEED).shuffle(CASES)  # noqa: S311 - the same every time


class Ways:
    """The ways to one graph."""

    def __init__(self, folder, graph, address, loop):
        self.folder = folder
        self._exports = 0
        self.store_options = ["--store", graph.uri]
        self.server_options = ["--server", address.server, "--graph", address.graph_id]
        self.graph = graph
        remote, later = RemoteBackend(address, settings=AT_ONCE), AsyncRemoteBackend(address, settings=AT_ONCE)
        remote.connect()
        loop.run_until_complete(later.connect())
        local = AsyncLocalBackend(graph.backend)
        self._json = JsonBackend(graph.backend.engine, "read_write")
        self.calls = {
            "embedded": graph.backend.execute,
            "bytes": self._json.execute,
            "server": remote.execute,
            "async": lambda request: loop.run_until_complete(local.execute(request)),
            "async server": lambda request: loop.run_until_complete(later.execute(request)),
        }
        here, there = (call(BeginTransactionRequest()).transaction for call in (graph.backend.execute, remote.execute))
        self._transactions = {way: there if "server" in way else here for way in self.calls}
        self._ends = [remote.close, lambda: loop.run_until_complete(later.close())]

    def close(self):
        for end in self._ends:
            end()

    def request(self, way, name, field, word):
        """Return a request of an operation with a value in a field, as one way takes it."""
        outer, _, inner = name.partition("/")
        document = base(inner or outer)
        if document["operation"] == "load":
            document.pop("sources")
            request = LoadRequest(sources=[str(self.folder / "rows.jsonl")], mode="merge")
        else:
            request = request_from_json(document)
        if document["operation"] == "export":
            self._exports += 1
            request = dataclasses.replace(request, to=str(self.folder.parent / f"export-{self._exports}"))
        request = dataclasses.replace(request, **{field: VALUES[word]})
        return CallInTransactionRequest(transaction=self._transactions[way], call=request) if inner else request

    def state(self):
        """Return what a write could have changed."""
        graph = self.graph
        heads = {status.name: graph.branch(status.name).log(limit=1)[0].id for status in graph.branches()}
        rows = {
            name: graph.branch(name)
            .query("query q() { match { $p: Person } return { $p.* } order { $p.name } }")
            .rows()
            for name in heads
        }
        proposals = [(one.number, str(one.state), len(one.comments)) for one in graph.proposals.list(state="all")]
        return heads, rows, [tag.name for tag in graph.tags()], proposals, sorted(self.folder.iterdir())


@pytest.fixture(scope="module")
def ways(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ways") / "in"
    folder.mkdir()
    (folder / "rows.jsonl").write_text('{"type": "Person", "data": {"name": "ann"}}\n')
    with pytest.MonkeyPatch.context() as patch, omnigraph.init(folder / "g.omni", SCHEMA, settings=RELAXED) as graph:
        patch.chdir(folder)
        graph.mutate('query a() { insert Person { name: "ann" } }')
        graph.create_branch("side")
        graph.branch("side").mutate('query a() { insert Person { name: "bo" } }')
        graph.proposals.open("side", title="more")
        command = ["omnigraph", "serve", str(folder / "g.omni"), "--bind", "127.0.0.1:0", "--unauthenticated"]
        loop = asyncio.new_event_loop()
        with run_server(command, tmp_path_factory.mktemp("log") / "server.log") as server:
            found = Ways(folder, graph, GraphAddress(server=server.url, graph_id="g"), loop)
            yield found
            found.close()
        loop.close()


def outcome(call, make_request):
    """Return the class and the code of the error that a call raises; None if it raises none."""
    try:
        found = call(make_request())
        if isinstance(found, Iterator):
            list(found)
    except omnigraph.OmnigraphError as error:
        return type(error).__name__, error.code
    except Exception as bug:  # noqa: BLE001 - it is told as what it is
        return type(bug).__name__, f"no error of ours: {bug}"[:100]
    return None


def can_say(way, field, word):
    """Whether a way has words for a value."""
    if way in {"embedded", "async"}:
        return True
    if field == "actor" and "server" in way:
        # Who acts is what the server knows of its caller, and no part of the call.
        return not isinstance(VALUES[word], str)
    return not (field in _OPEN and word in _NOT_SENT)


def differences(ways, cases):
    """Return what is wrong with calls: errors that differ, that are not ours, and whatever a refused call changed."""
    wrong, before = [], ways.state()
    for name, field, word in cases:
        told = {}
        for way, call in ways.calls.items():
            if not can_say(way, field, word):
                continue
            told[way] = outcome(call, partial(ways.request, way, name, field, word))
            if told["embedded"] is None and (
                all_operations()[name.partition("/")[0]].operation.writes or name == "export"
            ):
                # It makes sense, so that it is no hostile one; done twice it would not be the same.
                break
        if len(set(told.values())) > 1 or any(
            one is not None and one[1].startswith(("internal", "no ")) for one in told.values()
        ):
            wrong.append((name, field, word, told))
        after = ways.state() if all_operations()[name.partition("/")[0]].operation.writes else before
        if told["embedded"] is not None and after != before:
            wrong.append((name, field, word, "changed something"))
        before = after
    return wrong


@pytest.mark.parametrize(
    "share", [slice(IN_EVERY_RUN), pytest.param(slice(IN_EVERY_RUN, IN_MORE), marks=pytest.mark.more)], ids=str
)
def test_a_share_of_all_calls_is_refused_alike_on_every_way_in(ways, share):
    assert differences(ways, CASES[share]) == []


@pytest.mark.more
@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_every_call_is_refused_alike_on_every_way_in(ways, part):
    assert differences(ways, CASES[part::PARTS]) == []


COMMANDS = {
    "query": ["query", "-e", READ, "--branch", "{}"],
    "a query by name": ["query", "{}", "-e", READ],
    "an earlier state": ["query", "-e", READ, "--snapshot", "{}"],
    "parameters": ["query", "-e", READ, "--params", '{{"name": {}}}'],
    "mutate": ["mutate", "-e", ADD, "--params", '{{"name": {}}}', "--branch", "nowhere"],
    "instants": ["mutate", "-e", ADD, "--params", '{{"name": "cy", "at": {}}}', "--branch", "nowhere"],
    "the head of a mutation": ["mutate", "-e", ADD, "--params", '{{"name": "cy"}}', "--if-commit", "{}"],
    "load": ["load", "--data", "{}", "--mode", "merge"],
    "a branch": ["branch", "create", "main", "--from", "{}"],
    "no branch": ["branch", "delete", "{}", "--yes"],
    "merge": ["branch", "merge", "{}"],
    "diff": ["diff", "main", "{}"],
    "a tag": ["tag", "delete", "{}"],
    "a commit": ["commit", "show", "{}"],
    "blame": ["blame", "Person", "{}"],
    "a type": ["blame", "{}", "ann"],
    "schema": ["schema", "apply", "--schema", "{}"],
}
ARGUMENTS = {
    word: value for word, value in VALUES.items() if isinstance(value, str) and word not in {"nul", "surrogate"}
} | {"number": "-7", "large number": str(2**70), "word": "NaN", "instant": "2026-01-01T00:00:00.000001"}
COMMAND_CASES = [(name, word) for name in COMMANDS for word in ARGUMENTS]
random.Random(SEED).shuffle(COMMAND_CASES)  # noqa: S311 - the same every time


def told_by(command, value, place, folder):
    """Return how a command ends: its exit code, and the code of its error."""
    given = json.dumps(value) if any("{{" in part for part in command) else value
    arguments = [part.format(given) if "{" in part and part not in (READ, ADD) else part for part in command]
    done = run(*arguments, *place, "--json", cwd=folder)
    shown = done.out.strip() or done.err.strip()
    try:
        return done.code, json.loads(shown)["error"]["code"]
    except (ValueError, KeyError, TypeError):
        return done.code, None if done.code == 0 else shown[-300:]


def command_differences(ways, cases):
    wrong, before = [], ways.state()
    for name, word in cases:
        store = told_by(COMMANDS[name], ARGUMENTS[word], ways.store_options, ways.folder)
        if store[0] == 0:
            before = ways.state()
            continue
        server = told_by(COMMANDS[name], ARGUMENTS[word], ways.server_options, ways.folder)
        after = ways.state()
        if store != server or store[1] == "internal" or after != before:
            wrong.append((name, word, store, server, after == before))
        before = after
    return wrong


def test_a_share_of_commands_is_refused_alike_on_a_store_and_a_server(ways):
    assert command_differences(ways, COMMAND_CASES[:12]) == []


@pytest.mark.more
@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
def test_commands_are_refused_alike_on_a_store_and_a_server(ways, part):
    assert command_differences(ways, COMMAND_CASES[part::4]) == []


TOOL_ARGUMENTS = {
    "query": {"text": READ},
    "mutate": {"text": ADD, "params": {"name": "dan"}, "branch": "side"},
    "text": READ,
    "schema": SCHEMA,
    "type": "Person",
    "type_name": "Person",
    "id": "ann",
    "entity_id": "ann",
    "name": "none",
    "source": "side",
    "branch": "side",
    "before": "main",
    "after": "side",
    "words": "Person",
    "records": [],
}


def tool_cases(agent):
    """Return calls of every tool with a value in one argument, and what is to be said of it."""
    for name, tool in sorted(agent.tools().items()):
        schema = tool.input_schema
        needed = {one: TOOL_ARGUMENTS.get(one, "x") for one in schema.get("required", ())}
        given = TOOL_ARGUMENTS.get(name, {})
        for argument in schema.get("properties", {}):
            for word, value in VALUES.items():
                if word not in {"thing", "type", "bytes", "naive", "aware", "surrogate", "huge"}:
                    yield (
                        name,
                        argument,
                        word,
                        {**needed, **(given if isinstance(given, dict) else {}), argument: value},
                    )


def tool_failures(ways, agent, cases):
    wrong, before = [], ways.state()
    for name, argument, word, given in cases:
        answer = agent.portal.call(agent.client.call_tool, name, given)
        after = ways.state()
        if answer.is_error:
            code = answer.structured_content["error"]["code"]
            if code == "internal" or after != before:
                wrong.append((name, argument, word, code, after == before))
            elif name == "query" and argument == "branch" and isinstance(VALUES[word], str):
                here = outcome(ways.calls["embedded"], partial(QueryRequest, text=READ, branch=VALUES[word]))
                wrong += [] if here == (here[0], code) else [(name, argument, word, code, here)]
        before = after
    return wrong


@pytest.fixture(scope="module")
def agent(ways):
    with connect(agent_server(LocalHost(ways.graph.backend, actor="planner"))) as connected:
        yield connected


def test_a_share_of_the_calls_of_tools_is_refused_and_changes_nothing(ways, agent):
    cases = list(tool_cases(agent))
    assert tool_failures(ways, agent, random.Random(SEED).sample(cases, 120)) == []  # noqa: S311 - the same every time


@pytest.mark.more
@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
def test_calls_of_tools_are_refused_and_change_nothing(ways, agent, part):
    assert tool_failures(ways, agent, list(tool_cases(agent))[part::4]) == []
