"""Commands on a real terminal: the shell, and the question before very many entities change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.process import clean_environment, omnigraph
from tests.session_graph import create_graph
from tests.terminal import Terminal

SCHEMA = "node Person {\n  name: String @key\n  age: I32?\n}\n"
MANY = 10_001
COUNT = "query n() { match { $p: Person } return { count(*) as n } }"
DELETE = "query d() { delete Person where age = 1 }"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("terminal")
    rows = (f'{{"type": "Person", "data": {{"name": "p{number:05}", "age": 1}}}}\n' for number in range(MANY))
    create_graph(folder / "g", SCHEMA, "".join(rows))
    return folder


def open_terminal(folder: Path, *arguments: str) -> Terminal:
    return Terminal(*arguments, cwd=folder, env=clean_environment(OMNIGRAPH_HOME=str(folder / "home")))


def test_the_shell_completes_runs_and_goes_on_after_an_error(folder: Path):
    with open_terminal(folder, "shell", "g") as terminal:
        terminal.read_until("main>")
        terminal.type("match { $p: Persn } return { $p.name }\r")
        assert "^^^^^" in terminal.read_until("code: query.type")
        terminal.type("match { $p: Per\t }\rreturn { count(*) as n }\r")
        assert str(MANY) in terminal.read_until(str(MANY))
        terminal.type(":quit\r")
        assert terminal.end()[0] == 0


def test_a_mutation_of_very_many_entities_asks_first(folder: Path):
    with open_terminal(folder, "mutate", "g", "-e", DELETE) as terminal:
        terminal.read_until("10,001 entities would change; continue? [y/N] ")
        terminal.type("n\n")
        code, shown = terminal.end()
        assert (code, "code: query.affected" in shown) == (9, True)
    (folder / "home").mkdir(exist_ok=True)
    (folder / "d.gq").write_text(DELETE)
    alias = {"store": str(folder / "g"), "file": str(folder / "d.gq"), "query": "d", "mutation": True}
    (folder / "home" / "config.yaml").write_text(json.dumps({"aliases": {"clear": alias}}))
    with open_terminal(folder, "alias", "clear") as terminal:
        terminal.read_until("10,001 entities would change; continue? [y/N] ")
        terminal.type("n\n")
        assert terminal.end()[0] == 9
    assert omnigraph("query", "g", "-e", COUNT, "--format", "csv", cwd=folder).out == f"n\n{MANY}\n"
    with open_terminal(folder, "mutate", "g", "-e", DELETE) as terminal:
        terminal.read_until("continue? [y/N] ")
        terminal.type("yes\n")
        code, shown = terminal.end()
        assert (code, f"changed main via d: {MANY} nodes, 0 edges" in shown) == (0, True)


def test_bytes_of_a_blob_go_to_a_terminal_only_when_asked_to(tmp_path: Path):
    create_graph(tmp_path / "g", "node Doc {\n  name: String @key\n  body: Blob?\n}\n")
    put = 'query p($b: Blob) { insert Doc { name: "a", body: $b } }'
    assert omnigraph("mutate", "g", "-e", put, "--param", "b=base64:c2hvd24=", cwd=tmp_path).code == 0
    with open_terminal(tmp_path, "blob", "get", "g", "node", "Doc", "a", "body") as terminal:
        code, shown = terminal.end()
        assert (code, "bytes are not written to a terminal" in shown, "shown" in shown) == (2, True, False)
    with open_terminal(tmp_path, "blob", "get", "g", "node", "Doc", "a", "body", "--out", "-") as terminal:
        assert terminal.end() == (0, "shown")
