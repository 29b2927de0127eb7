"""The processes of a run: started as programs of their own, restarted after a kill, ended whatever happens."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.multiprocess.ground import Ground
from tests.warm import PROJECT, WarmProcess


@dataclass(eq=False)
class Slot:
    """The place of one worker; a killed process is followed by another in the same place."""

    number: int
    process: WarmProcess
    is_doomed: bool = False
    is_done: bool = False


@dataclass
class Fleet:
    """Workers and readers on one ground; use it as a context manager.

    ``role`` is the module of the workers, ``arguments`` what each gets behind its number. ``is_mortal``: they kill
    themselves whenever they like. ``reborn`` returns the failpoints that the next process in the place of a killed
    worker starts with.
    """

    ground: Ground
    arguments: tuple[str, ...]
    role: str = "worker"
    is_mortal: bool = False
    reborn: Callable[[int], str] = lambda _: ""
    slots: list[Slot] = field(default_factory=list)
    readers: list[WarmProcess] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    kills: int = 0
    stops: int = 0
    _read: dict[int, tuple[int, int]] = field(default_factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in [*(slot.process for slot in self.slots), *self.readers]:
            if process.poll() is None:
                process.kill()
            process.wait()

    def start_worker(self, *, failpoints: str = "") -> None:
        """Add a worker."""
        number = len(self.slots)
        self.slots.append(Slot(number, self._start_worker(number, failpoints), is_doomed="=kill" in failpoints))

    def start_reader(self) -> None:
        """Add a reader."""
        self.readers.append(self._start("reader", str(len(self.readers)), {}))

    def tend(self) -> None:
        """Restart who was killed and note who ended in any other way than a worker may end."""
        for slot in self.slots:
            status = slot.process.poll()
            if status is None or slot.is_done:
                continue
            if status == 0:
                slot.is_done = True
            elif status == -signal.SIGKILL and (slot.is_doomed or self.is_mortal):
                self.kills += 1
                failpoints = self.reborn(slot.number)
                slot.process, slot.is_doomed = self._start_worker(slot.number, failpoints), "=kill" in failpoints
            else:
                slot.is_done = True
                self.failures.append(f"a worker ended with an error worker={slot.number} status={status}")

    def ready(self) -> list[Slot]:
        """Return the workers that run and have opened the graph."""
        return [
            slot
            for slot in self.slots
            if slot.process.poll() is None and self.ground.path(f"ready-{slot.process.pid}").exists()
        ]

    def acknowledged(self) -> int:
        """Return how many commits the workers were told are in, as their journals say."""
        return sum(map(self.acknowledged_to, self.slots))

    def acknowledged_to(self, slot: Slot) -> int:
        """Return how many commits one worker was told are in; what was read of its journal before is not read again."""
        path = self.ground.journal(f"worker-{slot.number}")
        offset, count = self._read.get(slot.number, (0, 0))
        if path.exists():
            with path.open("rb") as journal:
                journal.seek(offset)
                # A last line without an end may be cut by the next process of this worker.
                whole = journal.read().rpartition(b"\n")
            offset += len(whole[0]) + len(whole[1])
            count += whole[0].count(b'{"event": "ack"')
        self._read[slot.number] = offset, count
        return count

    def kill(self, slot: Slot) -> None:
        """End a worker without warning."""
        slot.is_doomed = True
        slot.process.kill()

    def stop(self, slot: Slot) -> None:
        """Freeze a worker wherever it is."""
        slot.process.send_signal(signal.SIGSTOP)

    def stopped(self) -> list[Slot]:
        """Return the workers that are frozen, by us or by a failpoint of their own."""
        return [slot for slot in self.slots if slot.process.poll() is None and _state(slot.process.pid) == "T"]

    def wake(self, slot: Slot) -> None:
        """Let a frozen worker go on."""
        slot.process.send_signal(signal.SIGCONT)
        self.stops += 1

    def end_readers(self, timeout_s: float) -> None:
        """Let the readers finish their last look."""
        self.ground.path("quiet").touch()
        for reader in self.readers:
            if reader.wait(timeout_s) != 0:
                self.failures.append(f"a reader ended with an error status={reader.returncode}")

    def ask_where(self) -> None:
        """Have every running worker write its stacks to its log."""
        for slot in self.slots:
            if slot.process.poll() is None:
                slot.process.send_signal(signal.SIGUSR1)

    def _start_worker(self, number: int, failpoints: str) -> WarmProcess:
        environment = {"OMNIGRAPH_FAILPOINTS": failpoints} if failpoints else {}
        return self._start(self.role, str(number), environment, *self.arguments)

    def _start(self, role: str, number: str, environment: Mapping[str, str], *extra: str) -> WarmProcess:
        arguments = [str(self.ground.path("ground.json")), number, *extra]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("OMNIGRAPH")}
        with self.ground.path(f"{role}-{number}.log").open("ab") as log:
            return WarmProcess(
                f"tests.multiprocess.{role}",
                arguments,
                cwd=PROJECT,
                env={**inherited, **environment},
                out=log.fileno(),
                err=log.fileno(),
            )


def _state(pid: int) -> str:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[0]
