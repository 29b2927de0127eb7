"""The command line through a server: the same commands, the same answers, and what belongs to servers alone."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph
from tests.e2e.process import Outcome
from tests.e2e.process import omnigraph as run
from tests.server.process import RunningServer, run_server

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person { since: Date? }\n"
ROWS = '{"type": "Person", "data": {"name": "ann", "age": 7}}\n{"type": "Person", "data": {"name": "bo"}}\n'
ADD = "query add($name: String) { insert Person { name: $name } }"
NAMES = "query names() { match { $p: Person } return { $p.name, $p.age } order { $p.name } }"
TOKEN = "a-token-of-tests"  # noqa: S105 - of this test alone
BUNDLE = """\
version: 1
groups: {all: [default]}
rules:
  - id: everything
    allow:
      actors: {group: all}
      actions: [read, export, change, schema_apply, branch_create, branch_delete, branch_merge, maintain, invoke_query]
"""
# What may differ: where the graph is, ids of commits, what holds them, moments, and why an engine was chosen.
VARYING = re.compile(
    r'"eyJ[\w-]+"|"draft\.[0-9a-z.]+"|(?<="reason": )"[^"]*"|'
    r'"[0-9A-HJKMNP-TV-Z]{26}"|[0-9A-HJKMNP-TV-Z]{26}|"\d{4}-\d\d-\d\dT[^"]*"|\d+ bytes'
)


@pytest.fixture(scope="module")
def twins(tmp_path_factory) -> Iterator[tuple[Path, RunningServer]]:
    """A folder with a graph, and a server of its copy."""
    folder = tmp_path_factory.mktemp("twins")
    (folder / "policy.yaml").write_text(BUNDLE, encoding="utf-8")
    (folder / "rows.jsonl").write_text(ROWS, encoding="utf-8")
    (folder / "schema.pg").write_text(SCHEMA.replace("age: I32?", "age: I32?  nick: String?"), encoding="utf-8")
    with omnigraph.init(folder / "g.omni", SCHEMA):
        pass
    shutil.copytree(folder / "g.omni", folder / "served.omni")
    command = ["omnigraph", "serve", str(folder / "served.omni"), "--bind", "127.0.0.1:0"]
    command += ["--policy", str(folder / "policy.yaml"), "--queries", str(folder / "home" / "names.gq")]
    home = folder / "home"
    home.mkdir()
    (home / "names.gq").write_text(f"{NAMES}\n{ADD}\n", encoding="utf-8")
    with run_server(command, folder / "log", {"OMNIGRAPH_SERVER_BEARER_TOKEN": TOKEN}) as running:
        config = f"""\
operator: {{actor: act-mira}}
servers: {{here: {{url: "{running.url}"}}, away: {{url: "http://127.0.0.1:9"}}}}
profiles:
  served: {{server: here, default_graph: served}}
  whole: {{server: here}}
  stored: {{store: ../g.omni}}
aliases:
  names: {{profile: served, file: names.gq, query: names, format: csv}}
  add: {{profile: served, file: names.gq, query: add, args: [name], mutation: true}}
  all: {{server: here, graph: served, query: names, format: csv}}
  enter: {{profile: served, query: add, args: [name], mutation: true}}
  sneak: {{server: here, graph: served, query: add, args: [name]}}
  lost: {{store: ../g.omni, query: names}}
  torn: {{server: here, store: ../g.omni, query: names}}
  blank: {{server: here, graph: served}}
"""
        (home / "config.yaml").write_text(config, encoding="utf-8")
        assert command_of(folder, "login", "here", "--token", TOKEN).code == 0
        yield folder, running


def command_of(folder: Path, *arguments: str, **environment: str) -> Outcome:
    return run(*arguments, cwd=folder, OMNIGRAPH_HOME=str(folder / "home"), **environment)


STORY = [
    ["load", "--data", "rows.jsonl", "--mode", "append"],
    ["mutate", "-e", ADD, "--params", '{"name": "cy"}'],
    ["query", "-e", NAMES],
    ["query", "-e", NAMES, "--format", "csv"],
    ["explain", "-e", NAMES],
    ["branch", "create", "draft"],
    ["mutate", "--branch", "draft", "-e", ADD, "--params", '{"name": "di"}', "--message", "more"],
    ["branch", "list"],
    ["diff", "main", "draft"],
    ["changes", "poll", "--start", "beginning"],
    ["snapshot", "--branch", "draft"],
    ["export", "--branch", "draft"],
    ["proposal", "open", "draft", "--title", "di"],
    ["proposal", "show", "1"],
    ["proposal", "check", "1"],
    ["branch", "merge", "draft"],
    ["tag", "create", "v1"],
    ["tag", "list"],
    ["blame", "Person", "di"],
    ["commit", "list"],
    ["schema", "show"],
    ["schema", "apply", "--schema", "schema.pg"],
    ["branch", "delete", "draft", "--yes"],
    ["query", "-e", "query x() { match { $p: Nobody } return { $p.name } }"],
    ["commit", "show", "0" * 26],
    ["branch", "delete", "nowhere", "--yes"],
]


def test_commands_answer_alike_on_both_scopes(twins):
    folder, _ = twins
    differing = {}
    for command in STORY:
        as_json = [] if "--format" in command or command[0] == "export" else ["--json"]
        told = []
        for scope in (["--profile", "stored"], ["--profile", "served"]):
            done = command_of(folder, *command, *scope, *as_json)
            out = re.sub(r"http://127\.0\.0\.1:\d+/graphs/served|[^\"\s]*g\.omni", "<graph>", done.out)
            # The actor of a server is that of the token.
            out = out.replace("act-mira", "<actor>").replace("default", "<actor>")
            # Only a commit that came through a server knows its request.
            out = re.sub(r',\s*"request_id": "[^"]*"', "", out)
            told.append((done.code, VARYING.sub("<varies>", out)))
        if told[0] != told[1]:
            differing[" ".join(command)] = told
    assert differing == {}


def test_the_server_and_the_graph_are_named_by_options_anywhere(twins):
    folder, running = twins
    for scope in (["--server", "here", "--graph", "served"], ["--server", running.url, "--graph=served"]):
        environment = {"OMNIGRAPH_BEARER_TOKEN": TOKEN}
        assert command_of(folder, "branch", "list", *scope, **environment).out.startswith("main\n")
        assert command_of(folder, *scope, "branch", "list", **environment).out.startswith("main\n")


def test_writes_name_the_server_and_destructive_ones_need_consent(twins):
    folder, running = twins
    made = command_of(folder, "branch", "create", "gone", "--profile", "served")
    assert made.err == f"omnigraph branch create → {running.url}/graphs/served (served)\n"
    refused = command_of(folder, "branch", "delete", "gone", "--profile", "served", "--json")
    assert refused.code == 2
    assert "--yes" in refused.out
    assert command_of(folder, "branch", "delete", "gone", "--profile", "served", "--yes", "--quiet").code == 0


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (
            ["branch", "list", "--server", "nope", "--graph", "g"],
            "server 'nope' was not found",
            "known servers: here, away",
        ),
        (["branch", "list", "--server", "here"], "no graph of the server was named", "--graph ID"),
        (["branch", "list", "--profile", "whole"], "no graph of the server was named", "--graph ID"),
        (["branch", "list", "--store", "g.omni", "--graph", "x"], "a storage holds one graph", "add --server"),
        (["branch", "list", "g.omni", "--server", "here"], "mutually exclusive", ""),
        (["branch", "list", "http://127.0.0.1:1/graphs/g"], "the address of a server is not a storage", "--server URL"),
        (["branch", "create", "b", "--profile", "served", "--as", "eve"], "--as does not apply", "leave it out"),
        (["optimize", "--server", "here"], "`optimize` is a direct command; --server names a server", "--store"),
        (["optimize", "--profile", "served"], "this command needs the storage of the graph", "s3://"),
        (["query", "--profile", "served", "--engine", "spark", "-e", NAMES], "Spark needs the storage", ""),
        (["graphs", "list", "--profile", "stored"], "a storage is not a server", "--server"),
        (["login", "a[b", "--token", "x"], "is not the name of a server", ""),
        (["login", "here", "--token", " "], "the token is blank", ""),
    ],
)
def test_a_scope_that_makes_no_sense_is_refused_with_a_remedy(twins, arguments, message, hint):
    done = command_of(twins[0], *arguments)
    assert done.code in {2, 5}
    assert message in done.err
    assert hint in done.err


def test_a_server_that_is_away_or_refuses_says_so(twins):
    folder, _ = twins
    away = command_of(folder, "branch", "list", "--server", "away", "--graph", "g")
    assert away.code == 11
    assert "cannot reach 'http://127.0.0.1:9'" in away.err
    unknown = command_of(folder, "branch", "list", "--server", "here", "--graph", "none")
    assert unknown.code == 5
    wrong = command_of(folder, "branch", "list", "--profile", "served", OMNIGRAPH_TOKEN_HERE=TOKEN[1:])
    assert wrong.code == 6
    assert "invalid bearer token" in wrong.err
    listed = command_of(folder, "graphs", "list", "--server", "here")
    assert listed.code == 7


def test_login_keeps_a_token_and_logout_forgets_it(twins):
    folder, _ = twins
    done = run("login", "later", cwd=folder, stdin="tok\nrest\n", OMNIGRAPH_HOME="fresh")
    assert done.code == 0
    assert "no server 'later' is defined" in done.err
    kept = folder / "fresh" / "credentials"
    assert kept.read_text(encoding="utf-8") == "[later]\ntoken = tok\n"
    assert json.loads(run("logout", "later", "--json", cwd=folder, OMNIGRAPH_HOME="fresh").out) == {
        "server": "later",
        "credentials_path": "fresh/credentials",
    }
    assert kept.read_text(encoding="utf-8") == ""


def test_profiles_of_servers_are_shown(twins):
    folder, running = twins
    listed = {one["name"]: one for one in json.loads(command_of(folder, "profile", "list", "--json").out)}
    assert listed["served"]["scope_kind"] == "server"
    assert listed["served"]["target"] == running.url
    assert listed["served"]["default_graph"] == "served"
    shown = json.loads(command_of(folder, "profile", "show", "served", "--json").out)
    assert shown["endpoint"] == f"{running.url}/graphs/served"


def test_aliases_run_through_the_server_of_their_profile(twins):
    folder, _ = twins
    added = command_of(folder, "alias", "add", "zed", "--json")
    assert (added.code, added.err) == (0, "")
    # The operator's actor is for graphs that commands open themselves; the server knows who asks.
    assert json.loads(added.out)["actor_id"] == "default"
    assert "zed,null\n" in command_of(folder, "alias", "names").out


def test_stored_queries_of_a_server_answer_as_those_of_files(twins):
    folder, _ = twins
    served, files = ("--profile", "served"), ("--store", "g.omni", "--queries", "home/names.gq")
    for arguments, code in (
        (("queries", "list"), 0),
        (("queries", "list", "--json"), 0),
        (("queries", "validate"), 0),
        (("queries", "validate", "--json"), 0),
        (("query", "names", "--format", "csv", "--limit-rows", "1000"), 0),
        (("query", "names", "--branch", "nope"), 5),
        (("query", "nmes"), 5),
        (("query", "add"), 2),
        (("mutate", "names"), 2),
        (("mutate", "add"), 2),
        (("mutate", "add", "--param", "name=x", "--if-commit", "0" * 26, "--json"), 4),
    ):
        name = arguments[:2] if arguments[0] == "queries" else arguments[:1]
        rest = arguments[len(name) :]
        asked, read = (command_of(folder, *name, *scope, *rest) for scope in (served, files))
        assert (asked.code, read.code) == (code, code), (arguments, asked.err, read.err)
        assert VARYING.sub("_", asked.err) == VARYING.sub("_", read.err)
        if name != ("query",) or code:
            assert VARYING.sub("_", asked.out) == VARYING.sub("_", read.out)


def test_a_stored_mutation_of_a_server_is_by_whom_the_token_says(twins):
    folder, _ = twins
    done = command_of(folder, "mutate", "add", "--profile", "served", "--param", "name=stored", "--json")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out)["actor_id"] == "default"
    refused = command_of(folder, "mutate", "add", "--profile", "served", "--param", "name=stored", "--as", "zoe")
    assert "--as does not apply to a graph of a server" in refused.err


def test_files_of_queries_are_for_a_storage_and_a_name(twins):
    folder, _ = twins
    for arguments, message, hint in (
        (
            ("query", "names", "--profile", "served", "--queries", "home/names.gq"),
            "does not apply",
            "its own stored queries",
        ),
        (("queries", "validate", "--store", "g.omni"), "no stored queries were named", "--queries PATH"),
        (("query", "g.omni", "names"), "query 'names' has no text", "--queries PATH, or a server"),
        (("mutate", "g.omni", "add"), "query 'add' has no text", "--queries PATH, or a server"),
        (("query", "g.omni", "-e", NAMES, "--queries", "home/names.gq"), "cannot be combined", ""),
        (("query", "names", "--queries", "home/names.gq"), "the name of the stored query is missing", "graph first"),
        (("mutate", "add", "--queries", "home/names.gq"), "the name of the stored query is missing", "graph first"),
        (("query", "names", "--profile", "served", "--engine", "spark"), "only the server knows the text", "Spark"),
    ):
        done = command_of(folder, *arguments)
        assert done.code == 2, arguments
        assert message in done.err
        assert hint in done.err


def test_aliases_stand_for_stored_queries_of_a_server(twins):
    folder, _ = twins
    entered = command_of(folder, "alias", "enter", "yan")
    assert (entered.code, entered.out.splitlines()[0]) == (0, "changed main via add: 1 node, 0 edges")
    assert "yan,null\n" in command_of(folder, "alias", "all").out
    for name, message in (
        ("sneak", "set mutation: true under aliases.sneak"),
        ("lost", "only a server has stored queries"),
        ("torn", "must set exactly one of store, profile and server"),
        ("blank", "names no query"),
    ):
        refused = command_of(folder, "alias", name, *(["x"] if name == "sneak" else []))
        assert refused.code == 2, name
        assert message in refused.err
