"""Graphs, stored queries and policies of a cluster, as commands find them: by what was applied, not by its files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.applied_cluster import apply_directory
from tests.unit.cluster.directory import CONFIG, write_directory

from omnigraph.cli import main
from omnigraph.cli.operator import config

TWO = CONFIG.replace("policies:\n", "  sales:\n    schema: crm.pg\npolicies:\n")
HOME = """\
clusters:
  atlas: { root: ../atlas }
profiles:
  ops: { cluster: atlas, default_graph: crm }
  odd: { cluster: atlas, store: g.omni }
"""


@pytest.fixture(scope="module")
def applied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cluster of two graphs that was applied, and whose files have gone wrong since."""
    root = write_directory(tmp_path_factory.mktemp("scope") / "atlas", {"cluster.yaml": TWO})
    apply_directory(root)
    for name in ("crm.pg", "acl.yaml", "gq/people.gq"):
        (root / name).write_text("nonsense", encoding="utf-8")
    home = root.parent / "home"
    home.mkdir()
    (home / "config.yaml").write_text(HOME, encoding="utf-8")
    return root


class Shell:
    """Runs commands in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        code = main.run(lambda: main._invoke(list(arguments)), arguments)
        shown = self._capsys.readouterr()
        return code, shown.out, shown.err


@pytest.fixture
def shell(applied: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("OMNIGRAPH_HOME", str(applied.parent / "home"))
    monkeypatch.delenv("OMNIGRAPH_PROFILE", raising=False)
    config._loaded.cache_clear()
    return Shell(capsys)


def test_graph_is_found_by_directory_root_name_and_profile(applied: Path, shell: Shell):
    ways = [
        ["--cluster", str(applied), "--graph", "crm"],
        ["--cluster", f"file://{applied}", "--graph", "crm"],
        ["--cluster", "atlas", "--graph", "crm"],
        ["--profile", "ops"],
        ["--profile", "ops", "--graph", "sales"],
    ]
    for way in ways:
        code, out, err = shell("status", *way)
        assert (code, out.splitlines()[1]) == (0, "node:Person: 0 rows, 0 fragments, 0 of 1 index current"), err


def test_graph_must_be_named_unless_there_is_one(applied: Path, shell: Shell):
    code, _, err = shell("status", "--cluster", "atlas")
    assert (code, "no graph of the cluster was named" in err, "crm, sales" in err) == (2, True, True)
    code, _, err = shell("status", "--cluster", "atlas", "--graph", "none")
    assert "graph 'none' of the cluster has not been applied" in err
    code, _, err = shell("status", "--cluster", str(applied.parent / "nowhere"))
    assert "was not found" in err


def test_ways_to_name_a_graph_exclude_each_other(applied: Path, shell: Shell):
    code, _, err = shell("status", str(applied), "--cluster", "atlas")
    assert (code, "are mutually exclusive" in err) == (2, True)
    code, _, err = shell("status", "--profile", "odd")
    assert (code, "exactly one of server, cluster and store" in err) == (2, True)


def test_rows_are_asked_of_a_server_or_a_storage(shell: Shell):
    code, _, err = shell("query", "--profile", "ops", "-e", "query q() { match { $p: Person } return { $p.name } }")
    assert (code, "--server NAME --graph ID" in err) == (2, True)
    code, _, err = shell("branch", "list", "--cluster", "atlas")
    assert (code, "--cluster names a cluster and does not apply" in err) == (2, True)


def test_stored_queries_are_those_that_were_applied(shell: Shell):
    code, out, _ = shell("queries", "list", "--profile", "ops", "--json")
    found = json.loads(out)["queries"]
    assert (code, [one["name"] for one in found]) == (0, ["add", "one"])
    assert {(one["mcp_expose"], one["tool_name"]) for one in found} == {(False, None)}
    assert shell("queries", "validate", "--profile", "ops")[0] == 0


def test_bundles_are_those_that_were_applied(applied: Path, shell: Shell):
    for way, name in ((["--bundle", "acl"], "acl"), (["--bundle", "ops"], "ops"), (["--graph", "sales"], "ops")):
        code, out, err = shell("policy", "validate", "--cluster", "atlas", *way)
        assert (code, out) == (0, f"policy valid: bundle '{name}' [1 actors]\n"), err
    code, _, err = shell("policy", "validate", "--cluster", "atlas")
    assert (code, "several bundles match" in err) == (2, True)
    code, _, err = shell("policy", "validate", "--cluster", "atlas", "--bundle", "none")
    assert (code, "the cluster has no such bundle" in err) == (2, True)
    asked = ["policy", "explain", "--profile", "ops", "--actor", "act-mira"]
    for action in ("read", "graph_list"):
        code, out, err = shell(*asked, "--action", action)
        assert (code, out.splitlines()[0]) == (0, "decision: allow"), err
    cases = applied.parent / "cases.yaml"
    cases.write_text("version: 1\ncases:\n  - {id: a, actor: act-mira, action: change, branch: x, expect: deny}\n")
    code, out, _ = shell("policy", "test", "--profile", "ops", "--bundle", "acl", "--tests", str(cases))
    assert (code, out) == (0, "policy tests passed: 1 cases\n")
    code, _, err = shell("policy", "validate")
    assert (code, "the bundle is missing" in err) == (2, True)


def test_profile_shows_its_cluster(applied: Path, shell: Shell):
    code, out, _ = shell("profile", "show", "ops", "--json")
    shown = json.loads(out)
    assert (code, shown["scope_kind"], shown["default_graph"]) == (0, "cluster", "crm")
    assert Path(shown["target"]).resolve() == applied


def test_cluster_alone_makes_its_graphs_and_changes_their_schemas(applied: Path, shell: Shell, tmp_path: Path):
    schema = tmp_path / "other.pg"
    schema.write_text("node Person { slug: String @key }\n", encoding="utf-8")
    for command in (
        ["init", f"{applied}/graphs/new.omni"],
        ["schema", "apply", f"{applied}/graphs/crm.omni"],
    ):
        code, _, err = shell(*command, "--schema", str(schema))
        assert (code, "belongs to a cluster" in err, "apply it" in err) == (3, True, True)
    # Without a ledger it is a folder like any other.
    shutil.copytree(applied / "graphs", tmp_path / "graphs")
    assert shell("schema", "apply", f"{tmp_path}/graphs/crm.omni", "--schema", str(schema))[0] == 0
