"""Promises about the source tree that the import contracts cannot express."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import omnigraph
from tests.guards.layout import ROOT, SOURCE, imported_names, rooms, settings, source_files, tree

MAX_LINES = 600
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}
# Libraries that have one door each.
DOORS = {"lance": {"store"}, "pyspark": {"spark"}, "typer": {"cli"}}


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0]


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_every_room_has_a_page_about_itself():
    for room in rooms():
        page = SOURCE / room / "README.md"
        assert page.is_file(), room
        lines = page.read_text(encoding="utf-8").splitlines()
        assert lines[0] == f"# {room}"
        assert len(lines) <= 60, room


@pytest.mark.parametrize("library", DOORS)
def test_library_is_named_behind_its_door_only(library: str):
    allowed = DOORS[library] | {"testing"}
    users = {named(path) for path in source_files() if library in imported_names(path) and room_of(path) not in allowed}
    assert users == set()


def test_init_files_hold_nothing_but_re_exports():
    for path in source_files():
        if path.name != "__init__.py":
            continue
        for statement in tree(path).body:
            assert is_re_export(statement), f"{named(path)}:{statement.lineno}"


def test_no_re_export_hides_a_module():
    hidden = []
    for path in source_files():
        if path.name != "__init__.py":
            continue
        modules = {
            item.stem for item in path.parent.iterdir() if item.suffix == ".py" or (item / "__init__.py").exists()
        }
        for statement in ast.walk(tree(path)):
            if isinstance(statement, ast.ImportFrom):
                names = {alias.asname or alias.name for alias in statement.names}
                here = f"omnigraph.{'.'.join(path.parent.relative_to(SOURCE).parts)}".rstrip(".")
                hidden += [f"{named(path)}: {name}" for name in names & modules if statement.module != here]
    assert hidden == []


def is_re_export(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    if isinstance(statement, ast.Assign):
        return all(isinstance(target, ast.Name) and target.id.startswith("__") for target in statement.targets)
    if isinstance(statement, ast.If):
        # What only type checkers import is what a lazy export gives at run time.
        return ast.unparse(statement.test) == "TYPE_CHECKING" and all(map(is_re_export, statement.body))
    if isinstance(statement, ast.FunctionDef):
        return statement.name in {"__getattr__", "__dir__"}
    return isinstance(statement, ast.Import | ast.ImportFrom)


def test_long_files_say_why():
    for path in source_files():
        text = path.read_text(encoding="utf-8")
        if text.count("\n") > MAX_LINES:
            assert "one thing" in (ast.get_docstring(tree(path)) or ""), named(path)


def test_every_file_says_what_it_is_for():
    for path in source_files():
        assert ast.get_docstring(tree(path)), named(path)


def test_no_module_has_a_vague_name():
    assert {named(path) for path in source_files() if path.stem in VAGUE_NAMES} == set()


def test_calls_that_would_make_a_run_unrepeatable_are_banned():
    banned = settings()["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
    assert banned.keys() >= {
        "time.time",
        "time.monotonic",
        "time.sleep",
        "datetime.datetime.now",
        "uuid.uuid4",
        "random",
        "secrets",
        "os.urandom",
        "threading.Thread",
    }
    assert all(ban["msg"].startswith("use ") for ban in banned.values())


def test_only_the_runtime_and_the_test_kit_are_exempt_from_the_bans():
    exempt = settings()["tool"]["ruff"]["lint"]["per-file-ignores"]
    sources = {path for path, codes in exempt.items() if path.startswith("src/") and "TID251" in codes}
    assert sources == {"src/omnigraph/runtime/**", "src/omnigraph/testing/**"}


def test_only_the_command_line_may_print():
    for path in source_files():
        if room_of(path) == "cli":
            continue
        calls = [node for node in ast.walk(tree(path)) if isinstance(node, ast.Call)]
        assert not [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"], named(path)


def test_suppressed_findings_have_a_reason():
    with_reason = re.compile(r"# noqa: [A-Z0-9, ]+ - \S|# type: ignore\[[a-z, -]+\]\s+[-#] \S")
    for path in source_files():
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if "# noqa" in line or "# type: ignore" in line:
                assert with_reason.search(line), f"{named(path)}:{number}"


def test_package_exports_what_it_lists():
    nouns = {
        "Branch",
        "Commit",
        "Dialect",
        "Diff",
        "Feed",
        "Graph",
        "Log",
        "OmnigraphError",
        "Proposal",
        "Result",
        "Schema",
        "SchemaProposal",
        "Snapshot",
        "Source",
        "Transaction",
    }
    told = {"EmbeddingSettings", "ExportSettings", "LoadSettings", "MaintenanceSettings", "TxnSettings"}
    told |= {"ClientSettings", "ExternalBlobs", "PageLimits", "QueryOptions"}
    assert omnigraph.__all__ == sorted(nouns | told | {"__version__", "infer_schema", "init", "open"})
    assert all(hasattr(omnigraph, name) for name in dir(omnigraph))
