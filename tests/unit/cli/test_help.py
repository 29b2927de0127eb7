"""Help pages are for people: no name of a type of Python, no object, no bracket that means nothing to them."""

from __future__ import annotations

import re
from typing import Any

import pytest
import typer
from tests.unit.cli.test_flags import COMMANDS, LISTED
from typer.core import TyperGroup

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


@pytest.mark.parametrize("path", PAGES)
def test_help_has_nothing_of_the_language_it_is_written_in(path: str):
    text = help_of(PAGES[path], path)
    assert text.startswith("Usage: ")
    assert LEAKS.findall(text) == [], text


def test_the_usage_line_says_what_is_required():
    usage = help_of(COMMANDS["blob get"], "blob get").splitlines()[0]
    assert usage == "Usage: blob get [OPTIONS] [GRAPH] ENTITY TYPE ID PROPERTY"
    assert help_of(COMMANDS["schema infer"], "x").splitlines()[0] == "Usage: x [OPTIONS] [FILES]..."
