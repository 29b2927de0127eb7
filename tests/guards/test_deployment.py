"""The examples of deployment are sound: what they start, as whom, and how it ends."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from omnigraph.server.control.settings import ControlSettings
from tests.guards.layout import ROOT

PLACE = ROOT / "examples" / "deployment"
INSTRUCTIONS = {
    *("FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD"),
}


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile with continued lines joined."""
    text = re.sub(r"\\\n", " ", (PLACE / "Dockerfile").read_text(encoding="utf-8"))
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in lines]


def test_the_image_is_pinned_small_and_not_run_by_root():
    found = instructions()
    assert {name for name, _ in found} <= INSTRUCTIONS
    for name, rest in found:
        if name == "FROM":
            assert re.fullmatch(r"[a-z]+:\d+\.\d+\.\d+-slim-[a-z]+( AS [a-z]+)?", rest)
        if name in ("ENTRYPOINT", "CMD"):
            assert rest.startswith("[")
    names = [name for name, _ in found]
    assert names.index("USER") < names.index("ENTRYPOINT")
    assert dict(found)["USER"] != "root"
    assert {"HEALTHCHECK", "STOPSIGNAL"} <= set(names)


def test_what_the_image_copies_is_there():
    for name, rest in instructions():
        if name == "COPY" and "--from" not in rest:
            *sources, _ = [word for word in rest.split() if not word.startswith("--")]
            assert [source for source in sources if not (ROOT / source).exists()] == []


def run_entrypoint(tmp_path: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the entry point with a server that only says how it was started."""
    server = tmp_path / "omnigraph-server"
    server.write_text('#!/bin/sh\necho "$@"\n', encoding="utf-8")
    server.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.defpath}"
    return subprocess.run(
        [PLACE / "entrypoint.sh", *arguments],
        env={"PATH": path, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_entry_point_passes_arguments_on_or_takes_the_environment(tmp_path: Path):
    assert run_entrypoint(tmp_path, "--cluster", "a b", OMNIGRAPH_CLUSTER="c").stdout == "--cluster a b\n"
    started = run_entrypoint(tmp_path, OMNIGRAPH_CLUSTER="s3://bucket/root")
    assert started.stdout == "--cluster s3://bucket/root --bind 0.0.0.0:8080\n"
    refused = run_entrypoint(tmp_path)
    assert (refused.returncode, "OMNIGRAPH_CLUSTER" in refused.stderr) == (64, True)


def unit() -> configparser.ConfigParser:
    """Return the unit."""
    parser = configparser.ConfigParser(strict=True, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names of systemd have capitals
    parser.read_string((PLACE / "omnigraph-server.service").read_text(encoding="utf-8"))
    return parser


def test_the_unit_waits_for_the_drain_reloads_by_signal_and_gives_up_rights():
    service = unit()["Service"]
    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert int(service["TimeoutStopSec"]) > 2 * ControlSettings().drain_s
    assert (service["NoNewPrivileges"], service["ProtectSystem"]) == ("yes", "strict")
    assert service["User"] != "root"


ANALYZE = shutil.which("systemd-analyze")


@pytest.mark.skipif(ANALYZE is None, reason="needs systemd-analyze")
def test_systemd_understands_the_unit(tmp_path: Path):
    text = (PLACE / "omnigraph-server.service").read_text(encoding="utf-8")
    copy = tmp_path / "omnigraph-server.service"
    # The program is not installed here.
    copy.write_text(text.replace("/opt/omnigraph/bin/omnigraph-server", "/bin/true"), encoding="utf-8")
    done = subprocess.run([str(ANALYZE), "verify", copy], capture_output=True, text=True, check=False)
    assert [line for line in done.stderr.splitlines() if "omnigraph" in line] == []


def test_every_setting_is_on_the_page_of_deployment():
    page = (ROOT / "docs" / "user" / "deployment.md").read_text(encoding="utf-8")
    room = ROOT / "src" / "omnigraph" / "server" / "control"
    code = "\n".join(file.read_text(encoding="utf-8") for file in room.glob("*.py"))
    named = set(re.findall(r"OMNIGRAPH_[A-Z_]+", code))
    assert sorted(name for name in named if f"| `{name}` |" not in page) == []
