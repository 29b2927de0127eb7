"""Every file of ``examples`` is run, as the program or by the command that it is for; and so is a benchmark."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

import httpx2
import pytest

import omnigraph as og
from omnigraph.catalog import compile_schema
from omnigraph.ir.lint import lint_queries
from omnigraph.lang.pg import parse_schema
from tests.e2e.process import ROOT, Outcome, clean_environment, copy_people, omnigraph
from tests.e2e.test_docs_snippets import PAGES, read_commands, read_snippets, shim

EXAMPLES = ROOT / "examples"
# Each starts a Spark.
SLOW = ("demo.py", "crm/story.py", "spark_pipeline.py")
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


def files() -> list[str]:
    found = (path for path in EXAMPLES.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return sorted(path.relative_to(EXAMPLES).as_posix() for path in found)


def run_script(path: Path, folder: Path, *, expected: str | None = None, promises: tuple[str, ...] = ()) -> str:
    """Run a program in a folder, where it must leave nothing behind, and return its output."""
    folder.mkdir(exist_ok=True)
    finished = subprocess.run(
        [sys.executable, str(path)],
        cwd=folder,
        env=clean_environment(PYTHONPATH=str(ROOT / "src"), TMPDIR=str(folder)),
        capture_output=True,
        timeout=500,
        check=False,
    )
    shown = Outcome(code=finished.returncode, out=finished.stdout.decode(), err=finished.stderr.decode())
    assert (shown.code, shown.err) == (0, "")
    assert list(folder.iterdir()) == []
    assert expected in {None, shown.out}
    lines = [line.strip() for line in shown.out.splitlines()]
    assert [promised for promised in promises if not any(line.startswith(promised) for line in lines)] == []
    return shown.out


def run_crm(path: Path, folder: Path) -> None:
    """Run the story alone; it keeps every promise of the page about pipelines."""
    page = (ROOT / "docs" / "user" / "pipelines.md").read_text(encoding="utf-8")
    promises = page.rpartition("```text\n")[2].partition("```")[0].splitlines()
    assert len(promises) >= 5
    run_script(path, folder, promises=(*promises, "crm: proposed", "crm: published", "influence  by nightly"))


def run_tour(path: Path, folder: Path) -> None:
    shown = run_script(path, folder)
    for promised in (
        "node Person",
        "Person -> Team",
        "0 errors, 0 warnings",
        "expand $me -Knows{2,3}-> $far: Person",
        "mutation forget($slug: String)",
        "broken.gq:3:17: type error: T6",
        "^^^^",
        "did you mean 'name'?",
        "rename node type Person to Member",
        "supported: yes, 11 steps",
        "the same from the cache",
    ):
        assert promised in shown, promised


def make_raw(path: Path, folder: Path) -> None:
    copied = Path(shutil.copytree(path.parent, folder / "crm"))
    subprocess.run([sys.executable, copied / path.name], check=True)
    assert sorted(made.suffix for made in (copied / "raw").iterdir()) == [".csv", ".jsonl", ".parquet"]


def validate_pipeline(path: Path, folder: Path) -> None:
    schema = str(path.with_name("schema.pg"))
    shown = omnigraph("pipeline", "validate", str(path), "--schema", schema, "--quick", cwd=folder)
    assert (shown.code, shown.out.partition(",")[2].strip()) == (0, "no mistakes"), shown


def make_graph(path: Path, folder: Path) -> None:
    with og.init(folder / "graph", path) as graph:
        assert len(graph.schema.nodes) >= 1


def load_rows(path: Path, folder: Path) -> None:
    with og.init(folder / "graph", path.with_name("schema.pg")) as graph:
        assert graph.load(path).total > 0


def check_queries(path: Path, _: Path) -> None:
    schema = path.with_name("schema.pg")
    catalog = compile_schema(parse_schema(schema.read_bytes(), schema.name))
    report = lint_queries(path.read_bytes(), path.name, catalog)
    assert (report.errors, report.warnings) == (0, 0)
    assert report.results


def is_run_on_a_page(path: Path, _: Path) -> None:
    """``test_docs_snippets`` runs it: as a block of a page, as an argument there, or with its folder as a home."""
    name = path.relative_to(EXAMPLES / "people").as_posix()
    blocks = [snippet for page in PAGES for snippet in read_snippets(page) if snippet.language in {"console", "python"}]
    words = [words.split() for block in blocks for words, _ in read_commands(block.body)]
    home = f"OMNIGRAPH_HOME={name.partition('/')[0]}"
    uses = [found for found in words if {name, home} & set(found) and found[0] not in {"cat", "echo"}]
    assert uses or path.read_text(encoding="utf-8") in [block.body for block in blocks], path


def filled_people(folder: Path) -> Path:
    """Copy the example of people, with its graph made and filled."""
    place = copy_people(folder)
    with og.init(place / "people.omni", place / "schema.pg") as graph:
        graph.load(place / "staff.jsonl")
    return place


def use_agent_settings(path: Path, folder: Path) -> None:
    """Start what a client would start, or ask the server that it would ask."""
    text = path.read_text(encoding="utf-8")
    servers = tomllib.loads(text)["mcp_servers"] if path.suffix == ".toml" else json.loads(text)["mcpServers"]
    graph = filled_people(folder) / "people.omni"
    for server in servers.values():
        if "command" in server:
            arguments = [word.replace("/data/people.omni", str(graph)) for word in server["args"]]
            assert (server["command"], str(graph) in arguments) == ("omnigraph", True)
            answer = omnigraph(*arguments, cwd=folder, stdin=json.dumps(INITIALIZE) + "\n").out
        else:
            authorization = server.get("headers", {}).get("Authorization", "Bearer ${PLANNER_TOKEN}")
            assert server.get("bearer_token_env_var", "PLANNER_TOKEN") == "PLANNER_TOKEN"
            headers = {"Authorization": authorization.replace("${PLANNER_TOKEN}", "secret")}
            command = [shim(folder) / "omnigraph", "serve", graph, "--bind", "127.0.0.1:0"]
            with started(command, folder, OMNIGRAPH_SERVER_BEARER_TOKEN=headers["Authorization"].split()[1]) as serving:
                address = first_line(serving).partition("=")[2]
                url = server["url"].replace("127.0.0.1:8080", address)
                headers["Accept"] = "application/json, text/event-stream"
                answer = httpx2.post(url, json=INITIALIZE, headers=headers, timeout=60).text
                serving.terminate()
        assert '"serverInfo"' in answer, server


@contextmanager
def started(
    command: list[object], folder: Path, log: IO[str] | int = subprocess.DEVNULL, **environment: str
) -> Iterator[subprocess.Popen[str]]:
    """Run a command that serves, with a group of processes of its own, until the block ends."""
    with subprocess.Popen(
        [str(word) for word in command],
        cwd=folder,
        env=clean_environment(PYTHONPATH=str(ROOT / "src"), **environment),
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def serve_and_ask(path: Path, folder: Path) -> None:
    """Do what the server says to try, and stop it with Ctrl-C; ``make serve-check`` does it with ``make serve``."""
    command = shlex.split(os.environ.get("OMNIGRAPH_SERVE_COMMAND", f"{sys.executable} {path} --bind 127.0.0.1:0"))
    environment = clean_environment(PATH=f"{shim(folder)}{os.pathsep}{os.environ['PATH']}")
    errors = folder / "errors.txt"
    with errors.open("w", encoding="utf-8") as log, started(command, ROOT, log) as serving:
        assert serving.stdout is not None
        lines: list[str] = []
        while "curl" not in "".join(lines[-1:]):
            lines.append(serving.stdout.readline())
            assert lines[-1], f"it ended: {lines}"
        query, curl = re.findall(r"^  (omnigraph .+\\\n.+|curl .+)$", "".join(lines), re.MULTILINE)
        asked = [
            subprocess.run(text, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=True)  # noqa: S602
            for text in (query, curl)
        ]
        assert "Mira" in asked[0].stdout
        assert json.loads(asked[1].stdout)["query_name"] == "colleagues"
        os.killpg(serving.pid, signal.SIGINT)
        rest = serving.stdout.read().strip()
        # The server ends by itself, and make by the signal, whatever its command did: it says so where that failed.
        assert (serving.wait(), rest) in {(0, ""), (-signal.SIGINT, "")}
    assert "] Error " not in errors.read_text(encoding="utf-8")


def is_run_by(test: str, path: Path, _: Path) -> None:
    """The example is run by a test that names the file, or the folder that it copies."""
    text = (ROOT / "tests" / test).read_text(encoding="utf-8")
    assert f'"{path.name}"' in text or path.parent.name == "transformations", path


RUNNERS: dict[str, Callable[[Path, Path], object]] = {
    "demo.py": partial(
        run_script,
        promises=(
            "zoe    mutate",
            "yan    insert",
            '~ Person bo  level: "junior" → "senior"',
            '+ Team lab  code: "lab"  name: "Lab"',
            "before the merge: junior",
            "after it:         senior",
            "lance    Lance in a week",
            "80,000 rows in ",
            "people: 20,002",
            "within three hops of p1: 19",
            "run again: nothing",
            "influence  by nightly",
        ),
    ),
    "crm/story.py": run_crm,
    "spark_pipeline.py": partial(
        run_script,
        expected=(
            "loaded 5 rows into branch import, 0 were there already\n"
            '  insert WorksIn ["cem","core"]\n'
            '  insert WorksIn ["ida","core"]\n'
            "  insert Person cem\n"
            "  insert Person ida\n"
            "  update Person mira\n"
            "conflicts: 0\n"
            "merged: fast_forward\n"
        ),
    ),
    "languages.py": run_tour,
    "serve.py": serve_and_ask,
    "crm/make_raw.py": make_raw,
    "crm/pipeline.py": validate_pipeline,
    "*.pg": make_graph,
    "*.gq": check_queries,
    "*.jsonl": load_rows,
    "people/policy*.yaml": is_run_on_a_page,
    "people/*/*.yaml": is_run_on_a_page,
    "people/agents/session.py": is_run_on_a_page,
    "people/agents/*.json": use_agent_settings,
    "people/agents/config.toml": use_agent_settings,
    "declared/spark-pipeline.yml": partial(is_run_by, "spark/clusters/test_declared.py"),
    "declared/transformations/*.py": partial(is_run_by, "spark/clusters/test_declared.py"),
    "deployment/*": partial(is_run_by, "guards/test_deployment.py"),
}


def runners_of(name: str) -> list[str]:
    return [pattern for pattern in RUNNERS if PurePosixPath(name).match(pattern)]


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.more] * (name in SLOW)) for name in files()])
def test_example_does_what_it_is_for(name: str, tmp_path: Path):
    """The stories of ``crm`` and of the demo run in this checkout one after the other, as on a second day."""
    patterns = runners_of(name)
    assert len(patterns) == 1, f"no test knows how to run examples/{name}"
    before = files()
    RUNNERS[patterns[0]](EXAMPLES / name, tmp_path)
    assert files() == before


def test_every_way_to_run_an_example_has_an_example():
    assert {pattern for name in files() for pattern in runners_of(name)} == set(RUNNERS)
    assert {name for name in files() if name in SLOW} == set(SLOW)


def test_languages_work_where_the_terminal_knows_ascii_only():
    command = [sys.executable, EXAMPLES / "languages.py"]
    environment = clean_environment(PYTHONIOENCODING="ascii")
    assert subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False).returncode == 0


def test_a_port_that_is_taken_ends_the_example_server_with_a_sentence_and_a_way_out():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        command = [sys.executable, EXAMPLES / "serve.py", "--bind", address]
        ended = subprocess.run(
            command,
            env=clean_environment(PYTHONPATH=str(ROOT / "src")),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert f"error: cannot listen on {address}: address already in use" in ended.stderr
    assert "make serve BIND=127.0.0.1:0" in ended.stderr


def test_examples_are_in_canonical_form():
    languages = [name for name in files() if name.endswith((".pg", ".gq"))]
    assert len(languages) >= 3
    assert omnigraph("fmt", "--check", *languages, cwd=EXAMPLES).code == 0


def test_benchmark_prints_figures_beside_their_targets():
    """What it measures is no matter for a test; that it measures is."""
    command = [sys.executable, ROOT / "bench" / "lang.py"]
    environment = clean_environment(OMNIGRAPH_BENCH_LESS="10")
    shown = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=500, check=True)
    assert shown.stderr == ""
    assert "cores" in shown.stdout
    assert "<= 3.0 ms" in shown.stdout
    assert "<= 0.05 ms" in shown.stdout
    assert "lines per second" in shown.stdout
