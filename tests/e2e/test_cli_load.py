"""``omnigraph load`` as people and scripts meet it."""

from __future__ import annotations

import gzip
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.process import clean_environment, omnigraph
from tests.load_graph import export
from tests.session_graph import open_session

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person { since: Date? }\n"
PEOPLE = '{"type":"Person","data":{"name":"Ada","age":36}}\n{"type":"Person","data":{"name":"Bob"}}\n'
KNOWS = '{"edge":"Knows","from":"Ada","to":"Bob","data":{"since":"2020-05-01"}}\n'
ECHO = "omnigraph load → g (direct, local)\n"


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    (tmp_path / "schema.pg").write_text(SCHEMA)
    (tmp_path / "rows.jsonl").write_text(PEOPLE + KNOWS)
    assert omnigraph("init", "--schema", "schema.pg", "g", cwd=tmp_path).code == 0
    return tmp_path


def ages(folder: Path) -> dict[str, int | None]:
    with open_session(folder / "g") as session:
        return {row["data"]["name"]: row["data"]["age"] for row in export(session) if "type" in row}


def test_rows_come_from_standard_input(graph: Path):
    done = omnigraph("load", "g", "--data", "-", "--mode", "append", cwd=graph, stdin=PEOPLE)
    assert (done.code, done.err) == (0, ECHO)
    assert ages(graph) == {"Ada": 36, "Bob": None}


def test_compressed_standard_input_is_recognised(graph: Path):
    packed = gzip.compress(PEOPLE.encode())
    assert omnigraph("load", "g", "--data", "-", "--mode", "append", cwd=graph, stdin=packed).code == 0
    assert ages(graph) == {"Ada": 36, "Bob": None}


def test_broken_rules_are_listed_with_file_and_line(graph: Path):
    (graph / "edges.jsonl").write_text(KNOWS)
    done = omnigraph("load", "g", "--data", "edges.jsonl", "--mode", "append", cwd=graph)
    assert done.code == 2
    assert done.err == (
        f"{ECHO}error: src 'Ada' not found in Person\n"
        "  edges.jsonl:1: src 'Ada' not found in Person\n"
        "  edges.jsonl:1: dst 'Bob' not found in Person\n"
        "code: constraint.violated\n"
    )


def test_table_files_and_column_mappings(graph: Path):
    (graph / "staff.csv").write_text("who,years\nAda,36\n")
    (graph / "Knows.csv").write_text("from,to\nAda,Ada\n")
    done = omnigraph(
        *("load", "g", "--mode", "append", "--table", "Person=staff.csv", "--data", "*.csv.nope"),
        *("--column", "Person.name=who", "--column", "Person.age=years"),
        cwd=graph,
    )
    assert done.code == 5
    done = omnigraph(
        *("load", "g", "--mode", "append", "--table", "Person=staff.csv", "--data", "Knows.csv"),
        *("--column", "Person.name=who", "--column", "Person.age=years"),
        cwd=graph,
    )
    assert (done.code, done.err) == (0, ECHO)
    assert ages(graph) == {"Ada": 36}


def test_patch_keeps_what_a_row_does_not_mention(graph: Path):
    omnigraph("load", "g", "--data", "rows.jsonl", "--mode", "append", cwd=graph)
    row = '{"type":"Person","data":{"name":"Ada"}}\n'
    assert omnigraph("load", "g", "--data", "-", "--mode", "merge", "--patch", cwd=graph, stdin=row).code == 0
    assert ages(graph)["Ada"] == 36
    assert omnigraph("load", "g", "--data", "-", "--mode", "merge", cwd=graph, stdin=row).code == 0
    assert ages(graph)["Ada"] is None


def test_missing_branch_is_created_from_its_base(graph: Path):
    arguments = ("load", "g", "--data", "rows.jsonl", "--mode", "merge", "--branch", "review")
    assert omnigraph(*arguments, cwd=graph).code == 5
    done = omnigraph(*arguments, "--from", "main", cwd=graph)
    assert done.out.splitlines()[0] == "branch review created from main"
    again = omnigraph(*arguments, "--from", "main", "--json", cwd=graph)
    assert json.loads(again.out)["branch_created"] is False
    assert ages(graph) == {}


@pytest.mark.parametrize(
    "arguments",
    [
        ["g", "--data", "rows.jsonl"],
        ["g", "--mode", "append"],
        ["g", "--data", "rows.jsonl", "--mode", "replace"],
        ["--data", "rows.jsonl", "--mode", "append"],
        ["g", "--data", "rows.jsonl", "--mode", "append", "--patch"],
        ["g", "--table", "staff.csv", "--mode", "append"],
        ["g", "--data", "rows.jsonl", "--mode", "append", "--column", "age=years"],
        ["g", "--data", "-", "--data", "-", "--mode", "append"],
    ],
)
def test_wrong_arguments_exit_with_2(graph: Path, arguments: list[str]):
    done = omnigraph("load", *arguments, cwd=graph)
    assert (done.code, done.out) == (2, "")
    assert done.err.removeprefix(ECHO).startswith("error: ")
    assert "code: usage" in done.err


def test_bar_is_drawn_on_a_terminal_and_only_there(graph: Path):
    command = [sys.executable, "-m", "omnigraph", "load", "g", "--data", "rows.jsonl", "--mode", "merge"]
    master, terminal = pty.openpty()
    with subprocess.Popen(
        command, cwd=graph, env=clean_environment(TERM="xterm"), stdout=subprocess.PIPE, stderr=terminal
    ) as running:
        os.close(terminal)
        drawn = read_to_end(master)
        told = running.stdout.read()
    os.close(master)
    assert running.returncode == 0, drawn
    assert "rows" in drawn
    assert told.decode().startswith("loaded g on branch main with merge: 3 entities")


def read_to_end(terminal: int) -> str:
    """Return all that is drawn until the other side is closed; one read may end in the middle of a character."""
    pieces = []
    try:
        while piece := os.read(terminal, 65536):
            pieces.append(piece)
    except OSError:
        # How a terminal says that nobody can draw any more.
        pass
    return b"".join(pieces).decode()


RAW = ("id;who;extra\n", "Ada;36;x\n", "Bob;NULL;y\n")
RAW_OPTIONS = ("--delimiter", ";", "--null", "NULL", "--ignore-extra-columns", "--trim")


def test_options_say_how_tables_are_written(graph: Path):
    (graph / "people.csv").write_text("".join(RAW))
    columns = ("--column", "Person.name=id", "--column", "Person.age=who")
    table = ("--table", "Person=people.csv", *columns, *RAW_OPTIONS)
    done = omnigraph("load", "g", *table, "--mode", "append", cwd=graph)
    assert (done.code, done.err) == (0, ECHO)
    assert ages(graph) == {"Ada": 36, "Bob": None}
    (graph / "bare.csv").write_text("".join(RAW[1:]).replace(";", "\t"))
    header = ("--table", "Person=bare.csv", "--header", "Person=name,age,extra", "--delimiter", "tab", *RAW_OPTIONS[2:])
    assert omnigraph("load", "g", *header, "--mode", "merge", cwd=graph).code == 0
    (graph / "more.jsonl").write_text('{"id": 7, "age": 8}\n')
    plain = ("--table", "Person=more.jsonl", "--column", "Person.name=id")
    assert omnigraph("load", "g", *plain, "--mode", "append", cwd=graph).code == 0
    assert ages(graph) == {"Ada": 36, "Bob": None, "7": 8}


def test_a_mapping_describes_a_folder(graph: Path):
    (graph / "raw").mkdir()
    (graph / "raw" / "people.csv").write_text("".join(RAW))
    (graph / "raw" / "rules.yaml").write_text(
        'null: ["NULL"]\nfiles:\n  people.csv:\n    type: Person\n    delimiter: ";"\n'
        "    columns: {name: id, age: who}\n    ignore_extra_columns: true\n"
    )
    assert omnigraph("load", "g", "--mapping", "raw/rules.yaml", "--mode", "append", cwd=graph).code == 0
    assert ages(graph) == {"Ada": 36, "Bob": None}
    (graph / "raw" / "mapping.yaml").write_text("fils: {}\ntrm: true\n")
    done = omnigraph("load", "g", "--data", "raw", "--mode", "append", cwd=graph)
    assert done.code == 2
    assert done.err == (
        f"{ECHO}error: raw/mapping.yaml:1: unknown key 'fils'; did you mean 'files'? (and 1 more)\n"
        "  raw/mapping.yaml:1: unknown key 'fils'; did you mean 'files'?\n"
        "  raw/mapping.yaml:2: unknown key 'trm'; did you mean 'trim'?\n"
        "code: load.mapping\n"
    )


def test_a_mistake_of_every_row_is_one_line(graph: Path):
    (graph / "Person.csv").write_text("name,age\n" + "".join(f"p{at},old\n" for at in range(200)))
    done = omnigraph("load", "g", "--data", "Person.csv", "--mode", "append", cwd=graph)
    places = ", ".join(f"Person.csv:{line}" for line in range(2, 7))
    assert done.err == (
        f"{ECHO}error: Person.csv:2: property 'age' expects I32?, got a string (and 199 more)\n"
        f"  Person.csv:2: property 'age' expects I32?, got a string: \"old\" (200 rows: {places}, …)\n"
        "code: load.bad_rows\n"
    )
    told = json.loads(omnigraph("load", "g", "--data", "Person.csv", "--mode", "append", "--json", cwd=graph).out)
    details = told["error"]["details"]
    assert (details["total"], len(details["items"]), [one["count"] for one in details["groups"]]) == (200, 100, [200])
