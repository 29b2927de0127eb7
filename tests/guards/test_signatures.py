"""The public API takes what ``signatures.txt`` says: a change of a signature is one that its commit shows.

``python -m tests.guards.test_signatures`` writes the list anew; then read the difference.
"""

import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

LISTED = Path(__file__).with_name("signatures.txt")
# The packages whose names people import.
PUBLIC = (
    "omnigraph",
    "omnigraph.aio",
    "omnigraph.spark",
    "omnigraph.spark.algorithms",
    "omnigraph.pipelines",
    "omnigraph.testing.histories",
)


def _exported(package: str) -> Iterator[tuple[str, object]]:
    module = import_module(package)
    names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    for name in sorted(names):
        value = getattr(module, name)
        if not inspect.ismodule(value) and getattr(value, "__module__", package).startswith("omnigraph"):
            yield f"{package}.{name}", value


def _members(name: str, value: object) -> Iterator[str]:
    if not isinstance(value, type):
        yield f"{name}{inspect.signature(value)}" if callable(value) else name
        return
    yield f"class {name}{_parameters(value)}"
    for member in sorted(dir(value)):
        found = inspect.getattr_static(value, member)
        if member.startswith("_") or not _is_ours(value, member):
            continue
        if isinstance(found, classmethod | staticmethod) or inspect.isfunction(found):
            function = found if inspect.isfunction(found) else found.__func__
            kind = "async " if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function) else ""
            yield f"{name}.{member}: {kind}{inspect.signature(function)}"
        else:
            yield f"{name}.{member}"


def _is_ours(value: type, member: str) -> bool:
    return any(member in vars(base) and base.__module__.startswith("omnigraph") for base in value.__mro__)


def _parameters(value: type) -> str:
    try:
        return str(inspect.signature(value))
    except ValueError:
        return ""


def _signatures() -> Iterator[str]:
    for package in PUBLIC:
        for name, value in _exported(package):
            yield from _members(name, value)


def test_signatures_of_public_names_are_those_of_the_list():
    assert list(_signatures()) == LISTED.read_text(encoding="utf-8").splitlines(), (
        "run python -m tests.guards.test_signatures, and say in the changelog what callers have to change"
    )


if __name__ == "__main__":
    LISTED.write_text("".join(f"{line}\n" for line in _signatures()), encoding="utf-8")
