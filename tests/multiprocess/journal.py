"""The journal of one process: what it was about to do and what it was told, on the disk before the next step."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Self


class Journal:
    """Appends events; use it as a context manager. What :meth:`write` returned from survives any end of the process.

    ``is_durable``: it survives the end of the machine, too.
    """

    def __init__(self, path: Path, *, is_durable: bool = True) -> None:
        _cut_torn_line(path)
        self._is_durable = is_durable
        self._file = path.open("a", encoding="utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, event: str, **fields: Any) -> None:
        """Append one event and wait until it is on the disk."""
        self._file.write(json.dumps({"event": event, **fields}) + "\n")
        self._file.flush()
        if self._is_durable:
            os.fsync(self._file.fileno())


def read_journal(path: Path) -> list[dict[str, Any]]:
    """Return the events in order; a last line that its writer did not finish never happened."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def _cut_torn_line(path: Path) -> None:
    if path.exists():
        data = path.read_bytes()
        os.truncate(path, data.rfind(b"\n") + 1)
