"""A command on a terminal of its own, as a person at a keyboard meets it."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

# Only a command that hangs is ever waited for so long.
_PATIENCE_S = 120.0
_WHERE_IS_THE_CURSOR = b"\x1b[6n"
_MOVES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]")


class Terminal:
    """Runs ``omnigraph`` with a terminal as its input and output."""

    def __init__(self, *arguments: str, cwd: Path, env: Mapping[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "omnigraph", *arguments],
            cwd=cwd,
            env={**env, "PYTHONPATH": os.pathsep.join(sys.path), "TERM": "xterm", "COLUMNS": "80", "LINES": "24"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._unseen = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        os.close(self._ours)

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._ours, keys.encode())

    def read_until(self, text: str) -> str:
        """Return what is shown up to a text, which has to come."""
        while text not in self._unseen:
            piece = self._read()
            assert piece, f"{text!r} was not shown: {self._unseen!r}"
            self._unseen += piece
        shown, _, self._unseen = self._unseen.partition(text)
        return shown + text

    def end(self) -> tuple[int, str]:
        """Return the exit code of the command and what it showed last."""
        while piece := self._read():
            self._unseen += piece
        return self._process.wait(_PATIENCE_S), self._unseen

    def _read(self) -> str:
        ready, _, _ = select.select([self._ours], [], [], _PATIENCE_S)
        assert ready, f"nothing more is shown: {self._unseen!r}"
        try:
            piece = os.read(self._ours, 1 << 16)
        except OSError:
            # The other side is closed.
            return ""
        if _WHERE_IS_THE_CURSOR in piece:
            os.write(self._ours, b"\x1b[1;1R")
        return _MOVES.sub("", piece.decode(errors="replace")) or "\0"
