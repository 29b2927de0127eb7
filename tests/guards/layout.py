"""What the guards know about the source tree."""

from __future__ import annotations

import ast
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "omnigraph"


@cache
def settings() -> dict[str, Any]:
    """The project's settings."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def rooms() -> list[str]:
    """The rooms, as the import contract lists them; layers of equal height share an entry."""
    contracts = settings()["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [room.strip(" ()") for layer in layers for room in layer.replace("|", ":").split(":")]


def source_files() -> list[Path]:
    """Every Python file of the package."""
    return sorted(SOURCE.rglob("*.py"))


@cache
def tree(path: Path) -> ast.Module:
    """The syntax tree of a file, parsed once for all guards."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imported_names(path: Path) -> set[str]:
    """The top-level packages a file imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module.split(".")[0])
    return found
