"""Makes a virtual environment, installs this project into it, and shows how far it is.

``python tools/install.py .venv dev``: the folder comes first, then the extras. The standard library has to do, as
nothing else is there yet. ``uv`` installs in a third of the processor time of pip; where it cannot be had, or does not
reach what pip is configured to reach, pip installs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import venv
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

ROOT = Path(__file__).parents[1]
# What installers call their steps. Everything else that they say is kept for the case that they fail.
STEPS = {
    *("Building", "Built", "Collecting", "Downloading", "Downloaded", "Installed", "Installing", "Prepared"),
    *("Resolved", "Successfully"),
}
# Without a terminal a line stays, so that few are written.
_PAUSE_S = 10
_WIDTH = 72


class Progress:
    """The steps of an installer as they happen: one line that changes on a terminal, a line now and then elsewhere."""

    def __init__(self, out: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._clock = clock
        self._live = out.isatty()
        self._began = clock()
        self._told = float("-inf")

    def step(self, line: str) -> None:
        """Tell a line of an installer, if it names a step and none was told a moment ago."""
        words = line.split()
        if not words or words[0] not in STEPS:
            return
        now = self._clock()
        if self._live or now - self._told >= _PAUSE_S:
            self._told = now
            self._write(" ".join(words)[:_WIDTH])

    def end(self, text: str) -> None:
        """Tell how it ended, in a line that stays."""
        self._write(text)
        if self._live:
            self._out.write("\n")

    def _write(self, text: str) -> None:
        seconds = f"{self._clock() - self._began:4.0f} s  "
        self._out.write(f"\r\x1b[K{seconds}{text}" if self._live else f"{seconds}{text}\n")
        self._out.flush()


def places() -> dict[str, str]:
    """Return for uv the places where pip is told to look for packages, in its variables."""
    given = {name: os.environ.get(f"PIP_{name}", "") for name in ("INDEX_URL", "EXTRA_INDEX_URL", "FIND_LINKS")}
    given["FIND_LINKS"] = ",".join(given["FIND_LINKS"].split())
    return {f"UV_{name}": value for name, value in given.items() if value and f"UV_{name}" not in os.environ}


def run(command: list[str], progress: Progress) -> tuple[int, str]:
    """Run an installer, and return its exit code and the last lines of what it said."""
    last: deque[str] = deque(maxlen=30)
    piped: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, cwd=ROOT, env={**os.environ, **places()}, **piped) as process:
        for line in process.stdout or ():
            last.append(line)
            progress.step(line)
    return process.returncode, "".join(last)


def install(folder: Path, extras: str, out: TextIO = sys.stderr) -> int:
    """Install the project with extras, which commas separate, into an environment, which is made if there is none."""
    python = folder / "bin" / "python"
    progress = Progress(out)
    progress.end(f"installing '.[{extras}]' into {folder}, with what it needs: one to three minutes")
    if not python.exists():
        venv.create(folder, with_pip=True)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install"]
    wanted = ["--constraint", "constraints.txt", "--editable", f".[{extras}]"]
    run([*pip, "--quiet", "--constraint", "constraints.txt", "uv"], progress)
    with_uv = [str(python), "-m", "uv", "pip", "install", "--python", str(python), *wanted]
    # Modules that nobody imports need no bytecode, and Python writes it for the others.
    for command in (with_uv, [*pip, "--no-compile", *wanted]):
        code, said = run(command, progress)
        if code == 0:
            progress.end("installed")
            return 0
    out.write(f"\n{said}")
    progress.end("not installed: the last lines above tell why")
    return code


if __name__ == "__main__":
    sys.exit(install(Path(sys.argv[1]).absolute(), sys.argv[2]))
