"""Help pages are for people: no name of a type of Python, no object, no bracket that means nothing to them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.unit.cli.test_flags import COMMANDS, LISTED
from typer.core import TyperGroup

from omnigraph.cli import main

# A choice is shown as <one|other>; other words in angle brackets, and braces in a usage line, come from a library.
LEAKS = re.compile(
    r"<(?![^<>]*\|)[^<>]*>|object at 0x|_MISSING|dataclasses\.|\[\[|typing\.|NoneType|Annotated|^Usage:.*[{}]",
    re.MULTILINE,
)


def help_of(command: Any, name: str) -> str:
    with typer.Context(command, info_name=name, terminal_width=200) as context:
        return command.get_help(context)


def groups(group: Any = LISTED, path: str = "omnigraph") -> dict[str, Any]:
    found = {path: group}
    for name in group.entries:
        inner = group.get_command(None, name)
        if isinstance(inner, TyperGroup):
            found |= groups(inner, f"{path} {name}")
    return found


PAGES = {**groups(), **COMMANDS}


def test_help_has_nothing_of_the_language_it_is_written_in():
    for path, page in PAGES.items():
        text = help_of(page, path)
        assert text.startswith("Usage: "), path
        assert LEAKS.findall(text) == [], text


def test_the_usage_line_says_what_is_required():
    usage = help_of(COMMANDS["blob get"], "blob get").splitlines()[0]
    assert usage == "Usage: blob get [OPTIONS] [GRAPH] ENTITY TYPE ID PROPERTY"
    assert help_of(COMMANDS["schema infer"], "x").splitlines()[0] == "Usage: x [OPTIONS] [FILES]..."


# In the order of a first session; each one finds what the examples before it have made.
WITH_EXAMPLE = (
    *("init", "lint", "schema infer", "load", "query", "explain", "mutate", "diff", "blame", "commit list"),
    *("branch create", "branch list", "branch merge", "schema plan", "schema apply", "export", "status", "cleanup"),
)


def test_the_examples_of_help_pages_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path))
    schema = "node Person {\n    name: String @key\n}\n"
    Path("crm.pg").write_text(schema)
    Path("crm2.pg").write_text(schema.replace("@key", "@key\n    nick: String?"))
    Path("queries.gq").write_text("query names() { match { $p: Person } return { $p.name } }\n")
    Path("people.jsonl").write_text('{"type": "Person", "data": {"name": "Ada"}}\n')
    examples = {path: re.findall(r"Example:\n +(.+)", help_of(page, path)) for path, page in PAGES.items()}
    assert {path for path, lines in examples.items() if lines} == set(WITH_EXAMPLE)
    for path in WITH_EXAMPLE:
        (line,) = examples[path]
        with pytest.raises(SystemExit) as ended:
            main.main(shlex.split(line)[1:])
        assert ended.value.code == 0, (line, capsys.readouterr().err)
    assert sorted(item.name for item in Path("backup").iterdir())
