"""The async twin of a module: which of its functions wait, and its text with ``async`` and ``await`` where they do.

A function waits if it asks the backend, draws what may still be on its way, or calls one that waits. Names are enough
to tell: functions that wait have names of their own among those that are called on ``self`` and the like.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

# Calls that wait, as they stand in the text.
WAITING = {
    *("self._backend.execute", "backend.execute", "self._backend.close", "self._stopped.wait", "feed.pin"),
    *("feed.identify", "computed", "connect", "create_local", "open_local", "run"),
}
# What gives items as they come.
DRAWING = {"drawn", "feed.groups"}
# Held while others wait.
LOCKS = {"self._lock"}
RENAMED = {"__enter__": "__aenter__", "__exit__": "__aexit__", "__iter__": "__aiter__"}
# What people see of an object is there at once, or not at all.
SHOWN = {"__str__", "_repr_html_"}

Function = ast.FunctionDef


@dataclass
class Twin:
    """What is known of a room: the names of functions that wait, and of those that give items as they come."""

    waiting: set[str] = field(default_factory=set)
    drawing: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, modules: Iterable[ast.Module]) -> Twin:
        """Find the functions that wait, directly or through others."""
        found = cls()
        functions = [one for module in modules for one in ast.walk(module) if isinstance(one, Function)]
        known = -1
        while known != len(found.waiting) + len(found.drawing):
            known = len(found.waiting) + len(found.drawing)
            for one in functions:
                if found.waits(one):
                    (found.drawing if is_generator(one) else found.waiting).add(one.name)
        return found

    def waits(self, function: Function) -> bool:
        """Whether something in a function has to be waited for."""
        return any(self.is_awaited(node) or self.is_drawn(node) for node in ast.walk(function))

    def is_awaited(self, node: ast.AST) -> bool:
        """Whether a call has to be awaited."""
        if not isinstance(node, ast.Call):
            return False
        name = ast.unparse(node.func)
        return name in WAITING or self._is_one_of(name, self.waiting)

    def is_drawn(self, node: ast.AST) -> bool:
        """Whether a loop has to wait for its items."""
        if not isinstance(node, ast.For):
            return False
        if isinstance(node.iter, ast.Call):
            name = ast.unparse(node.iter.func)
            return name in DRAWING or self._is_one_of(name, self.drawing)
        return ast.unparse(node.iter) == "self" and "__iter__" in self.drawing

    def _is_one_of(self, name: str, names: set[str]) -> bool:
        owner, _, last = name.rpartition(".")
        return owner in {"", "self"} and last in names


def is_generator(function: Function) -> bool:
    """Whether a function yields, itself and not in one inside it."""
    return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in _own(function))


def _own(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, Function | ast.Lambda):
            yield child
            yield from _own(child)


class _Edits:
    """Changes of a text by line and column, made from its end to its beginning."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines(keepends=True)
        self._edits: list[tuple[int, int, int, int, str]] = []

    def put(self, line: int, column: int, text: str) -> None:
        self._edits.append((line - 1, self._column(line, column), line - 1, self._column(line, column), text))

    def swap(self, line: int, column: int, old: str, new: str) -> None:
        start = self._column(line, column)
        assert self._lines[line - 1][start:].startswith(old), (self._lines[line - 1], old)  # noqa: S101 - our own text
        self._edits.append((line - 1, start, line - 1, start + len(old), new))

    def drop(self, first: int, last: int) -> None:
        self._edits.append((first - 1, 0, last, 0, ""))

    def _column(self, line: int, column: int) -> int:
        # Python counts bytes.
        return len(self._lines[line - 1].encode()[:column].decode())

    def made(self) -> str:
        lines = [*self._lines, ""]
        for first, start, last, end, text in sorted(self._edits, reverse=True):
            lines[first : last + 1] = [lines[first][:start] + text + lines[last][end:]]
        return "".join(lines)


def async_twin(text: str, twin: Twin, replaced: Mapping[str, str]) -> str:
    """Return the text of a module for an event loop.

    Args:
        text: the module.
        twin: what waits in its room.
        replaced: further texts to replace, after the rest.
    """
    module, edits = ast.parse(text), _Edits(text)
    parents = {child: node for node in ast.walk(module) for child in ast.iter_child_nodes(node)}
    dropped: list[Function] = []
    for node in ast.walk(module):
        if isinstance(node, Function):
            _change_function(node, twin, parents, edits, dropped)
    for node in ast.walk(module):
        if any(_is_inside(node, one, parents) for one in dropped):
            continue
        if isinstance(node, ast.With):
            _change_with(node, twin, edits)
        elif twin.is_drawn(node):
            edits.put(node.lineno, node.col_offset, "async ")
        elif isinstance(node, ast.Call) and twin.is_awaited(node):
            _await(node, parents, edits)
    made = edits.made()
    for old, new in replaced.items():
        made = made.replace(old, new)
    return made


def _change_function(
    node: Function, twin: Twin, parents: Mapping[ast.AST, ast.AST], edits: _Edits, dropped: list[Function]
) -> None:
    owner = parents[node]
    waits = twin.waits(node) or (node.name == "__enter__" and _has_waiting_exit(owner, twin))
    if not waits:
        return
    if node.name in SHOWN:
        first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
        edits.drop(first, node.end_lineno or first)
        dropped.append(node)
        return
    edits.swap(node.lineno, node.col_offset, "def ", "async def ")
    if node.name in RENAMED:
        edits.swap(node.lineno, node.col_offset + len("def "), node.name, RENAMED[node.name])
    for one in node.decorator_list:
        if ast.unparse(one) == "property":
            # What has to be waited for is a method.
            edits.drop(one.lineno, one.lineno)
    if is_generator(node) and node.returns is not None:
        edits.swap(node.returns.lineno, node.returns.col_offset, "Iterator", "AsyncIterator")


def _has_waiting_exit(owner: ast.AST, twin: Twin) -> bool:
    inside = owner.body if isinstance(owner, ast.ClassDef) else []
    return any(isinstance(one, Function) and one.name == "__exit__" and twin.waits(one) for one in inside)


def _is_inside(node: ast.AST, outer: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> bool:
    while node is not outer and node in parents:
        node = parents[node]
    return node is outer


def _change_with(node: ast.With, twin: Twin, edits: _Edits) -> None:
    first = node.items[0].context_expr
    if ast.unparse(first) in LOCKS or twin.is_awaited(first):
        edits.put(node.lineno, node.col_offset, "async ")


def _await(node: ast.Call, parents: Mapping[ast.AST, ast.AST], edits: _Edits) -> None:
    parent = parents[node]
    is_part = isinstance(parent, ast.Attribute | ast.Subscript) or (
        isinstance(parent, ast.Call) and parent.func is node
    )
    edits.put(node.lineno, node.col_offset, "(await " if is_part else "await ")
    if is_part:
        edits.put(node.end_lineno or node.lineno, node.end_col_offset or 0, ")")
