"""The distribution: its name and version stand in one place, and whoever is told to install something can."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph import __version__
from omnigraph.distribution import DISTRIBUTION, VERSION, pip_install
from omnigraph.values import formats
from tests.guards.layout import ROOT, SOURCE, settings, source_files, tree

HOME = SOURCE / "distribution.py"
EXTRAS = set(settings()["project"]["optional-dependencies"])
# A requirement with extras: of a distribution, or of the folder that pip is started in.
_WITH_EXTRAS = re.compile(r"(?<![\w.'/*-])'?\"?(\.|omnigraph[\w-]*)\[([a-z][a-z, -]*)\]")
_FOLDERS = (".ci", "bench", "docs", "examples", "src", "tests", "tools")


def texts() -> list[Path]:
    """Every file that may tell somebody to install an extra."""
    found = [path for folder in _FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    kinds = {".md", ".py", ".toml", ".yaml", ".yml", ".txt", ".golden", ".pg", ".gq", ".sh", ""}
    top = [path for path in ROOT.iterdir() if path.is_file() and path.name != ".git"]
    return sorted({path for path in [*top, *found] if path.suffix in kinds and "__pycache__" not in path.parts})


def test_every_text_that_names_an_extra_names_one_of_this_distribution():
    wrong: list[str] = []
    seen: set[str] = set()
    for path in texts():
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
            for distribution, extras in _WITH_EXTRAS.findall(line):
                named = {extra.strip() for extra in extras.split(",")}
                seen |= named
                if distribution not in {".", DISTRIBUTION} or not named <= EXTRAS:
                    wrong.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert wrong == []
    installed = re.findall(r"install\.py \$\(VENV\) ([a-z,-]+)", (ROOT / "Makefile").read_text(encoding="utf-8"))
    seen |= {extra for extras in installed for extra in extras.split(",")}
    assert seen >= {"spark", "server", "client", "mcp", "dev"}
    assert seen <= EXTRAS


def test_hints_take_the_name_from_its_one_place_and_name_extras_that_exist():
    """What code says to install is made by one function, from literal names."""
    told: set[str] = set()
    for path in source_files():
        for node in ast.walk(tree(path)):
            if path != HOME and isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert DISTRIBUTION not in node.value, path
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == pip_install.__name__:
                told.update(str(ast.literal_eval(argument)) for argument in node.args)
    assert told <= EXTRAS
    # Extras that no code can miss: what brings others, and what only people or a workbench install.
    assert EXTRAS - told == {"all", "bench", "dev", "docs"}


def test_a_command_that_installs_can_be_pasted_into_a_shell():
    assert pip_install("spark", "resolve") == f"pip install '{DISTRIBUTION}[spark,resolve]'"


def test_name_and_version_of_the_build_are_those_of_the_code():
    project = settings()["project"]
    assert project["name"] == DISTRIBUTION
    assert ("version" not in project, project["dynamic"]) == (True, ["version"])
    taken = settings()["tool"]["hatch"]["version"]
    assert ROOT / taken["path"] == HOME
    found = re.search(taken["pattern"], HOME.read_text(encoding="utf-8"))
    assert found is not None
    assert found["version"] == VERSION == __version__


def test_the_changelog_tells_the_versions_of_this_release():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    release = text[text.index("\n## ") :].partition("\n### ")[0]
    assert release.lstrip().splitlines()[0] == f"## [{VERSION}]"
    told = dict(re.findall(r"^\| (.+?) \| ([^|]+?) \|", release, re.MULTILINE))
    assert told["storage format of new graphs"] == str(formats.STORAGE_FORMAT)
    assert f"format {formats.OLDEST_STORAGE_FORMAT} is read" in release
    assert told["wire format between client and server"] == str(formats.WIRE_VERSION)
    assert told["[schema language](docs/user/schema-language.md)"] == str(formats.SCHEMA_LANGUAGE)
    assert told["[query language](docs/user/query-language.md)"] == str(formats.QUERY_LANGUAGE)
    assert told["Python"] == settings()["project"]["requires-python"].removeprefix(">=") + " or newer"


def installed_beside(site: Path, stranger: str) -> Path:
    """Lay out a folder of installed packages: this one, and what an installer writes about another distribution."""
    # Only what is loaded before anything can be asked for: the whole package is megabytes.
    (site / "omnigraph").mkdir(parents=True)
    for name in ("__init__.py", HOME.name):
        shutil.copy(SOURCE / name, site / "omnigraph" / name)
    about = site / stranger
    about.mkdir()
    name, _, version = stranger.removesuffix(".dist-info").partition("-")
    (about / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    (about / "RECORD").write_text(f"omnigraph/__init__.py,,\n{stranger}/METADATA,,\n", encoding="utf-8")
    return site


def said_by(site: Path, code: str) -> str:
    """Return what a process writes to standard error that imports from ``site``."""
    command = [sys.executable, "-S", "-c", f"import sys; sys.path.insert(0, {str(site)!r})\n{code}"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stderr


def test_the_other_project_of_the_same_name_is_reported_in_one_sentence(tmp_path: Path):
    site = installed_beside(tmp_path / "site", "omnigraph-0.3.1.dist-info")
    sentence = (
        f"omnigraph 0.3.1 and {DISTRIBUTION} are installed together and overwrite files of each other: "
        f"run `pip uninstall omnigraph`, then `pip install --force-reinstall {DISTRIBUTION}`"
    )
    assert said_by(site, "import omnigraph").count(f"RuntimeWarning: {sentence}\n") == 1


def test_the_other_project_is_reported_by_the_command_when_it_was_installed_last(tmp_path: Path):
    site = installed_beside(tmp_path / "site", "omnigraph-0.3.1.dist-info")
    (site / "omnigraph" / "__init__.py").write_text("", encoding="utf-8")
    assert "omnigraph 0.3.1 and" in said_by(site, "import omnigraph.distribution")
    names = {alias.name for node in ast.walk(tree(SOURCE / "cli" / "main.py")) for alias in getattr(node, "names", [])}
    assert "VERSION" in names


@pytest.mark.parametrize("beside", [f"{DISTRIBUTION}-{VERSION}.dist-info", "omnigraph_sdk-1.0.dist-info"])
def test_nothing_is_said_beside_other_distributions(tmp_path: Path, beside: str):
    assert said_by(installed_beside(tmp_path / "site", beside), "import omnigraph") == ""


def test_a_package_inside_an_archive_has_nothing_beside_it(tmp_path: Path):
    site = installed_beside(tmp_path / "site", "omnigraph-0.3.1.dist-info")
    archive = shutil.make_archive(str(tmp_path / "package"), "zip", site)
    assert said_by(Path(archive), "import omnigraph") == ""
