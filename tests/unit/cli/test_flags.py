"""The options that address a graph: which command takes which, and what the others answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.session_graph import create_graph
from typer.core import TyperGroup
from typer.main import get_command

from omnigraph.cli import main
from omnigraph.cli.options import refuse_flags
from omnigraph.errors import UsageError

DIRECT = ("--store", "--profile")
DIRECT_WRITES = ("--store", "--as", "--profile")
READS = ("--server", "--graph", *DIRECT)
WRITES = ("--server", "--graph", *DIRECT_WRITES)
SERVED = ("--server", "--profile")
CLUSTERED = ("--cluster", "--graph", *DIRECT)
STORED = ("--server", "--cluster", "--graph", *DIRECT)
APPLIED = ("--cluster", "--graph", "--profile")
BY_WHOM = ("--as",)
NOTHING = ()

MATRIX = {
    "init": DIRECT_WRITES,
    "load": WRITES,
    "export": READS,
    "query": READS,
    "explain": READS,
    "mutate": WRITES,
    "queries list": STORED,
    "queries validate": STORED,
    "embed": WRITES,
    "blob get": READS,
    "blob stat": READS,
    "algorithm run": WRITES,
    "algorithm list": NOTHING,
    "shell": WRITES,
    "alias": NOTHING,
    "branch create": WRITES,
    "branch list": READS,
    "branch merge": WRITES,
    "branch delete": WRITES,
    "proposal open": WRITES,
    "proposal list": READS,
    "proposal show": READS,
    "proposal check": READS,
    "proposal comment": WRITES,
    "proposal approve": WRITES,
    "proposal merge": WRITES,
    "proposal close": WRITES,
    "commit list": READS,
    "commit show": READS,
    "commit changes": READS,
    "diff": READS,
    "changes poll": READS,
    "changes follow": READS,
    "changes apply": WRITES,
    "changes applied": READS,
    "changes baseline": READS,
    "tag create": WRITES,
    "tag list": READS,
    "tag delete": READS,
    "revert": WRITES,
    "blame": READS,
    "snapshot": READS,
    "lint": CLUSTERED,
    "pipeline init": DIRECT,
    "pipeline validate": DIRECT,
    "pipeline plan": DIRECT,
    "pipeline run": DIRECT_WRITES,
    "pipeline status": DIRECT,
    "pipeline report": DIRECT,
    "pipeline quarantine": DIRECT_WRITES,
    "serve": DIRECT,
    "fmt": NOTHING,
    "schema infer": NOTHING,
    "schema plan": DIRECT,
    "schema apply": WRITES,
    "schema show": READS,
    "optimize": CLUSTERED,
    "cleanup": CLUSTERED,
    "status": CLUSTERED,
    "repair": CLUSTERED,
    "migrate": CLUSTERED,
    "mcp": WRITES,
    "cluster init": NOTHING,
    "cluster validate": NOTHING,
    "cluster import": NOTHING,
    "cluster plan": NOTHING,
    "cluster apply": BY_WHOM,
    "cluster approve": BY_WHOM,
    "cluster status": NOTHING,
    "cluster refresh": NOTHING,
    "cluster force-unlock": NOTHING,
    "graphs list": SERVED,
    "login": NOTHING,
    "logout": NOTHING,
    "policy validate": APPLIED,
    "policy test": APPLIED,
    "policy explain": APPLIED,
    "profile list": NOTHING,
    "profile show": NOTHING,
    "completion": NOTHING,
    "version": NOTHING,
}
FLAGS = ("--server", "--cluster", "--graph", "--store", "--as", "--profile")


def walk(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    if not isinstance(command, TyperGroup):
        yield " ".join(path), command
        return
    for name in command.list_commands(None):
        yield from walk(command.get_command(None, name), (*path, name))


LISTED: Any = get_command(main._app)
COMMANDS = dict(walk(LISTED))


def test_every_command_takes_what_the_matrix_says():
    def taken(command: Any) -> tuple[str, ...]:
        own = {name for parameter in command.params for name in parameter.opts}
        return tuple(flag for flag in FLAGS if flag in own)

    assert {path: taken(command) for path, command in COMMANDS.items()} == MATRIX


def test_the_capabilities_that_help_tells_are_those_of_the_options():
    for path, taken in MATRIX.items():
        group, *rest = path.split()
        entry = LISTED.entries[group]
        if rest:
            entry = LISTED.get_command(None, group).entries[rest[0]]
        capability = entry.capability or LISTED.entries[group].capability
        takes_a_graph = taken not in {NOTHING, BY_WHOM, APPLIED}
        assert takes_a_graph is (capability not in {"local", "control"}), path


def test_every_other_flag_is_refused_by_name_with_a_remedy():
    for path, taken in MATRIX.items():
        for flag in set(FLAGS) - set(taken):
            for arguments in ([flag, "x"], [f"{flag}=x"]):
                with pytest.raises(UsageError, match=f"{flag} ") as caught:
                    refuse_flags(path, COMMANDS[path], arguments)
                assert caught.value.hint, path


def test_first_offender_in_a_fixed_order_is_the_one_that_is_told():
    with pytest.raises(UsageError, match="`fmt` is a local command; --as names who writes and does not apply"):
        refuse_flags("fmt", COMMANDS["fmt"], ["--profile", "p", "--as", "a"])


def test_alias_tells_all_of_them_at_once():
    with pytest.raises(UsageError, match=r"--store names .*, --profile names .* and do not apply") as caught:
        refuse_flags("alias", COMMANDS["alias"], ["who", "--profile", "p", "--store", "s"])
    assert caught.value.hint == "the alias determines the graph; change it in the operator config"


def test_what_stands_behind_two_dashes_is_no_option():
    refuse_flags("alias", COMMANDS["alias"], ["who", "--", "--store", "x"])


def test_flags_before_the_command_are_those_of_the_command(tmp_path, capsys):
    create_graph(tmp_path / "g", "node Person { name: String @key }\n")
    for arguments in (["--store", f"{tmp_path}/g", "--json", "branch", "list"], [f"--store={tmp_path}/g", "status"]):
        assert main.run(lambda arguments=arguments: main._invoke(arguments), arguments) == 0
    assert capsys.readouterr().out.startswith('{\n  "branches": [\n    "main"\n  ]\n}\nbranch main: ')


def test_flags_before_the_command_are_refused_by_commands_that_do_not_take_them():
    with pytest.raises(UsageError, match="`branch list` is a graph command; --as names who writes"):
        main._invoke(["--as", "zoe", "branch", "list", "--store", "g"])


# What changes something and makes no commit that could keep a message.
WITHOUT_COMMIT = (
    *("branch create", "branch delete", "tag delete", "cleanup"),
    *("proposal open", "proposal comment", "proposal approve", "proposal close"),
)
# Their commits name the run that made them, the cluster that applied it, or what the agent said.
RUNS = ("pipeline run", "pipeline quarantine", "cluster apply", "cluster approve", "mcp")


def test_every_command_that_makes_a_commit_takes_a_message():
    takes = {name for name, command in COMMANDS.items() if any("-m" in item.opts for item in command.params)}
    writes = {name for name, flags in MATRIX.items() if "--as" in flags} | {"optimize", "repair", "migrate", "alias"}
    assert takes == writes - {*WITHOUT_COMMIT, *RUNS}
