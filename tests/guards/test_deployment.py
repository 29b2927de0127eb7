"""The examples of deployment are sound: what they start, as whom, and how it ends."""

from __future__ import annotations

import configparser
import json
import os
import re
import shutil
import signal
import subprocess
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from omnigraph.server.control.settings import ControlSettings
from tests.applied_cluster import apply_directory
from tests.cluster_directory import PEOPLE, ClusterDirectory
from tests.e2e.process import clean_environment
from tests.e2e.test_docs_snippets import shim
from tests.guards.layout import ROOT

PLACE = ROOT / "examples" / "deployment"
INSTRUCTIONS = {
    *(
        "FROM",
        "WORKDIR",
        "COPY",
        "RUN",
        "ENV",
        "USER",
        "VOLUME",
        "EXPOSE",
        "STOPSIGNAL",
        "HEALTHCHECK",
        "ENTRYPOINT",
        "CMD",
    ),
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


def test_the_image_has_what_the_pages_about_servers_promise():
    """Without the extra ``mcp`` /mcp is 501, and without ``aws`` the variable of its secrets ends the server."""
    (extras,) = [found for name, rest in instructions() if name == "RUN" for found in re.findall(r"'\.\[(.+)\]'", rest)]
    known = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert {"server", "mcp", "aws"} <= set(extras.split(",")) <= known.keys()


def test_a_container_has_time_to_drain_before_it_is_killed():
    """Twice the drain: requests end, then graphs are closed. Docker kills after ten seconds unless told otherwise."""
    assert 2 * int(environment_of_image()["OMNIGRAPH_DRAIN_SECONDS"]) < 10
    service = compose()["services"]["omnigraph"]
    grace = int(service["stop_grace_period"].removesuffix("s"))
    assert grace > 2 * int(service["environment"]["OMNIGRAPH_DRAIN_SECONDS"])
    assert int(unit()["Service"]["TimeoutStopSec"]) > 2 * ControlSettings().drain_s


def compose() -> dict[str, Any]:
    """Return the file of Docker Compose."""
    return dict(yaml.safe_load((PLACE / "compose.yaml").read_text(encoding="utf-8")))


def environment_of_image() -> dict[str, str]:
    """Return the variables that the image sets."""
    return dict(word.split("=", 1) for name, rest in instructions() if name == "ENV" for word in rest.split())


def test_compose_starts_the_image_of_the_dockerfile_with_files_that_it_mounts():
    service = compose()["services"]["omnigraph"]
    assert (PLACE / service["build"]["context"]).resolve() == ROOT
    assert (ROOT / service["build"]["dockerfile"]).samefile(PLACE / "Dockerfile")
    port = environment_of_image()["OMNIGRAPH_BIND"].rpartition(":")[2]
    assert service["ports"] == [f"127.0.0.1:{port}:{port}"]
    mounted = [volume.split(":")[1] for volume in service["volumes"]]
    assert mounted == [dict(instructions())["VOLUME"]]
    secrets = {f"/run/secrets/{name}" for name in service["secrets"]}
    assert service["secrets"] == list(compose()["secrets"])
    for name, value in service["environment"].items():
        assert not value.startswith("/") or value in secrets or Path(mounted[0]) in Path(value).parents, name


@contextmanager
def started(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """Run a command that serves, as the only process of its group, and give its address and process."""
    path = f"{shim(folder)}{os.pathsep}{os.environ['PATH']}"
    with subprocess.Popen(
        [str(word) for word in command],
        cwd=folder,
        env=clean_environment(PATH=path, PYTHONPATH=str(ROOT / "src"), **environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline().strip()
            assert line.startswith("OMNIGRAPH_LISTEN_ADDR="), line
            yield line.partition("=")[2], process
        finally:
            process.terminate()


def applied_cluster(folder: Path) -> Path:
    """Make a cluster with one graph, and a file with a token; the mounted folder of an image."""
    cluster = ClusterDirectory(folder / "cluster")
    cluster.graph("people", PEOPLE)
    cluster.policy("acl", "people")
    cluster.write()
    apply_directory(cluster.path)
    (folder / "tokens.json").write_text('{"act-mira": "secret"}', encoding="utf-8")
    return folder


def here(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return variables of a container for this machine: a free port, and its folders below ``folder``."""
    found = {name: re.sub("^(/data|/run/secrets|%d)(?=/)", str(folder), value) for name, value in environment.items()}
    return found | {"OMNIGRAPH_BIND": "127.0.0.1:0"}


def is_healthy(address: str) -> bool:
    """Return whether the check of the image finds a server at an address that it is bound to."""
    (check,) = [rest.partition("CMD")[2] for name, rest in instructions() if name == "HEALTHCHECK"]
    entry, *arguments = json.loads(check)
    assert [entry] == json.loads(dict(instructions())["ENTRYPOINT"])
    done = subprocess.run(
        [PLACE / "entrypoint.sh", *arguments],
        env={"PATH": os.defpath, "OMNIGRAPH_BIND": address},
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


def test_the_container_of_compose_serves_answers_its_health_check_and_ends_with_the_drain(tmp_path: Path):
    folder = applied_cluster(tmp_path)
    environment = here(environment_of_image() | compose()["services"]["omnigraph"]["environment"], folder)
    environment.pop("PATH")
    with started([PLACE / "entrypoint.sh"], folder, environment) as (address, process):
        port = address.rpartition(":")[2]
        # The image listens everywhere, and its check asks the loopback of the same port.
        everywhere = environment_of_image()["OMNIGRAPH_BIND"].rpartition(":")[0]
        assert [is_healthy(f"{host}:{port}") for host in ("127.0.0.1", everywhere)] == [True, True]
        asked = {"headers": {"Authorization": "Bearer secret"}, "timeout": 60}
        assert httpx2.get(f"http://{address}/graphs/people/branches", **asked).status_code == 200
        assert httpx2.post(f"http://{address}/mcp", json={}, **asked).status_code != 501
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert not is_healthy(address)


def test_a_container_serves_one_graph_without_a_cluster_or_what_its_arguments_say(tmp_path: Path):
    folder = applied_cluster(tmp_path)
    graph = str(folder / "cluster" / "graphs" / "people.omni")
    token = {"OMNIGRAPH_SERVER_BEARER_TOKEN": "secret", "OMNIGRAPH_BIND": "127.0.0.1:0"}
    entry = PLACE / "entrypoint.sh"
    for command, environment in (
        ([entry], {"OMNIGRAPH_STORE": graph}),
        ([entry, "--cluster", folder / "cluster"], {"OMNIGRAPH_STORE": "not asked for"}),
        ([entry, "omnigraph", "serve", graph, "--bind", "127.0.0.1:0"], {}),
    ):
        with started(command, folder, token | environment) as (address, _):
            assert is_healthy(address), command
    refused = subprocess.run([entry], env={"PATH": os.defpath}, capture_output=True, text=True, check=False)
    assert (refused.returncode, "OMNIGRAPH_CLUSTER" in refused.stderr) == (64, True)


def test_the_command_of_the_unit_serves_reloads_and_ends(tmp_path: Path):
    service = unit()["Service"]
    folder = applied_cluster(tmp_path)
    credential, _, source = service["LoadCredential"].partition(":")
    assert Path(source).name == credential
    name, _, value = service["Environment"].partition("=")
    words = service["ExecStart"].replace("${OMNIGRAPH_CLUSTER}", str(folder / "cluster")).split()
    command = [Path(words[0]).name, *words[1:], "--bind", "127.0.0.1:0"]
    with started(command, folder, here({name: value}, folder)) as (address, process):
        subprocess.run(service["ExecReload"].replace("$MAINPID", str(process.pid)).split(), check=True)
        asked = {"headers": {"Authorization": "Bearer secret"}, "timeout": 60}
        assert httpx2.get(f"http://{address}/graphs/people/branches", **asked).status_code == 200
        process.send_signal(getattr(signal, service["KillSignal"]))
        assert process.wait(60) == 0


def unit() -> configparser.ConfigParser:
    """Return the unit."""
    parser = configparser.ConfigParser(strict=True, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names of systemd have capitals
    parser.read_string((PLACE / "omnigraph-server.service").read_text(encoding="utf-8"))
    return parser


def test_the_unit_gives_up_rights():
    service = unit()["Service"]
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
