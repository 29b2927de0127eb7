"""The types of ``omnigraph.aio`` for type checkers and editors, from those of ``omnigraph.graph``."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from types import ModuleType

from omnigraph.aio.facade import AWAITED, CLASSES, IMMEDIATE, LEFT_OUT, RENAMED
from omnigraph.graph import graph
from omnigraph.values.printable import Printable

# Types that differ, for functions of the caller and for what executes requests.
WORDS = {
    "Callable[[Transaction], _Done]": "Callable[[Transaction], Awaitable[_Done]]",
    "def backend(self) -> Backend": "def backend(self) -> AsyncBackend",
}
OWN = ("__call__", "__getitem__", "__getattr__", "__len__", "__iter__", "__contains__", "__enter__", "__exit__")


def stubs() -> str:
    """Return the text of ``omnigraph/aio/__init__.pyi``."""
    plain = [one for one in CLASSES if one is not Printable]
    modules = list(dict.fromkeys(inspect.getmodule(one) for one in plain))
    trees = {module: ast.parse(inspect.getsource(module)) for module in modules if module is not None}
    lines = ['"""Graphs on an event loop: the objects of ``omnigraph`` with methods to be awaited."""\n']
    lines.append("import io\nfrom collections.abc import AsyncIterator, Awaitable, Callable\n")
    lines.append("from omnigraph.aio.backend import AsyncBackend\n")
    own = {one.__name__ for one in plain}
    for module, tree in trees.items():
        lines += [*_imports(tree, own), *_variables(module, tree, own)]
    for one in plain:
        tree = trees[inspect.getmodule(one)]
        (node,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == one.__name__)
        lines += _class(one, node, own)
    for node in trees[graph].body:
        if isinstance(node, ast.FunctionDef) and node.name in {"init", "open"}:
            lines.append(_function(node, "async "))
    text = "\n".join(lines) + "\n"
    for old, new in WORDS.items():
        text = text.replace(old, new)
    return text


def _imports(tree: ast.Module, own: set[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            names = [name for name in node.names if name.name not in own]
            if names:
                yield ast.unparse(ast.ImportFrom(module=node.module, names=names, level=0))


def _variables(module: ModuleType, tree: ast.Module, own: set[str]) -> Iterator[str]:
    """Yield imports of what a module defines beside the classes: aliases, constants, type variables."""
    for node in tree.body:
        name = node.name if isinstance(node, ast.ClassDef) else ""
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
        if name and name not in own and not name.startswith("__"):
            yield f"from {module.__name__} import {name}"


def _class(plain: type, node: ast.ClassDef, own: set[str]) -> Iterator[str]:
    bases = [ast.unparse(base) for base in node.bases if ast.unparse(base) in own or isinstance(base, ast.Subscript)]
    based = f"({', '.join(bases)})" if bases else ""
    yield f"class {node.name}{based}:"
    yield f"    {_first_line(node)}"
    immediate, awaited = IMMEDIATE.get(plain, set()), AWAITED.get(plain, set())
    overloaded: set[str] = set()
    for member in node.body:
        if not isinstance(member, ast.FunctionDef):
            continue
        name = member.name
        if (name.startswith("_") and name not in OWN) or name in LEFT_OUT.get(plain, set()):
            continue
        decorators = [ast.unparse(one) for one in member.decorator_list]
        if "overload" in decorators:
            overloaded.add(name)
        elif name in overloaded:
            continue
        is_property = "property" in decorators
        if name in immediate | {"lines"} or (is_property and name not in awaited):
            yield _indented("".join(f"@{one}\n" for one in decorators) + _function(member, ""))
        elif any(isinstance(part, ast.Yield | ast.YieldFrom) for part in ast.walk(member)) or name == "__iter__":
            yield _indented(_function(member, "", drawing=True))
        else:
            yield _indented(_function(member, "async "))


def _function(node: ast.FunctionDef, kind: str, *, drawing: bool = False) -> str:
    returns = "" if node.returns is None else ast.unparse(node.returns)
    if drawing:
        returns = returns.replace("Iterator", "AsyncIterator", 1)
    name = RENAMED.get(node.name, node.name) if kind or drawing else node.name
    return f"{kind}def {name}({ast.unparse(node.args)}) -> {returns}:\n    {_first_line(node)}"


def _first_line(node: ast.FunctionDef | ast.ClassDef) -> str:
    text = (ast.get_docstring(node) or "").partition("\n")[0]
    return f'"""{text}"""' if text else "..."


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.split("\n"))
