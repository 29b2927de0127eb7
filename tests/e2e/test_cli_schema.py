"""The schema commands that open graphs, as people and scripts meet them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.e2e.process import omnigraph
from tests.session_graph import create_graph, open_session, read_graph

SCHEMA = "// People and whom they know.\nnode Person { name: String @key  age: I32? }\nedge Knows: Person -> Person\n"
SEED = """
{"type": "Person", "data": {"name": "Ada", "age": 36}}
{"type": "Person", "data": {"name": "Bob"}}
"""
GROWN = SCHEMA.replace("age: I32?", "age: I32?  nick: String? @index")
STRICT = SCHEMA.replace("age: I32?", "age: I32")
AGELESS = SCHEMA.replace("age: I32?", "")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("schema-cli")
    create_graph(folder / "g", SCHEMA, SEED)
    for name, text in {
        "grown": GROWN,
        "strict": STRICT,
        "ageless": AGELESS,
    }.items():
        (folder / f"{name}.pg").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def folder(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "work"))


def people(folder: Path) -> dict[str, dict[str, object]]:
    with open_session(folder / "g") as session:
        found: dict[str, dict[str, object]] = read_graph(session)["node:Person"]
        return found


class TestApply:
    def test_changes_tables_and_schema_in_one_commit(self, folder: Path):
        found = omnigraph("schema", "apply", "g", "--schema", "grown.pg", cwd=folder)
        assert (found.code, found.err) == (0, "omnigraph schema apply → g (direct, local)\n")
        assert found.out.splitlines() == [
            "schema apply for g",
            "supported: yes",
            "applied: yes",
            "graph_manifest_version: 3",
            "- add property Person.nick: String?",
            "- add constraint @index(nick) to Person",
        ]
        assert people(folder)["Ada"] == {"name": "Ada", "age": 36, "nick": None}
        assert omnigraph("schema", "show", "g", cwd=folder).out == GROWN

    def test_json_names_steps_and_commit(self, folder: Path):
        arguments = ["--schema", "ageless.pg", "--allow-data-loss", "--as", "mira", "--json"]
        found = omnigraph("schema", "apply", "--store", "g", *arguments, cwd=folder)
        report = json.loads(found.out)
        commit = report.pop("commit")
        assert report == {
            "uri": "g",
            "supported": True,
            "applied": True,
            "step_count": 1,
            "graph_manifest_version": 3,
            "steps": [
                {
                    "kind": "drop_property",
                    "type_kind": "node",
                    "type_name": "Person",
                    "property_name": "age",
                    "mode": "hard",
                    "code": "OG-DS-104",
                }
            ],
            "diagnostics": [],
            "warnings": [],
        }
        assert (commit["actor_id"], commit["graph_branch"], commit["graph_manifest_version"]) == ("mira", "main", 3)

    def test_a_row_in_the_way_is_the_error(self, folder: Path):
        found = omnigraph("schema", "apply", "g", "--schema", "strict.pg", "--json", cwd=folder)
        error = json.loads(found.out)["error"]
        assert (found.code, error["code"]) == (2, "constraint.violated")
        assert error["details"]["items"][0]["entity_id"] == "Bob"
        assert people(folder)["Bob"] == {"name": "Bob", "age": None}

    def test_the_schema_may_come_from_standard_input(self, folder: Path):
        text = 'node Human @rename_from("Person") { name: String @key  age: I32? }\nedge Knows: Human -> Human\n'
        found = omnigraph("schema", "apply", "g", "--schema", "-", cwd=folder, stdin=text)
        assert found.out.splitlines()[-1] == "- rename node type Person to Human"
        again = omnigraph("schema", "apply", "g", "--schema", "-", "--quiet", cwd=folder, stdin=text)
        assert (again.code, again.out.splitlines()[2]) == (0, "applied: no")
        assert again.err.startswith("warning: <stdin>:1:")
