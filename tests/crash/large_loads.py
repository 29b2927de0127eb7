"""Loads of a file that is read in many chunks and does not fit the memory they may use, and what they must give."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from omnigraph.engine.load import LoadSettings
from tests.crash.kinds import ACTOR
from tests.crash.session_kinds import INPUTS, SessionKind

PEOPLE = 3000
# Some thirty chunks, and every third of them more than may stay in memory.
TIGHT = LoadSettings(chunk_bytes=16 << 10, memory_bytes=96 << 10)
_SETS = {
    "append": ("people", "knows", "works"),
    "merge": ("people", "knows", "again"),
    "overwrite": ("people", "knows", "works"),
}

Envelope = dict[str, Any]


def write_large_inputs(folder: Path) -> Path:
    """Write a file for each mode."""
    for mode in _SETS:
        lines = (json.dumps(envelope) + "\n" for envelope in _envelopes(mode))
        (folder / f"large-{mode}.jsonl").write_text("".join(lines), encoding="utf-8")
    return folder


def wanted_rows(mode: str) -> dict[str, list[Envelope]]:
    """What a graph holds after the load, by type, in the order of :func:`sorted_rows`."""
    found: dict[str, dict[Any, Envelope]] = {}
    seed = [json.loads(line) for line in INPUTS["seed.jsonl"].split("\n") if line]
    for number, envelope in enumerate([*seed, *_envelopes(mode)]):
        name = envelope.get("type") or envelope["edge"]
        rows = found.setdefault(name, {})
        if mode == "overwrite" and number == len(seed):
            for replaced in ("Person", "Knows", "WorksAt"):
                found[replaced] = {}
            rows = found[name]
        rows[_identity(envelope, number)] = envelope
    return {name: sorted_rows(rows.values()) for name, rows in found.items()}


def sorted_rows(envelopes) -> list[Envelope]:
    """Envelopes without absent values, in an order that does not depend on how they were made."""
    plain = []
    for envelope in envelopes:
        data = {key: value for key, value in envelope.get("data", {}).items() if value is not None}
        plain.append({**envelope, "data": data})
    return sorted(plain, key=lambda envelope: json.dumps(envelope, sort_keys=True))


def _identity(envelope: Envelope, number: int) -> Any:
    match envelope:
        case {"type": _, "data": {"name": name}}:
            return name
        case {"edge": "Knows", "from": start, "to": end}:
            return start, end
        case _:
            return number


def _envelopes(mode: str) -> Iterator[Envelope]:
    for part in _SETS[mode]:
        yield from _PARTS[part]()


def _people():
    for number in range(PEOPLE):
        data = {"name": f"p{number}", "age": number % 90, **({"nick": f"n{number}"} if number % 3 else {})}
        yield {"type": "Person", "data": data}


def _knows():
    for number in range(PEOPLE):
        for step in (1, 7):
            yield {"edge": "Knows", "from": f"p{number}", "to": f"p{(number + step) % PEOPLE}"}


def _works():
    for number in range(0, PEOPLE, 3):
        yield {"edge": "WorksAt", "from": f"p{number}", "to": "red", "data": {"role": f"r{number % 5}"}}


def _again():
    """Rows that exist already, so that the load replaces something."""
    yield {"type": "Person", "data": {"name": "ann", "age": 99}}
    yield {"edge": "Knows", "from": "ann", "to": "bob"}
    yield {"edge": "Knows", "from": "ann", "to": "p5"}


_PARTS = {"people": _people, "knows": _knows, "works": _works, "again": _again}


def _load(mode):
    def write(session, inputs):
        return session.load([str(inputs / f"large-{mode}.jsonl")], mode, actor=ACTOR, settings=TIGHT)

    return write


LARGE_LOADS = {
    mode: SessionKind(name=mode, tables=tables, commits=tables, write=_load(mode))
    for mode, tables in (("append", 3), ("merge", 2), ("overwrite", 3))
}
