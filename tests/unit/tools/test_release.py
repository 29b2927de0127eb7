"""What the check of a release finds: planted faults, and nothing in what is as it should be."""

from __future__ import annotations

import importlib.util
import json
import sys
from email.message import Message
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from tests.guards.layout import ROOT

COMMITTED = {
    *("src/omnigraph/__init__.py", "src/omnigraph/py.typed", "pyproject.toml", "LICENSE", "README.md"),
    "tests/test_it.py",
}
ABOUT = "omnigraphdb-1.0.dist-info"
WHEEL = {
    *("omnigraph/__init__.py", "omnigraph/py.typed", f"{ABOUT}/METADATA", f"{ABOUT}/RECORD", f"{ABOUT}/WHEEL"),
    *(f"{ABOUT}/entry_points.txt", f"{ABOUT}/licenses/LICENSE"),
}


@pytest.fixture(scope="module")
def release() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tools_release", ROOT / "tools" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def told(**changed: str | list[str] | None) -> Message:
    """The metadata of a release, with some fields changed."""
    fields: dict[str, str | list[str] | None] = {
        "Name": "omnigraphdb",
        "Version": "1.0",
        "Summary": "a graph",
        "License-Expression": "Apache-2.0",
        "License-File": "LICENSE",
        "Requires-Python": ">=3.11",
        "Keywords": "graph",
        "Description-Content-Type": "text/markdown",
        "Classifier": [
            *("Development Status :: 3 - Alpha", "Intended Audience :: Developers", "Typing :: Typed"),
            *("Programming Language :: Python :: 3", "Topic :: Database"),
        ],
        "Requires-Dist": ["lark>=1.2", "omnigraphdb[client]; extra == 'server'", "kuzu>=0.11; extra == 'bench'"],
        "Provides-Extra": ["bench", "server"],
    }
    made = Message()
    for name, value in {**fields, **{name.replace("_", "-"): value for name, value in changed.items()}}.items():
        for text in [value] if isinstance(value, str) else value or []:
            made[name] = text
    made.set_payload("# A graph")
    return made


def test_a_build_that_comes_out_otherwise_is_found(release: ModuleType, tmp_path: Path):
    first, second = tmp_path / "1" / "a.whl", tmp_path / "2" / "a.whl"
    for path, data in ((first, b"one"), (second, b"two")):
        path.parent.mkdir()
        path.write_bytes(data)
    assert release.differences([first], [second]) == ["a.whl: two builds differ"]
    assert release.differences([first], []) == ["a.whl: two builds differ"]
    assert release.differences([first], [first]) == []


@pytest.mark.parametrize(
    ("more", "less", "fault"),
    [
        ({"omnigraph/notes.txt"}, set(), "wheel: omnigraph/notes.txt is not a committed file of the package"),
        ({"tests/test_it.py"}, set(), "wheel: tests/test_it.py is not a committed file of the package"),
        (set(), {"omnigraph/py.typed"}, "wheel: omnigraph/py.typed is missing"),
        (set(), {f"{ABOUT}/licenses/LICENSE"}, "wheel: .dist-info/licenses/LICENSE is missing"),
        ({f"{ABOUT}/top_level.txt"}, set(), f"wheel: {ABOUT}/top_level.txt does not belong there"),
    ],
)
def test_a_stray_or_missing_file_of_the_wheel_is_found(release: ModuleType, more, less, fault: str):
    assert fault in list(release.wheel_faults((WHEEL | more) - less, COMMITTED))


def test_a_wheel_and_an_sdist_of_what_is_committed_are_right(release: ModuleType):
    assert list(release.wheel_faults(WHEEL, COMMITTED)) == []
    names = {f"omnigraphdb-1.0/{name}" for name in COMMITTED - {"tests/test_it.py"} | {"PKG-INFO"}}
    assert list(release.sdist_faults(names, COMMITTED)) == []
    found = set(release.sdist_faults(names | {"o/tests/test_it.py", "o/key.pem"} - {"o/LICENSE"}, COMMITTED))
    assert found == {
        "sdist: key.pem is not a committed file",
        "sdist: tests/test_it.py is not needed to build or use the package",
    }
    assert "sdist: LICENSE is missing" in set(release.sdist_faults(names - {"omnigraphdb-1.0/LICENSE"}, COMMITTED))


@pytest.mark.parametrize(
    ("field", "value", "fault"),
    [
        ("License_Expression", None, "metadata: no License-Expression"),
        ("Classifier", ["License :: OSI Approved"], "metadata: a classifier of the licence beside its expression"),
        ("Classifier", [], "metadata: no classifier Typing"),
        ("Requires_Dist", ["lark<2"], "metadata: lark<2 has no lower bound"),
        ("Description_Content_Type", None, "metadata: no description"),
    ],
)
def test_metadata_that_lack_something_are_found(release: ModuleType, field: str, value, fault: str):
    assert list(release.metadata_faults(told())) == []
    assert fault in list(release.metadata_faults(told(**{field: value})))


@pytest.mark.parametrize(
    ("licence", "allowed"),
    [
        *(("MIT", True), ("Apache-2.0 OR GPL-3.0-only", True), ("MIT AND Zlib", True)),
        *(("GPL-3.0-only", False), ("MIT AND GPL-3.0-only", False), ("", False)),
    ],
)
def test_a_licence_that_is_not_allowed_is_found(release: ModuleType, licence: str, *, allowed: bool):
    item = release.Needed("some", "1", licence, frozenset())
    assert (list(release.licence_faults([item])) == []) == allowed


def test_an_exception_that_nothing_needs_any_more_is_found(release: ModuleType):
    item = release.Needed("igraph", "1", "MIT", frozenset())
    assert list(release.licence_faults([item])) == ["igraph: needs no exception"]


def test_what_is_needed_comes_from_metadata_and_must_be_as_locked(release: ModuleType):
    needed, faults = release.closure([Requirement("pydantic>=2")], {})
    assert {"pydantic", "pydantic-core", "typing-extensions"} <= {item.name for item in needed}
    assert any(fault.startswith("pydantic-core ") for fault in faults)
    _, faults = release.closure([Requirement("pydantic>=2")], {item.name: item.version for item in needed})
    assert faults == []
    assert release.closure([Requirement("no-such-thing")], {})[1] == ["no-such-thing is not installed here"]


def test_a_release_asks_for_what_users_can_install(release: ModuleType):
    assert [requirement.name for requirement in release.released(told())] == ["lark"]


def test_the_bill_of_materials_is_the_same_for_the_same_lock_and_fits_its_schema(release: ModuleType):
    needed, _ = release.closure([Requirement("lark"), Requirement("pydantic")], {})
    texts = {release.bill_of_materials(told(), needed, 1_700_000_000) for _ in range(2)}
    assert len(texts) == 1
    bom = json.loads(texts.pop())
    assert {part["name"] for part in bom["components"]} == {item.name for item in needed}
    (direct,) = [item["dependsOn"] for item in bom["dependencies"] if item["ref"].startswith("pkg:pypi/omnigraphdb@")]
    assert [reference.split("@")[0] for reference in direct] == ["pkg:pypi/lark"]
    assert release.sbom_faults(json.dumps(bom)) == []
    del bom["components"][0]["name"]
    assert release.sbom_faults(json.dumps(bom)) != []


def test_the_lock_is_whole(release: ModuleType):
    """What is installed from it has no version that it does not name."""
    requirements = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    lock = release.locked((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    assert f"hatchling=={lock['hatchling']}" in requirements
    roots = [Requirement(text) for text in release.metadata.requires("omnigraphdb") or []]
    roots = [root for root in roots if root.marker is None or root.marker.evaluate({"extra": "dev"})]
    assert release.closure([root for root in roots if root.name != "omnigraphdb"], lock)[1] == []
