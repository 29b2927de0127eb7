"""What a process holds, as the kernel counts it: open files, threads, memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_MB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """One look at this process."""

    open_files: int
    threads: int
    resident_mb: float
    private_mb: float

    @classmethod
    def now(cls) -> Footprint:
        """Look."""
        # The folder itself is open while it is listed.
        open_files = sum(1 for _ in Path("/proc/self/fd").iterdir()) - 1
        threads = sum(1 for _ in Path("/proc/self/task").iterdir())
        sizes = dict.fromkeys(("Rss:", "Private_Clean:", "Private_Dirty:"), 0)
        for line in Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines():
            name, _, rest = line.partition(" ")
            if name in sizes:
                sizes[name] = int(rest.split()[0]) << 10
        return cls(
            open_files=open_files,
            threads=threads,
            resident_mb=sizes["Rss:"] / _MB,
            private_mb=(sizes["Private_Clean:"] + sizes["Private_Dirty:"]) / _MB,
        )
