"""Numbers, times and words of closed sets as the command line takes them: all options of all commands."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_command

import omnigraph
from omnigraph.cli import main
from omnigraph.errors import Kind

HOSTILE = ("x", "nan", "-1", "1e400", "inf", "", "1" * 5000, "\u0663x")
# Texts that hold a number or a moment, by what help calls them.
_MEASURES = {"N", "SECONDS", "SIZE", "TIME"}
# What a command needs besides the option. One that is missing here makes a test fail, which is how it gets an entry.
READ = ["-e", "query q() { match { $p: Person } return { $p.name } }"]
NEEDED = {
    "query": READ,
    "explain": READ,
    "mutate": ["-e", 'query q() { insert Person { name: "y" } }'],
    "algorithm run": ["degree"],
    "embed": [],
    "blob get": ["node", "Person", "x", "photo"],
    "blame": ["Person", "x"],
    "cleanup": [],
    "proposal open": ["draft", "--title", "t"],
    "proposal list": [],
    "commit list": [],
    "commit changes": ["@head"],
    "changes poll": ["--start", "now"],
    "changes follow": ["--from", "now", "--once"],
    "schema infer": ["people.csv"],
    "pipeline run": ["pipeline.yaml"],
    "pipeline status": ["pipeline.yaml"],
    "mcp": [],
}
_WITHOUT_GRAPH = {"schema infer"}


def walk(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    if not isinstance(command, TyperGroup):
        yield from ((" ".join(path), parameter) for parameter in command.params)
        return
    for name in command.list_commands(None):
        yield from walk(command.get_command(None, name), (*path, name))


OPTIONS = [(path, parameter) for path, parameter in walk(get_command(main._app)) if parameter.opts[0].startswith("--")]
NUMBERS = [
    (path, option.opts[0])
    for path, option in OPTIONS
    if option.type_descriptor.annotation in {int, float} or option.metavar in _MEASURES
]
CHOICES = [
    (path, option.opts[0])
    for path, option in OPTIONS
    if isinstance(option.type_descriptor.annotation, type) and issubclass(option.type_descriptor.annotation, Enum)
]


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    relaxed = omnigraph.TxnSettings(durability="relaxed")
    schema = "node Person { name: String @key }"
    with omnigraph.init(str(tmp_path_factory.mktemp("g") / "g"), schema, settings=relaxed) as graph:
        graph.mutate('query a() { insert Person { name: "x" } }')
        yield graph


def run(graph: Any, path: str, option: str, value: str) -> int:
    given = [str(graph.log()[0].id) if word == "@head" else word for word in NEEDED[path]]
    store = [] if path in _WITHOUT_GRAPH else ["--store", graph.uri]
    with pytest.raises(SystemExit) as ended:
        main.main([*path.split(), *given, *store, f"{option}={value}"])
    return int(ended.value.code or 0)


def refused(capsys: pytest.CaptureFixture[str], code: int) -> None:
    told = capsys.readouterr()
    lines = told.err.splitlines()
    assert code == Kind.INVALID.exit_code, told.err
    assert [line for line in lines if line.startswith("error: ")] == [lines[0]], told.err
    assert "Traceback" not in told.err
    assert told.out == ""


def test_the_walk_finds_every_option_that_takes_a_number():
    assert {path for path, _ in NUMBERS} == set(NEEDED)
    assert len(CHOICES) > 10


@pytest.mark.parametrize(("path", "option"), NUMBERS)
def test_a_number_that_is_none_is_a_mistake_in_usage(graph, capsys, path, option):
    for value in HOSTILE:
        refused(capsys, run(graph, path, option, value))


@pytest.mark.parametrize(("path", "option"), CHOICES)
def test_a_word_that_is_none_is_a_mistake_in_usage(capsys, path, option):
    for value in ("x", "", "-1"):
        with pytest.raises(SystemExit) as ended:
            main.main([*path.split(), f"{option}={value}"])
        refused(capsys, int(ended.value.code or 0))
