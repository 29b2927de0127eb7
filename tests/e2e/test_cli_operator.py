"""The operator config at work: profiles, defaults, aliases, and completion in a shell."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests.e2e.process import Outcome, clean_environment, omnigraph
from tests.session_graph import create_graph
from tests.warm import WarmProcess, warm_command

SCHEMA = "node Person { name: String @key  age: I32? }\n"
QUERIES = """\
query one($n: String) { match { $p: Person { name: $n } } return { $p.name as name, $p.age as age } }
query add($n: String, $a: I32?) { insert Person { name: $n, age: $a } }
"""
ONE = "query one() { match { $p: Person } return { $p.name as name } }"
CONFIG = """\
operator: { actor: mira }
profiles:
  a: { store: ../a }
  b: { store: ../b }
  odd: {}
defaults: { store: ../b, output: csv }
aliases:
  who: { profile: a, file: q.gq, query: one, args: [n], params: { n: Ann } }
  show: { store: ../a, file: q.gq, query: one, args: [n], format: jsonl }
  add: { profile: a, file: q.gq, query: add, args: [n, a], mutation: true }
  sly: { profile: a, file: q.gq, query: add, args: [n, a] }
  bare: { profile: a }
  both: { profile: a, store: ../a, file: q.gq }
"""


@pytest.fixture
def folder(home: Path) -> Path:
    """A folder with two graphs and a config that names them."""
    create_graph(home / "a", SCHEMA, '{"type": "Person", "data": {"name": "Ann", "age": 36}}')
    create_graph(home / "b", SCHEMA, '{"type": "Person", "data": {"name": "Bo"}}')
    return home


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with the same config, and no graph."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.yaml").write_text(CONFIG, encoding="utf-8")
    (tmp_path / "home" / "q.gq").write_text(QUERIES, encoding="utf-8")
    return tmp_path


def run(folder: Path, *arguments: str, **environment: str) -> Outcome:
    return omnigraph(*arguments, cwd=folder, **{"OMNIGRAPH_HOME": "home", **environment})


def read(folder: Path, *flags: str, **environment: str) -> list[str]:
    done = run(folder, "query", "-e", ONE, *flags, **environment)
    assert (done.code, done.err) == (0, "")
    return done.out.splitlines()


def test_address_wins_over_profile_over_environment_over_default(folder: Path):
    assert read(folder) == ["name", "Bo"]
    assert read(folder, OMNIGRAPH_PROFILE="a") == ["name", "Ann"]
    assert read(folder, "--profile", "b", OMNIGRAPH_PROFILE="a") == ["name", "Bo"]
    assert read(folder, "--store", "a", "--profile", "nix") == ["name", "Ann"]


def test_config_is_found_in_the_home_of_the_user(folder: Path):
    (folder / "home").rename(folder / ".omnigraph")
    assert read(folder, OMNIGRAPH_HOME="", HOME=str(folder)) == ["name", "Bo"]
    assert read(folder, OMNIGRAPH_HOME="~/.omnigraph", HOME=str(folder)) == ["name", "Bo"]


@pytest.mark.parametrize(
    ("name", "code", "error", "hint"),
    [
        ("nix", 5, "profile 'nix' was not found", "known names: a, b, odd"),
        ("odd", 2, "home/config.yaml:5:3: profile 'odd' must set exactly one of server, cluster and store", ""),
    ],
)
def test_profile_that_leads_to_no_store_is_refused(home: Path, name: str, code: int, error: str, hint: str):
    done = run(home, "status", "--profile", name)
    assert (done.code, done.out) == (code, "")
    assert done.err.startswith(f"error: {error}")
    assert hint in done.err


def test_nothing_that_names_a_graph_lists_the_ways(home: Path):
    done = run(home, "branch", "list", OMNIGRAPH_HOME="nobody")
    assert done.code == 2
    assert all(
        way in done.err
        for way in ("--store", "--server", "--profile", "OMNIGRAPH_PROFILE", "defaults of the operator config")
    )
    served = run(home, "branch", "list", "--uri", "https://kg.acme.test")
    assert (served.code, served.err.splitlines()[0]) == (2, "error: the address of a server is not a storage")


def test_operator_writes_unless_somebody_else_is_named(folder: Path):
    def add(name: str, *flags: str) -> str:
        query = "query q($n: String) { insert Person { name: $n } }"
        return json.loads(run(folder, "mutate", "-e", query, "--param", f"n={name}", "--json", *flags).out)["actor_id"]

    assert add("Cy") == "mira"
    assert add("Di", "--as", "bo") == "bo"


def test_table_is_no_wider_than_a_real_terminal(folder: Path):
    own, other = os.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 30, 0, 0))
    environment = {name: value for name, value in clean_environment().items() if name != "COLUMNS"}
    long = "query q() { match { $p: Person } return { $p.name as a_rather_long_name, $p.age as another_long_name } }"
    process = WarmProcess(
        "omnigraph", ["query", "--store", "a", "-e", long], cwd=folder, env=environment, out=other, err=other
    )
    assert process.wait(300) == 0
    os.close(other)
    lines = os.read(own, 4096).decode().splitlines()
    os.close(own)
    assert lines[1:] == [
        "a_rather_lon… | another_long…",
        "--------------+--------------",
        "Ann           | 36           ",
    ]


def test_overwriting_a_remote_graph_needs_consent(home: Path):
    done = run(home, "load", "s3://bucket/g", "--data", "rows.jsonl", "--mode", "overwrite", "--json")
    assert done.code == 2
    assert json.loads(done.out)["error"]["hint"] == "add --yes to continue"


def test_alias_takes_parameters_by_name_over_those_by_position_over_its_own(folder: Path):
    assert run(folder, "alias", "who").out == "name,age\nAnn,36\n"
    assert run(folder, "alias", "who", "Bo").out == "name,age\n"
    assert run(folder, "alias", "who", "7").err.startswith("error: parameter 'n'")
    assert run(folder, "alias", "who", "Bo", "--params", '{"n": "Ann"}', "--format", "kv").out.splitlines()[1:] == [
        "row 1",
        "name: Ann",
        "age: 36",
    ]
    assert [json.loads(line) for line in run(folder, "alias", "show", '"Ann"').out.splitlines()][1:] == [
        {"name": "Ann", "age": 36}
    ]


def test_alias_writes_only_if_it_says_so(folder: Path):
    refused = run(folder, "alias", "sly", "Cy", "7")
    assert refused.code == 2
    assert "hint: set mutation: true under aliases.sly in home/config.yaml to let it write" in refused.err
    done = run(folder, "alias", "add", "Cy", "7")
    assert (done.code, done.out.splitlines()[-1]) == (0, "actor_id: mira")
    assert run(folder, "alias", "who", "Cy").out == "name,age\nCy,7\n"
    assert run(folder, "alias", "add", "Di", "--format", "csv").code == 2
    again = run(folder, "alias", "add", "Di", "--json")
    assert json.loads(again.out)["query_name"] == "add"


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (["nix"], 5, "alias 'nix' was not found"),
        (["bare"], 2, "home/config.yaml:12:3: alias 'bare' has no query file"),
        (["both"], 2, "home/config.yaml:13:3: alias 'both' must set exactly one of store, profile and server"),
        (["who", "a", "b"], 2, "too many arguments for alias 'who': 2 instead of at most 1"),
    ],
)
def test_alias_that_cannot_run_says_why(home: Path, arguments: list[str], code: int, error: str):
    done = run(home, "alias", *arguments)
    assert (done.code, done.out) == (code, "")
    assert done.err.startswith(f"error: {error}")


def test_a_listed_profile_says_what_it_binds_to_as_the_file_writes_it(home: Path):
    profiles = """\
servers: { eu: { url: "https://eu.example" } }
profiles:
  one: { server: eu }
  two: { cluster: ops, server: eu, store: ../a }
  none: {}
"""
    (home / "home" / "config.yaml").write_text(profiles, encoding="utf-8")
    listed = json.loads(run(home, "profile", "list", "--json").out)
    assert [(line["name"], line["binding"], line["scope_kind"]) for line in listed] == [
        ("one", "server: eu", "server"),
        ("two", "server: eu, cluster: ops, store: ../a", "invalid"),
        ("none", None, "invalid"),
    ]


def test_profiles_are_listed_and_shown(home: Path):
    listed = json.loads(run(home, "profile", "list", "--json", OMNIGRAPH_PROFILE="a").out)
    assert [(one["name"], one["scope_kind"], one["valid"], one["active"]) for one in listed] == [
        ("a", "store", True, True),
        ("b", "store", True, False),
        ("odd", "invalid", False, False),
    ]
    shown = json.loads(run(home, "profile", "show", "a", "--json").out)
    assert shown == {
        "name": "a",
        "scope_kind": "store",
        "target": "home/../a",
        "endpoint": "home/../a",
        "default_graph": None,
        "output_format": "csv",
    }
    assert run(home, "profile", "show").out.splitlines()[:2] == ["name: (defaults)", "scope_kind: store"]


def test_broken_config_stops_what_needs_it_and_nothing_else(folder: Path):
    (folder / "home" / "config.yaml").write_text("operator: [", encoding="utf-8")
    (folder / "s.pg").write_text(SCHEMA, encoding="utf-8")
    for arguments in (["version"], ["--help"], ["fmt", "--check", "s.pg"], ["lint", "--schema", "s.pg"]):
        assert run(folder, *arguments).err == ""
    done = run(folder, "query", "-e", ONE, "--store", "a", "--json")
    assert done.code == 0
    broken = run(folder, "query", "-e", ONE, "--store", "a")
    assert (broken.code, broken.out) == (2, "")
    assert broken.err.startswith("error: home/config.yaml:1:12: not valid YAML")


def test_commands_without_a_config_load_no_yaml(tmp_path: Path):
    (tmp_path / "s.pg").write_text(SCHEMA, encoding="utf-8")
    code = """
import contextlib, sys
from omnigraph.cli.main import main
for arguments in (["--help"], ["version"], ["lint", "--schema", "s.pg"], ["profile", "list"]):
    with contextlib.suppress(SystemExit):
        main(arguments)
sys.exit("yaml" in sys.modules)
"""
    finished = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr.decode()


def completed(folder: Path, *words: str) -> list[str]:
    script = f"""
omnigraph() {{ ( {warm_command("omnigraph")} "$@" ) }}
source script.bash
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _omnigraph
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    bash = shutil.which("bash") or "/bin/bash"
    environment = {**clean_environment(OMNIGRAPH_HOME="home"), "PATH": os.environ["PATH"]}
    finished = subprocess.run(
        [bash, "-c", script, "bash", "omnigraph", *words], cwd=folder, env=environment, capture_output=True, check=True
    )
    assert finished.stderr == b""
    return finished.stdout.decode().split()


def test_bash_completes_commands_options_values_and_names(home: Path):
    (home / "home" / "config.yaml").write_text(f"{CONFIG}  $(touch hacked): {{}}\n", encoding="utf-8")
    (home / "script.bash").write_text(run(home, "completion", "bash").out, encoding="utf-8")
    assert completed(home, "sch") == ["schema"]
    assert completed(home, "branch", "") == ["create", "list", "merge", "delete"]
    assert completed(home, "query", "--form") == ["--format"]
    assert completed(home, "query", "--format", "j") == ["jsonl", "json"]
    assert completed(home, "query", "--format", "=", "k") == ["kv"]
    assert completed(home, "branch", "create", "x", "--profile", "") == ["a", "b", "odd"]
    assert completed(home, "alias", "") == ["who", "show", "add", "sly", "bare", "both"]
    assert completed(home, "load", "--data", "") == []
    assert not (home / "hacked").exists()


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_the_same_words(home: Path, shell: str):
    script = run(home, "completion", shell)
    assert (script.code, script.err) == (0, "")
    assert all(word in script.out for word in ("baseline", "allow-data-loss", "jsonl", "--names profiles"))
    assert run(home, "completion", "tcsh").code == 2
