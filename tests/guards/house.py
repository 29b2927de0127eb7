"""Measures how hard the source tree is to walk: its files, its imports, and what one request crosses.

``python tests/guards/house.py`` prints a table about this tree, ``python tests/guards/house.py PATH`` about the one
whose ``src`` is at ``PATH``, so that two commits can be compared. ``--list`` names what was counted; ``--spark`` adds a
small load on Spark, as far as the process that drives it takes part.

What a request crosses is counted after it has run once, so that importing modules and filling caches is no part of
it: files of the package in which a function ran, functions that ran, and the deepest stack of them, on any thread.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import os
import statistics
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

PACKAGE = "omnigraph"
RUNS = 3
SCHEMA = """\
node Person {
    slug: String @key
    name: String
}
"""
INSERT = "query add($slug: String, $name: String) { insert Person { slug: $slug, name: $name } }"
POINT = "query one($slug: String) { match { $p: Person { slug: $slug } } return { $p.name } }"


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A file of the package.

    ``loads`` are the modules that it imports when it runs, at its top or in a function; ``uses`` are those that define
    what it imports, for type checkers too.
    """

    name: str
    path: Path
    loads: frozenset[str]
    uses: frozenset[str]

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"


@dataclass(slots=True)
class Crossing:
    """What one request crosses."""

    files: set[str] = field(default_factory=set)
    functions: set[CodeType] = field(default_factory=set)
    frames: int = 0


def read_modules(source: Path) -> dict[str, Module]:
    """Return every module of the package below ``source``, by name."""
    paths = {_module_name(path, source): path for path in sorted((source / PACKAGE).rglob("*.py"))}
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in paths.items()}
    exports = {name: _exports(name, trees) for name, path in paths.items() if path.name == "__init__.py"}
    found = {}
    for name, path in paths.items():
        imports = list(_imports(trees[name], set(paths)))
        found[name] = Module(
            name=name,
            path=path,
            loads=frozenset(module for module, _, is_run in imports if is_run) - {name},
            uses=frozenset(_defined_in(module, item, exports) for module, item, _ in imports) - {name},
        )
    return found


def find_cycles(modules: Mapping[str, Module]) -> list[tuple[str, ...]]:
    """Return every group of modules that import each other, in a circle of any length (Tarjan's algorithm)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    cycles: list[tuple[str, ...]] = []

    def visit(name: str) -> None:
        number[name] = lowest[name] = len(number)
        stack.append(name)
        for target in sorted(modules[name].loads):
            if target not in number:
                visit(target)
            if target in stack:
                lowest[name] = min(lowest[name], lowest[target])
        if lowest[name] == number[name]:
            at = stack.index(name)
            group, stack[at:] = tuple(stack[at:]), []
            if len(group) > 1:
                cycles.append(group)

    for name in modules:
        if name not in number:
            visit(name)
    return cycles


def importers(modules: Mapping[str, Module]) -> dict[str, list[str]]:
    """Return who imports each module, re-exports aside."""
    users: dict[str, list[str]] = {name: [] for name, module in modules.items() if not module.is_package}
    for module in modules.values():
        for target in module.uses:
            if target in users and not module.is_package:
                users[target].append(module.name)
    return users


def layout_rows(source: Path) -> Iterator[tuple[str, str]]:
    """Yield what can be said of the tree without running it."""
    modules = read_modules(source)
    lengths = [module.path.read_text(encoding="utf-8").count("\n") for module in modules.values()]
    users = importers(modules)
    alone = [(name, found[0]) for name, found in users.items() if len(found) == 1]
    siblings = [name for name, user in alone if name.rpartition(".")[0] == user.rpartition(".")[0]]
    yield "files", f"{len(modules)}"
    yield "lines", f"{sum(lengths)}"
    yield "lines of a file, median", f"{statistics.median(lengths):.0f}"
    yield "lines of a file, 90th percentile", f"{statistics.quantiles(lengths, n=10)[-1]:.0f}"
    yield "modules with one importer", f"{len(alone)}"
    yield "  which is in the same folder", f"{len(siblings)}"
    yield "import cycles", f"{len(find_cycles(modules))}"


class Tracer:
    """Counts what runs below a folder, on every thread that starts after it."""

    def __init__(self, source: Path) -> None:
        self._root = f"{source / PACKAGE}{os.sep}"
        self._crossing: Crossing | None = None
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    def measure(self, request: Callable[[], object]) -> Crossing:
        """Return what a request crosses when everything that it needs is loaded.

        The least of several runs: a thread that still ends what an earlier request began is none of its business.
        """
        request()
        return min((self._run(request) for _ in range(RUNS)), key=lambda found: len(found.functions))

    def _run(self, request: Callable[[], object]) -> Crossing:
        self._crossing = found = Crossing()
        try:
            request()
        finally:
            self._crossing = None
        return found

    def close(self) -> None:
        threading.setprofile(None)
        sys.setprofile(None)

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        found = self._crossing
        if found is None or event != "call" or not self._is_ours(frame):
            return
        found.files.add(frame.f_code.co_filename)
        # Lambdas and comprehensions are read where they stand, in the function around them.
        if not frame.f_code.co_name.startswith("<"):
            found.functions.add(frame.f_code)
        depth, above = 0, frame
        while above is not None:
            depth += self._is_ours(above)
            above = above.f_back  # type: ignore[assignment]  # None ends the loop
        found.frames = max(found.frames, depth)

    def _is_ours(self, frame: FrameType) -> bool:
        # Bodies of modules and classes run once, when they are imported.
        code = frame.f_code
        return code.co_filename.startswith(self._root) and bool(code.co_flags & 0x2)


def crossing_rows(source: Path, *, with_spark: bool) -> Iterator[tuple[str, Crossing]]:
    """Yield what single requests cross, on a small graph of their own."""
    sys.path.insert(0, str(source))
    tracer = Tracer(source)
    try:
        with tempfile.TemporaryDirectory() as folder:
            yield from _crossings(Path(folder), tracer, with_spark=with_spark)
    finally:
        tracer.close()
        sys.path.remove(str(source))


def _crossings(folder: Path, tracer: Tracer, *, with_spark: bool) -> Iterator[tuple[str, Crossing]]:
    import omnigraph  # noqa: PLC0415 - of the tree that is asked about

    # What the person at this machine has configured is no part of the house.
    os.environ["OMNIGRAPH_HOME"] = str(folder)
    place = str(folder / "g.omni")
    slugs = iter(f"p{number}" for number in range(100))

    def params() -> dict[str, str]:
        slug = next(slugs)
        return {"slug": slug, "name": slug.upper()}

    with omnigraph.init(place, SCHEMA) as graph:
        graph.mutate(INSERT, params())
    mutate = ("mutate", "--store", place, "-e", INSERT)
    query = ("query", "--store", place, "-e", POINT, "--param", "slug=p0")
    yield "insert, command", tracer.measure(lambda: _command(*mutate, *_options(params())))
    yield "point query, command", tracer.measure(lambda: _command(*query))
    with omnigraph.open(place) as graph:
        yield "insert, open graph", tracer.measure(lambda: graph.mutate(INSERT, params()))
        yield "point query, open graph", tracer.measure(lambda: list(graph.query(POINT, {"slug": "p0"})))
        if with_spark:
            yield "Spark load, open graph", _spark_load(graph, folder, tracer)


def _spark_load(graph: Any, folder: Path, tracer: Tracer) -> Crossing:
    from omnigraph.spark import load, session, stop  # noqa: PLC0415 - slow, and only when asked for

    started = session(master="local[2]", log=folder / "spark.log")
    rows = folder / "rows.jsonl"
    numbers = iter(range(10))

    def request() -> None:
        name = f"s{next(numbers)}"
        rows.write_text(f'{{"type": "Person", "data": {{"slug": "{name}", "name": "{name}"}}}}\n', encoding="utf-8")
        load(graph, [str(rows)], spark=started)

    try:
        return tracer.measure(request)
    finally:
        stop(started)


def _options(params: Mapping[str, str]) -> list[str]:
    return [text for name, value in params.items() for text in ("--param", f"{name}={value}")]


def _command(*arguments: str) -> None:
    from omnigraph.cli.main import main  # noqa: PLC0415 - of the tree that is asked about

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as told:
        try:
            main(list(arguments))
        except SystemExit as ending:
            if ending.code:
                raise RuntimeError(told.getvalue()) from ending


def _module_name(path: Path, source: Path) -> str:
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(tree: ast.Module, known: set[str]) -> Iterator[tuple[str, str, bool]]:
    """Yield each module that is imported, the name taken from it, and whether more than type checkers import it."""
    pending: list[tuple[ast.AST, bool]] = [(tree, True)]
    while pending:
        node, is_run = pending.pop()
        if isinstance(node, ast.Import):
            yield from ((alias.name, "", is_run) for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if whole in known:
                    yield whole, "", is_run
                elif node.module in known:
                    yield node.module, alias.name, is_run
        below = is_run and not _is_for_types(node)
        pending.extend((child, below) for child in _statements_in(node))


def _statements_in(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements of a block, and what holds more of them; imports are nowhere else."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        block = getattr(node, name, ())
        if isinstance(block, list):
            yield from block


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def _exports(package: str, trees: Mapping[str, ast.Module]) -> dict[str, tuple[str, str]]:
    """Return where the names of a package come from."""
    names: dict[str, tuple[str, str]] = {}
    for node in ast.walk(trees[package]):
        if isinstance(node, ast.ImportFrom) and node.module in trees:
            for alias in node.names:
                brought = _defined(trees[node.module]) if alias.name == "*" else [alias.name]
                names |= {alias.asname or name: (node.module, name) for name in brought}
    return names


def _defined(tree: ast.Module) -> list[str]:
    names = [node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    return [
        *names,
        *(
            node.target.id
            for node in tree.body
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        ),
    ]


def _defined_in(module: str, name: str, exports: Mapping[str, Mapping[str, tuple[str, str]]]) -> str:
    while name in exports.get(module, {}):
        module, name = exports[module][name]
    return module


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Measure how hard the source tree is to walk.")
    parser.add_argument("source", nargs="?", type=Path, default=Path(__file__).parents[2] / "src")
    parser.add_argument("--spark", action="store_true", help="also a small load on Spark")
    parser.add_argument("--list", action="store_true", help="name the modules with one importer, and the files crossed")
    options = parser.parse_args(arguments)
    source = options.source.resolve()
    for what, value in layout_rows(source):
        print(f"{what:<34}{value:>8}")
    if options.list:
        for name, found in sorted(importers(read_modules(source)).items()):
            if len(found) == 1:
                print(f"  {name} <- {found[0]}")
    print(f"\n{'crossed by one':<34}{'files':>8}{'functions':>11}{'frames':>8}")
    for what, found in crossing_rows(source, with_spark=options.spark):
        print(f"{what:<34}{len(found.files):>8}{len(found.functions):>11}{found.frames:>8}", flush=True)
        for path in sorted(found.files) if options.list else ():
            print(f"  {Path(path).relative_to(source)}")


if __name__ == "__main__":
    main()
