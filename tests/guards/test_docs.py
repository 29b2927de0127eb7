"""The documents agree with the code and with each other."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from omnigraph.errors import BY_CODE
from tests.guards.layout import ROOT, SOURCE, rooms

PAGES = sorted(
    path
    for path in ROOT.rglob("*.md")
    if not {".venv", ".git", "node_modules", ".pytest_cache", ".hypothesis", "build", "dist"} & set(path.parts)
)
_LINK = re.compile(r"\]\((?!https?://)([^)#\s]*)(?:#([^)]*))?\)")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
# A path in backticks: of a file with a known ending, or of a folder or module below one that is written out.
_PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:py|lark|md|toml))`")
_MAPS = [
    ROOT / "AGENTS.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs" / "dev").glob("*.md")),
    *sorted(SOURCE.glob("*/README.md")),
]
# Paths that exist on one machine only.
_MACHINE_PATH = re.compile(r"(?<![\w.<])/(?:home|Users|root|work|tmp|private|mnt)/")


def script(name: str) -> ModuleType:
    """Return a script of the documentation as a module."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_pages_are_up_to_date():
    """Run ``.venv/bin/python docs/generate.py`` when this fails."""
    pages = script("generate").PAGES
    assert [page.name for page, text in pages.items() if page.read_text(encoding="utf-8") != text()] == []


def test_every_error_code_stands_on_the_errors_page():
    page = (ROOT / "docs" / "user" / "errors.md").read_text(encoding="utf-8")
    assert [code for code in BY_CODE if f"| `{code}` |" not in page] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_has_no_dead_link_and_no_path_of_a_machine(page: Path):
    text = page.read_text(encoding="utf-8")
    links = _LINK.findall(text)
    assert [target for target, _ in links if not (page.parent / target).exists()] == []
    anchored = [(target, anchor) for target, anchor in links if anchor]
    assert [link for link in anchored if link[1] not in anchors(page.parent / link[0] if link[0] else page)] == []
    assert _MACHINE_PATH.findall(text) == []


@cache
def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as Markdown makes them from their texts."""
    headings = re.findall(r"^#+ (.*)$", _FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in plain}


def test_sources_name_no_path_of_a_machine():
    folders = ("src", "tests", "examples", "bench", "docs")
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    assert len(files) > 50
    this_machine = str(ROOT)
    assert [str(path) for path in files if this_machine in path.read_text(encoding="utf-8")] == []


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "AGENTS.md", "docs/dev/architecture.md"])
def test_maps_name_every_room(page: str):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [room for room in rooms() if not re.search(rf"(?m)(?:^|`|omnigraph/){room}\b", text)] == []


@pytest.mark.parametrize("page", _MAPS, ids=lambda page: str(page.relative_to(ROOT)))
def test_maps_name_only_files_that_exist(page: Path):
    """A path is relative to the repository, to the package, to the page's own room, or to the path before it."""
    missing = []
    for line in page.read_text(encoding="utf-8").splitlines():
        places = [ROOT, SOURCE, page.parent]
        for name in _PATH.findall(line):
            found = [place / name for place in places if (place / name).exists() or (place / f"{name}.py").exists()]
            if found:
                places += [place for place in (found[0], found[0].parent) if place.is_dir() and place not in places]
            else:
                missing.append(name)
    assert missing == []


def test_documents_name_only_commands_that_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    used = {target for page in PAGES for target in re.findall(r"`make ([a-z-]+)", page.read_text(encoding="utf-8"))}
    assert used - targets == set()


def test_continuous_integration_runs_what_the_readme_promises():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    steps = set(re.findall(r"^step make ([a-z-]+)$", run, re.MULTILINE))
    assert steps <= targets
    promised = set(re.findall(r"^make ([a-z-]+)$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE))
    # A server runs until somebody ends it; its check starts it, asks it and ends it.
    assert promised - {"serve"} | targets & {"serve-check"} <= steps
