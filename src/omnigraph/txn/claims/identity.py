"""Who a writer is, and whether it may still be alive.

Liveness only decides when somebody else may take a claim over. Being wrong about it costs the presumed-dead writer
its attempt, never the graph its integrity: that rests on manifest versions.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

import msgspec


class WriterIdentity(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One process on one machine. ``host`` changes with a reboot and differs between pid namespaces."""

    host: str
    pid: int
    started: str

    @classmethod
    def of_this_process(cls) -> WriterIdentity:
        """Return the identity of the calling process."""
        pid = os.getpid()
        return cls(host=_host(), pid=pid, started=_started(pid) or "")

    def is_of_this_host(self) -> bool:
        """Whether this process can be looked at from here: same machine, boot and pid namespace."""
        return self.host == _host()

    def is_surely_dead(self, *, is_disk_local: bool = False) -> bool:
        """Whether this process is known to be gone: same host, and its pid is free or belongs to another process.

        ``is_disk_local`` says that it wrote to a disk of this machine. Then a process of another boot is gone, too.
        """
        here = _host()
        if self.host == here:
            return _started(self.pid) != self.started
        boots = _boot_of(self.host), _boot_of(here)
        return is_disk_local and all(boots) and boots[0] != boots[1]


def _boot_of(host: str) -> str:
    parts = host.rsplit("/", 2)
    return parts[1] if len(parts) == 3 else ""


def _host() -> str:
    # A pid means something only within one boot and one pid namespace.
    boot = _read("/proc/sys/kernel/random/boot_id")
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        namespace = ""
    return f"{socket.gethostname()}/{boot}/{namespace}"


def _started(pid: int) -> str | None:
    stat = _read(f"/proc/{pid}/stat")
    if not stat:
        return _started_without_proc(pid)
    # The command name may hold spaces and parentheses; the fields after its last parenthesis do not.
    fields = stat.rpartition(")")[2].split()
    state, start_time = fields[0], fields[19]
    # A zombie is dead; only its parent has not noticed.
    return None if state == "Z" else start_time


def _started_without_proc(pid: int) -> str | None:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        return ""
    return ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
