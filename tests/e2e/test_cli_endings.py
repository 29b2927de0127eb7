"""Ctrl-C and readers that go away, while commands work and while they write: exit code, streams, and the graph."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from subprocess import TimeoutExpired

import pytest

from tests.e2e.process import clean_environment, omnigraph
from tests.session_graph import create_graph
from tests.warm import WarmProcess

SCHEMA = "node Person { name: String @key  note: String }\n"
# Far more than a pipe holds, so that a command that writes it cannot end before somebody reads.
SEED = "\n".join(json.dumps({"type": "Person", "data": {"name": f"p{at}", "note": "x" * 100_000}}) for at in range(4))
ALL = "query all() { match { $p: Person } return { $p.name as name, $p.note as note } order { name } }"
ADD = ("mutate", "--store", "g", "-e", 'query add() { insert Person { name: "q", note: "" } }')
STREAMS = {
    "export": ("export", "g"),
    "query jsonl": ("query", "--store", "g", "-e", ALL, "--format", "jsonl"),
    "query json": ("query", "--store", "g", "-e", ALL, "--json"),
    "changes follow": ("changes", "follow", "--store", "g", "--from", "beginning"),
    "diff": ("diff", "main~1", "--store", "g", "--json"),
}
PUBLISHED = {
    "load": (("load", "g", "--data", "rows.jsonl", "--mode", "merge", "--quiet", "--json"), "txn.claim.after_put"),
    "load, acknowledged": (
        ("load", "g", "--data", "rows.jsonl", "--mode", "merge", "--quiet", "--json"),
        "txn.release.before_delete",
    ),
    "optimize": (("optimize", "g", "--quiet", "--json"), "txn.claim.after_put"),
}
WORK = {
    "load": (("load", "g", "--data", "rows.jsonl", "--mode", "merge", "--quiet", "--json"), "engine.spool.after_rows"),
    "load, not claimed": (
        ("load", "g", "--data", "rows.jsonl", "--mode", "merge", "--quiet", "--json"),
        "txn.stage.after_files",
    ),
    "optimize": (("optimize", "g", "--quiet", "--json"), "txn.stage.after_files"),
    "export": (("export", "g", "--to", "out", "--json"), "engine.export.after_file"),
    "cleanup": (("cleanup", "g", "--keep", "1", "--confirm", "--quiet", "--json"), "engine.cleanup.after_floor"),
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("endings")
    create_graph(folder / "g", SCHEMA, SEED)
    (folder / "rows.jsonl").write_text('{"type":"Person","data":{"name":"new","note":""}}\n')
    return folder


@pytest.fixture
def folder(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "work"))


@contextmanager
def running(folder: Path, arguments: Sequence[str], **settings: str) -> Iterator[tuple[WarmProcess, int]]:
    """A command that runs, and the reading end of its standard output; its standard error goes to ``err``."""
    with ExitStack() as stack:
        reader, writer = os.pipe()
        err = stack.enter_context((folder / "err").open("wb"))
        environment = clean_environment(**settings)
        process = WarmProcess("omnigraph", arguments, cwd=folder, env=environment, out=writer, err=err.fileno())
        stack.callback(process.wait, 30)
        stack.callback(process.kill)
        os.close(writer)
        yield process, reader


def names(folder: Path) -> list[str]:
    told = omnigraph("query", "--store", "g", "-e", ALL, "--json", cwd=folder)
    assert told.code == 0, told.err
    return [row["name"] for row in json.loads(told.out)["rows"]]


@pytest.mark.parametrize("name", WORK)
def test_an_interrupted_command_says_nothing_and_leaves_the_graph_to_others(folder: Path, name: str):
    arguments, place = WORK[name]
    assert interrupt(folder, arguments, place) == ""
    before = commits(folder)
    assert "new" not in names(folder)
    assert [commit["operation"] for commit in before] == ["insert", "init"]
    assert omnigraph(*ADD, cwd=folder).code == 0
    assert names(folder) == ["p0", "p1", "p2", "p3", "q"]


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_command_that_is_interrupted_when_its_write_is_claimed_names_the_commit(folder: Path, name: str):
    arguments, place = PUBLISHED[name]
    told = interrupt(folder, arguments, place)
    newest = commits(folder)[0]
    assert told == f"interrupted: published as commit '{newest['graph_commit_id']}' on branch 'main'\n"
    assert newest["operation"] == ("ensure_indices" if name == "optimize" else "load_merge")
    assert omnigraph(*ADD, cwd=folder).code == 0


def test_a_command_that_cannot_wait_for_its_write_says_what_to_look_for(folder: Path):
    arguments, place = PUBLISHED["load"]
    told = interrupt(folder, arguments, place, is_held=True)
    commit_id = told.removeprefix("interrupted: outcome unknown, look for commit '").removesuffix(
        "' on branch 'main'\n"
    )
    assert told != commit_id
    assert omnigraph(*ADD, cwd=folder).code == 0
    # Its claim was there, but no table had moved: whoever came next has undone it.
    assert commit_id not in [commit["graph_commit_id"] for commit in commits(folder)]
    assert "new" not in names(folder)


def commits(folder: Path) -> list[dict[str, str]]:
    told = omnigraph("commit", "list", "g", "--json", cwd=folder)
    assert told.code == 0, told.err
    return list(json.loads(told.out)["commits"])


def interrupt(folder: Path, arguments: Sequence[str], place: str, *, is_held: bool = False) -> str:
    """Press Ctrl-C when a command is at a place, and let it go on there or hold it; return what it says."""
    gate = folder / "gate"
    with running(folder, arguments, OMNIGRAPH_FAILPOINTS=f"{place}=pause:{gate}") as (process, reader):
        while not gate.with_name("gate.reached").exists():
            assert process.poll() is None, (folder / "err").read_text()
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        if not is_held:
            # A thread that is in the middle of a file ends it first.
            gate.touch()
        while is_held and process.poll() is None:
            process.send_signal(signal.SIGINT)
            with suppress(TimeoutExpired):
                process.wait(0.05)
        assert process.wait(300) == 130
        assert os.read(reader, 100) == b""
        os.close(reader)
    return (folder / "err").read_text()


@pytest.mark.parametrize("name", STREAMS)
def test_an_interrupt_cuts_neither_a_document_nor_a_line(folder: Path, name: str):
    with running(folder, STREAMS[name]) as (process, reader):
        # Its first bytes are there, and the rest does not fit into the pipe: it is in the middle of writing.
        told = os.read(reader, 1)
        process.send_signal(signal.SIGINT)
        while piece := os.read(reader, 1 << 20):
            told += piece
        os.close(reader)
        assert process.wait(300) == 130
    assert (folder / "err").read_text() == ""
    if STREAMS[name][-1] == "--json":
        assert isinstance(json.loads(told), dict)
    else:
        *lines, rest = told.split(b"\n")
        assert rest == b""
        assert 0 < len([row for row in map(json.loads, lines) if "p0" in str(row)]) <= len(lines) < 4


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize(("ending", "code"), [("interrupt", 130), ("close", 141)])
def test_a_command_that_writes_ends_when_nobody_reads_on(folder: Path, name: str, ending: str, code: int):
    with running(folder, STREAMS[name]) as (process, reader):
        assert os.read(reader, 1)
        if ending == "close":
            os.close(reader)
        # The first interrupt is held back, and one that comes before it was seen is one with it.
        while process.poll() is None:
            if ending == "interrupt":
                process.send_signal(signal.SIGINT)
            with suppress(TimeoutExpired):
                process.wait(0.05)
        assert process.returncode == code
        if ending == "interrupt":
            os.close(reader)
    assert (folder / "err").read_text() == ""


def test_a_report_that_nobody_reads_does_not_undo_the_work(folder: Path):
    arguments = ("load", "g", "--data", "rows.jsonl", "--mode", "merge", "--quiet", "--json")
    with running(folder, arguments) as (process, reader):
        os.close(reader)
        assert process.wait(300) == 141
    assert (folder / "err").read_text() == ""
    assert "new" in names(folder)


def test_a_report_that_does_not_fit_anywhere_is_an_error_of_the_output(folder: Path):
    with Path("/dev/full").open("wb") as full, (folder / "err").open("wb") as err:
        arguments, out = ["branch", "list", "--store", "g", "--json"], full.fileno()
        process = WarmProcess("omnigraph", arguments, cwd=folder, env=clean_environment(), out=out, err=err.fileno())
        assert process.wait(300) == 2
    error, hint, code = (folder / "err").read_text().splitlines()
    assert error == "error: cannot write the output: no space left on device"
    assert (hint, code) == ("hint: free some space and try again", "code: file.access")
