"""Runs omnigraph the way people do: as a process of its own."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.warm import run_warm

ROOT = Path(__file__).parents[2]
PEOPLE = ROOT / "examples" / "people"
CLUB = ROOT / "examples" / "harbour"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a process left behind."""

    code: int
    out: str
    err: str


def clean_environment(**extra: str) -> dict[str, str]:
    """The environment of this process without what could change how a command answers."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("OMNIGRAPH", "PYTHON", "COLUMNS"))
    }
    # No command of a test reads anybody's config.
    return {**kept, "COLUMNS": "80", "OMNIGRAPH_HOME": "nobody", **extra}


def omnigraph(*arguments: str, cwd: Path, stdin: str | bytes = b"", **environment: str) -> Outcome:
    """Run ``omnigraph`` with these arguments."""
    finished = run_warm(
        "omnigraph",
        arguments,
        cwd=cwd,
        env=clean_environment(**environment),
        stdin=stdin.encode() if isinstance(stdin, str) else stdin,
    )
    return Outcome(code=finished.returncode, out=finished.stdout.decode(), err=finished.stderr.decode())


def copy_people(target: Path) -> Path:
    """Copy the example domain below ``target`` and return the copy."""
    return Path(shutil.copytree(PEOPLE, target / "people"))


def copy_club(target: Path) -> Path:
    """Copy the example of the query language below ``target`` and return the copy."""
    return Path(shutil.copytree(CLUB, target / "harbour"))
