"""How the process that hosts Spark's driver is started: its home, and the options of its runtime."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from omnigraph.errors import MissingThing, SparkMissingError
from omnigraph.spark.archive import ClassArchive
from omnigraph.spark.caches import cache_folder, cache_key

# Without ``python``: workers then import the installed package, which is compiled, and not the zip file, which is not.
_HOME_PARTS = ("bin", "jars", "sbin", "data")
# Quick to start and small, and slower by half or more in long jobs.
_SHORT_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def spark_home(environment: Mapping[str, str]) -> Path | None:
    """Return a home of Spark that starts workers sooner; None if one is set, or none can be made.

    Raises:
        SparkMissingError: PySpark is not installed.
    """
    package = _package_folder()
    if os.name != "posix" or environment.get("SPARK_HOME"):
        return None
    home = cache_folder(environment) / "home" / cache_key(str(package))
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        for part in _HOME_PARTS:
            _link(home / part, package / part)
    except OSError:
        return None
    return home


def java_options(*, is_short: bool, archive: ClassArchive | None) -> str:
    """Return the options of the runtime that hosts the driver."""
    parts = [_SHORT_OPTIONS] if is_short else []
    if archive is not None and archive.exists:
        parts.append(f"-XX:SharedArchiveFile={archive.path}")
    return " ".join(parts)


def _package_folder() -> Path:
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise SparkMissingError("pyspark is not installed", details=MissingThing(what="library", name="pyspark"))
    return Path(found.origin).parent


def _link(link: Path, target: Path) -> None:
    if link.is_symlink() and link.readlink() == target:
        return
    try:
        link.symlink_to(target)
    except FileExistsError:
        # Another process was faster, or the package was installed elsewhere under the same name.
        if not link.samefile(target):
            raise
