"""Engines in processes of their own: two of them cannot share one, and what a fresh process needs can be measured.

A worker opens nothing before it is asked to, and takes all times itself, so that handing over questions and answers
costs no engine anything.
"""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.floors import FLOORS
from bench.query_cases import Case, Parameters
from bench.query_engines import ENGINES, Engine, Files, Rows

EVERY_ENGINE: dict[str, type[Engine]] = {**ENGINES, **FLOORS}
KIB = 1 << 10
Loaded = dict[Literal["load_s", "prepare_s", "bytes"], float]
Held = dict[Literal["private_bytes", "mapped_bytes"], int | None]


class Worker:
    """A process with one engine. Close it, or use it in a ``with`` block."""

    def __init__(self, engine: type[Engine], work: Path) -> None:
        self._engine = engine
        # Compiled modules belong to an installed package: what is measured is not the compiler.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        self._process = subprocess.Popen(  # noqa: S603 - our own file
            [sys.executable, __file__, engine.name, str(work)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def load(self, files: Files) -> Loaded:
        """Make the database: how long that took and how much it stores."""
        return self._call("load", files)

    def open(self) -> float:
        """Open the database; return how many milliseconds that took, with the libraries loaded before."""
        return self._call("open")

    def ask(self, case: Case, parameters: Parameters) -> Rows:
        """Return the rows that answer a question.

        Raises:
            RuntimeError: the engine gave up.
        """
        return self._call("ask", case, parameters)

    def time(self, case: Case, parameters: Parameters) -> float:
        """Return how many milliseconds a question takes, from its text to its rows."""
        return self._call("time", case, parameters)

    def memory(self) -> Held:
        """Return what the process holds."""
        return self._call("memory")

    def text_of(self, case: Case) -> str | None:
        """Return the question in the language of the engine; None when it cannot be put to it."""
        return self._engine.text_of(case)

    def is_comparable(self, case: Case) -> bool:
        """Whether its answer must be the one of all others."""
        return self._engine.is_comparable(case)

    def close(self) -> None:
        """End the process."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _call(self, do: str, *arguments: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        pickle.dump((do, arguments), self._process.stdin)
        self._process.stdin.flush()
        try:
            answer, problem = pickle.load(self._process.stdout)  # noqa: S301 - what our own process says
        except EOFError:
            sys.exit(f"{self._engine.name} ended: {do}")
        if problem is not None:
            raise RuntimeError(problem)
        return answer


class _Served:
    """What a worker does."""

    def __init__(self, engine: type[Engine], work: Path) -> None:
        self._engine = engine
        self._work = work
        self._opened: Engine | None = None

    def load(self, files: Files) -> Loaded:
        # What else is asked about is loaded afterwards, off the clock.
        load_ms = _timed(lambda: self._engine.load({"social": files["social"]}, self._work))
        prepare_ms = _timed(lambda: self._engine.prepare(self._work, "social"))
        stored = _size_of(self._engine.folder(self._work, "social"))
        self._engine.load({"items": files["items"]}, self._work)
        self._engine.prepare(self._work, "items")
        self._engine.index_texts(self._work)
        return {"load_s": load_ms / 1000, "prepare_s": prepare_ms / 1000, "bytes": stored}

    def open(self) -> float:
        for name in self._engine.libraries:
            importlib.import_module(name)

        def run() -> None:
            self._opened = self._engine(self._work)

        return _timed(run)

    def ask(self, case: Case, parameters: Parameters) -> Rows:
        assert self._opened is not None
        return self._opened.ask(case, parameters)

    def time(self, case: Case, parameters: Parameters) -> float:
        return _timed(lambda: self.ask(case, parameters))

    def memory(self) -> Held:
        return _memory_of(self._engine.folder(self._work, "social").parent)

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()


def _size_of(path: Path) -> int:
    """Return the bytes of a file, or of everything in a folder; a file's neighbours that share its name count too."""
    if path.is_dir():
        return sum(one.stat().st_size for one in path.rglob("*") if one.is_file())
    return sum(one.stat().st_size for one in path.parent.glob(f"{path.name}*"))


def _memory_of(folder: Path) -> Held:
    """Return what this process holds: memory of its own, and pages of files below a folder that it has mapped.

    Both are None where the system does not tell.
    """
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        maps = Path("/proc/self/smaps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {"private_bytes": None, "mapped_bytes": None}
    private = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon:"))
    mapped, is_inside = 0, False
    for line in maps.splitlines():
        first = line.split(maxsplit=1)[0]
        if not first.endswith(":"):
            is_inside = str(folder.resolve()) in line
        elif first == "Rss:" and is_inside:
            mapped += int(line.split()[1])
    return {"private_bytes": private * KIB, "mapped_bytes": mapped * KIB}


def _timed(run: Callable[[], object]) -> float:
    started_s = time.perf_counter()
    run()
    return (time.perf_counter() - started_s) * 1000


def main() -> None:
    # Whatever a library prints goes elsewhere: this stream holds answers alone.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    served = _Served(EVERY_ENGINE[sys.argv[1]], Path(sys.argv[2]))
    while True:
        try:
            do, arguments = pickle.load(sys.stdin.buffer)  # noqa: S301 - what our own process asks
        except EOFError:
            break
        try:
            found: tuple[Any, str | None] = getattr(served, do)(*arguments), None
        except RuntimeError as error:
            found = None, str(error)
        pickle.dump(found, answers)
        answers.flush()
    served.close()


if __name__ == "__main__":
    main()
