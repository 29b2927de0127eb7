"""An archive of the classes that Spark loads while it starts, which halves the work of the next start.

It is made by a process of its own, after a command has ended and behind everything else that wants to run, because
leaving it behind would make the very start slower that it is to speed up. A runtime that maps an archive that is cut
short crashes: it gets its name when it is complete.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from omnigraph.records import record
from omnigraph.spark.caches import cache_folder, cache_key
from omnigraph.spark.java import Java

SWITCH = "OMNIGRAPH_SPARK_ARCHIVE"

_KEPT = 3
_LOWEST_PRIORITY = 19
# Some hundred megabytes are written at the lowest priority.
_PATIENCE_S = 600.0


@record
class ClassArchive:
    """The file, bound to one runtime and one set of jars by its name."""

    path: Path

    @property
    def exists(self) -> bool:
        """Whether a start can use it."""
        return self.path.is_file()

    def drop(self) -> None:
        """Remove the archive, so that a later run makes another."""
        self.path.unlink(missing_ok=True)

    def make_later(self) -> None:
        """Have a process make the archive that nobody waits for."""
        subprocess.Popen(  # noqa: S603 - this module
            [sys.executable, "-c", f"from {__name__} import run_maker; run_maker()", str(self.path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def class_archive(java: Java, home: Path | None, environment: Mapping[str, str]) -> ClassArchive | None:
    """Return the archive for this runtime and these jars; None where there can be none or none is wanted."""
    is_wanted = environment.get(SWITCH, "on") != "off" and not environment.get("SPARK_CONF_DIR")
    if home is None or not is_wanted or not java.has_class_archive:
        return None
    folder = cache_folder(environment) / "classes"
    key = cache_key(java.description, str(java.home), str(home), _listing(home / "jars"))
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _forget_oldest(folder, key)
    except OSError:
        return None
    return ClassArchive(path=folder / f"{key}.jsa")


def is_refused(log: str) -> bool:
    """Whether a runtime's log says that it could not use an archive.

    >>> is_refused("[warning][cds,dynamic] Unable to use shared archive. The top archive failed validation.")
    True
    """
    return "Unable to use shared archive" in log


def make_archive(path: Path) -> None:
    """Make an archive, unless another process does or somebody has."""
    from omnigraph.spark.session import session, stop  # noqa: PLC0415 - it names this module

    part = path.with_suffix(".part")
    with _only_one(path.with_suffix(".lock")) as is_ours:
        if not is_ours or path.is_file():
            return
        spark = session(master="local[1]", conf={"spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={part}"})
        try:
            # What every job of ours loads: a scan through Python, a shuffle, a join.
            rows = spark.range(4).mapInArrow(lambda batches: batches, "id long")
            rows.join(rows.hint("shuffle_hash"), "id").groupBy("id").count().collect()
        finally:
            stop(spark, patience_s=_PATIENCE_S)
        part.replace(path)


def run_maker() -> None:
    """Make the archive that the command line names, behind everything else; there is nobody to tell of a failure."""
    os.nice(_LOWEST_PRIORITY)
    with suppress(Exception):
        make_archive(Path(sys.argv[1]))


@contextmanager
def _only_one(lock: Path) -> Iterator[bool]:
    with lock.open("w") as file:
        try:
            # Held by the process and not by the file: one that was killed is in nobody's way.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True


def _listing(jars: Path) -> str:
    return "\n".join(f"{jar.name} {jar.stat().st_size} {jar.stat().st_mtime_ns}" for jar in sorted(jars.glob("*.jar")))


def _forget_oldest(folder: Path, key: str) -> None:
    # Each is some hundred megabytes: those of versions that are no longer used must go.
    others = [path for path in folder.glob("*.jsa") if path.stem != key]
    for path in sorted(others, key=lambda path: path.stat().st_mtime_ns)[: 1 - _KEPT]:
        path.unlink(missing_ok=True)
