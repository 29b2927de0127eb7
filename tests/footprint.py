"""What a process holds, as the kernel counts it: open files, threads, memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_MB = 1 << 20
# What Lance's pool for blocking calls names its threads: they come when calls meet and go when they were idle for long.
_POOL = "tokio-rt-worker"


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """One look at this process; ``pooled`` are those of its threads that come and go with the load."""

    open_files: int
    threads: int
    pooled: int
    resident_mb: float
    private_mb: float

    @classmethod
    def now(cls) -> Footprint:
        """Look."""
        # The folder itself is open while it is listed.
        open_files = sum(1 for _ in Path("/proc/self/fd").iterdir()) - 1
        names = list(_thread_names())
        sizes = dict.fromkeys(("Rss:", "Private_Clean:", "Private_Dirty:"), 0)
        for line in Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines():
            name, _, rest = line.partition(" ")
            if name in sizes:
                sizes[name] = int(rest.split()[0]) << 10
        return cls(
            open_files=open_files,
            threads=len(names),
            pooled=names.count(_POOL),
            resident_mb=sizes["Rss:"] / _MB,
            private_mb=(sizes["Private_Clean:"] + sizes["Private_Dirty:"]) / _MB,
        )


def _thread_names() -> Iterator[str]:
    for thread in Path("/proc/self/task").iterdir():
        # One may end between the listing and the look.
        with suppress(OSError):
            yield (thread / "comm").read_text(encoding="utf-8", errors="replace").strip()
