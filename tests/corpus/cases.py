"""Reads the text cases of the corpus.

A ``.case`` file holds one or more cases, separated by a line ``=====``. A case is a ``# title`` line followed by
sections: a line ``--- name`` opens one, and everything up to the next such line is its text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_SEPARATOR = re.compile(r"^=====[ \t]*$\n?", re.MULTILINE)
_SECTION = re.compile(r"^--- ([a-z][a-z0-9_-]*)[ \t]*$\n?", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case; a section's text keeps its line breaks, less the blank lines around it."""

    id: str
    title: str
    sections: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """An ``expect`` section: its first line is the verdict, ``name: value`` lines follow and may repeat."""

    verdict: str
    claims: tuple[tuple[str, str], ...]

    def all(self, name: str) -> list[str]:
        """Return every value claimed under ``name``, in order."""
        return [value for claimed, value in self.claims if claimed == name]


def load_cases(folder: Path) -> list[Case]:
    """Read every case below ``folder``, in file order; ids are ``file-number-title``."""
    return [case for path in sorted(folder.glob("*.case")) for case in read_cases(path)]


def read_cases(path: Path) -> list[Case]:
    """Read the cases of one file."""
    chunks = [chunk for chunk in _SEPARATOR.split(path.read_bytes().decode()) if chunk.strip()]
    return [_read_case(path, number, chunk) for number, chunk in enumerate(chunks, start=1)]


def read_expectation(text: str) -> Expectation:
    """Read an ``expect`` section."""
    verdict, *claims = [line.strip() for line in text.splitlines() if line.strip()]
    pairs = (claim.partition(":") for claim in claims)
    return Expectation(verdict=verdict, claims=tuple((name.strip(), value.strip()) for name, _, value in pairs))


def _read_case(path: Path, number: int, chunk: str) -> Case:
    head, *rest = _SECTION.split(chunk)
    title = head.strip().lstrip("# ").splitlines()[0] if head.strip() else ""
    if not title or not rest:
        msg = f"{path}: case {number} needs a title line and a section"
        raise ValueError(msg)
    sections = {name: _trim(text) for name, text in zip(rest[::2], rest[1::2], strict=True)}
    slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60]
    return Case(id=f"{path.stem}-{number:02}-{slug}", title=title, sections=sections)


def _trim(text: str) -> str:
    lines = text.strip("\n")
    return f"{lines}\n" if lines else ""
