"""Everything that a verb of a graph returns shows itself: a short ``repr``, a readable ``str``, and HTML."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import omnigraph

SOURCE = Path(omnigraph.__file__).parent
NOUNS = ("graph", "branch", "proposals", "state", "transaction", "writing")


def returned_classes() -> Iterator[type]:
    """The classes that public methods of graphs, branches and states return, by the annotations of the methods."""
    for noun in NOUNS:
        tree = ast.parse((SOURCE / "graph" / f"{noun}.py").read_text())
        imported = {
            alias.asname or alias.name: node.module or ""
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
        for method in (node for one in classes for node in one.body if isinstance(node, ast.FunctionDef)):
            if method.name.startswith("_") or method.returns is None:
                continue
            for name in (node.id for node in ast.walk(method.returns) if isinstance(node, ast.Name)):
                found = getattr(import_module(imported[name]), name) if "omnigraph" in imported.get(name, "") else None
                if inspect.isclass(found) and not getattr(found, "_is_protocol", False):
                    yield found


def test_every_result_shows_itself():
    found = set(returned_classes())
    assert len(found) > 15
    # What a record or a struct makes of its parts by itself is neither short nor readable.
    plain = {
        cls.__name__ for cls in found if not inspect.isfunction(cls.__repr__) or "<locals>" in cls.__repr__.__qualname__
    }
    assert plain == set()
    assert {cls.__name__ for cls in found if not hasattr(cls, "_repr_html_")} == set()
