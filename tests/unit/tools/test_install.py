"""How a new environment is made: what is shown meanwhile, and what installs."""

from __future__ import annotations

import importlib.util
import io
from pathlib import Path
from types import ModuleType

import pytest
from tests.guards.layout import ROOT


@pytest.fixture(scope="module")
def installer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tools_install", ROOT / "tools" / "install.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Terminal(io.StringIO):
    """A terminal that keeps what was written."""

    def isatty(self) -> bool:
        return True


def steps_shown(installer: ModuleType, out: io.StringIO) -> str:
    """Tell a thousand downloads, of which each takes a tenth of a second."""
    now = iter(range(10_000))
    progress = installer.Progress(out, clock=lambda: next(now) / 10)
    for number in range(1_000):
        progress.step(f"Downloading part-{number} (3.0MiB)\n")
        progress.step(f" + part-{number}==1.0\n")
    progress.end("installed")
    return out.getvalue()


def test_a_log_gets_a_line_now_and_then(installer: ModuleType):
    lines = steps_shown(installer, io.StringIO()).splitlines()
    assert 10 <= len(lines) <= 25
    assert "Downloading part-0 (3.0MiB)" in lines[0]
    assert lines[-1].endswith("installed")
    assert not any("\r" in line or "==" in line for line in lines)


def test_a_terminal_gets_one_line_that_changes(installer: ModuleType):
    shown = steps_shown(installer, Terminal())
    assert shown.count("\n") == 1
    assert "Downloading part-999" in shown


def environment_where(tmp_path: Path, works: str) -> Path:
    """Make an environment whose Python writes down what it is asked for, and does nothing but what ``works``."""
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\necho "Resolved by $2"\n'
        f'case "$2 $*" in {works}) exit 0;; *) echo "no index here"; exit 3;; esac\n',
        encoding="utf-8",
    )
    python.chmod(0o755)
    return python.parents[1]


@pytest.mark.parametrize(
    ("works", "by"), [("*", ["pip", "uv"]), ("pip*", ["pip", "uv", "pip"])], ids=["with uv", "with pip where uv fails"]
)
def test_the_project_is_installed_with_its_extras_and_the_lock(
    installer: ModuleType, tmp_path: Path, works: str, by: list[str]
):
    out = io.StringIO()
    assert installer.install(environment_where(tmp_path, works), "server,spark", out) == 0
    asked = (tmp_path / "asked").read_text(encoding="utf-8").splitlines()
    assert [line.split()[1] for line in asked] == by
    assert asked[-1].endswith("--constraint constraints.txt --editable .[server,spark]")
    assert out.getvalue().endswith("installed\n")


def test_uv_looks_where_pip_is_told_to_look(installer: ModuleType, monkeypatch: pytest.MonkeyPatch):
    for name in ("UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", "https://one.example/simple")
    monkeypatch.setenv("PIP_FIND_LINKS", "wheels more-wheels")
    assert installer.places() == {"UV_INDEX_URL": "https://one.example/simple", "UV_FIND_LINKS": "wheels,more-wheels"}
    monkeypatch.setenv("UV_INDEX_URL", "https://two.example/simple")
    assert "UV_INDEX_URL" not in installer.places()


def test_the_last_words_of_an_installer_that_fails_are_shown(installer: ModuleType, tmp_path: Path):
    out = io.StringIO()
    assert installer.install(environment_where(tmp_path, "nothing"), "dev", out) == 3
    assert "no index here" in out.getvalue()
