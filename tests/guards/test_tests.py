"""Tests fail for what they test and for nothing else: not for a slow machine, an interpreter, or a name inside."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.guards.layout import ROOT, tree

TRACED = {"setprofile", "settrace", "monitoring", "setprofile_all_threads", "settrace_all_threads"}
# One raises at a line that it chooses, the other prints a table; neither lets a test depend on what it counts.
TRACERS = {"tests/crash/interrupting.py", "tests/guards/house.py"}
CLOCKS = {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "elapsed"}
COUNTERS = {"count", "counted"}


def traced(module: ast.Module) -> Iterator[ast.AST]:
    """Yield what watches the interpreter."""
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute) and node.attr in TRACED and _is_named(node.value, {"sys", "threading"}):
            yield node


def timed(module: ast.Module) -> Iterator[ast.AST]:
    """Yield assertions about a clock, but for those of a loop, which bound a test that hangs."""
    looped = {id(inner) for node in ast.walk(module) if isinstance(node, ast.While) for inner in ast.walk(node)}
    for function in ast.walk(module):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        found = [node for node in ast.walk(function) if isinstance(node, ast.Assign) and _tells_time(node.value, set())]
        names = {name.id for node in found for target in node.targets for name in _names(target)}
        for node in ast.walk(function):
            if isinstance(node, ast.Assert) and id(node) not in looped and _tells_time(node.test, names):
                yield node


def slept(module: ast.Module) -> Iterator[ast.AST]:
    """Yield pauses of a fixed length, but for those between two looks of a loop."""
    looped = {
        id(inner)
        for node in ast.walk(module)
        if isinstance(node, ast.While | ast.For | ast.AsyncFor)
        for inner in ast.walk(node)
    }
    for node in ast.walk(module):
        is_pause = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "sleep"
        if is_pause and _is_named(node.func.value, {"time"}) and id(node) not in looped:
            yield node


def spied(module: ast.Module) -> Iterator[ast.AST]:
    """Yield what notes the calls of a private function; how many rows came to it may be noted."""
    for node in ast.walk(module):
        if not (isinstance(node, ast.Call) and len(node.args) > 1 and _is_private(node.args[1])):
            continue
        notes = [inner for argument in node.args[2:] for inner in ast.walk(argument) if _is_note(inner)]
        if _is_named(node.func, COUNTERS) or notes:
            yield node


# What stands in every file in which there may be such a thing: few of them have to be parsed.
SIGNS = {
    traced: re.compile("settrace|setprofile|monitoring"),
    timed: re.compile(r"\bimport time\b"),
    slept: re.compile(r"time\.sleep\("),
    spied: re.compile(r"""\(.*["']_[a-z]"""),
}
KINDS = {
    traced: "import sys\ndef test():\n    sys.setprofile(print)",
    timed: "import time\ndef test():\n    began = time.monotonic()\n    f()\n    assert time.monotonic() < began",
    slept: "import time\ndef test():\n    start()\n    time.sleep(1)\n    assert has_ended()",
    spied: "def test(monkeypatch):\n    monkeypatch.setattr(room, '_inner', lambda *given: calls.append(given))",
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_test_depends_on_more_than_what_it_tests(kind):
    paths = [path for path in sorted((ROOT / "tests").rglob("*.py")) if _named(path) not in TRACERS]
    told = [path for path in paths if SIGNS[kind].search(path.read_text(encoding="utf-8"))]
    assert [f"{_named(path)}:{node.lineno}" for path in told for node in kind(tree(path))] == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_test_that_does_is_found(kind):
    assert SIGNS[kind].search(KINDS[kind])
    assert len(list(kind(ast.parse(KINDS[kind])))) == 1


def test_a_limit_of_a_loop_is_no_assertion_about_time():
    loop = "import time\ndef test():\n    while f():\n        assert time.monotonic() < end"
    assert list(timed(ast.parse(loop))) == []


def _named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _is_named(node: ast.AST, names: set[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def _names(node: ast.AST) -> list[ast.Name]:
    return [inner for inner in ast.walk(node) if isinstance(inner, ast.Name)]


def _tells_time(node: ast.AST, names: set[str]) -> bool:
    return any(
        _is_named(inner, names)
        or (isinstance(inner, ast.Attribute) and inner.attr in CLOCKS and _is_named(inner.value, {"time"}))
        for inner in ast.walk(node)
    )


def _is_private(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and str(node.value).startswith("_") and not str(node.value).startswith("__")


def _is_note(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append"):
        return False
    sizes = {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)} & {"num_rows", "row_count"}
    return not sizes
