"""Files of decided conflicts: the forms that are read, where their rows stand, and what is refused."""

from __future__ import annotations

import json

import pytest

from omnigraph.cli.commands.history.conflicts import ConflictOptions, read_decisions
from omnigraph.errors import FileAccessError, MergeConflict, MergeDecisionError
from omnigraph.history.merge import Conflicts

ROWS = Conflicts(
    MergeConflict(
        kind="divergent_update",
        message="m",
        type_key="node:Person",
        entity_id=name,
        properties=("level",),
        base={"properties": {"level": 1}},
        source={"properties": {"level": 'a, "b"\n'}},
        target={"properties": {"level": None}},
    )
    for name in ("ann", "bo")
).to_json()


def _read(tmp_path, text, name="decided.jsonl"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return [{**row, "place": row["place"].rpartition(":")[2]} for row in read_decisions(str(path))]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("\n".join(map(json.dumps, ROWS)), ["1", "2"]),
        ("\n" + "\n\n".join(map(json.dumps, ROWS)) + "\n", ["2", "4"]),
        (json.dumps(ROWS), ["1", "1"]),
        ("[\n" + ",\n".join(map(json.dumps, ROWS)) + "\n]\n", ["2", "3"]),
        (
            '{"a": [1, {"conflict_rows": 2}],\n "conflict_rows":\n [' + ",\n".join(map(json.dumps, ROWS)) + "]}",
            ["3", "4"],
        ),
        ("", []),
    ],
)
def test_rows_are_read_from_lines_lists_and_documents(tmp_path, text, lines):
    found = _read(tmp_path, text)
    assert [row.pop("place") for row in found] == lines
    assert found == ROWS[: len(lines)]


@pytest.mark.parametrize("name", ["out.jsonl", "out.CSV"])
def test_what_is_written_is_read_back_with_its_resolutions(tmp_path, name):
    path = tmp_path / name
    options = ConflictOptions(conflicts_out=str(path))
    conflicts = Conflicts(
        [
            MergeConflict(
                kind="delete_vs_update", message='"m",\n', type_key="node:Person", entity_id="ann", base={"x": 1}
            )
        ]
    )
    assert "--resolve-with" in options.next_step(conflicts, ["branch", "merge", "g", "draft"])
    (found,) = read_decisions(str(path))
    assert found.pop("place") == f"{path}:{1 if name == 'out.jsonl' else 2}"
    assert [found] == conflicts.to_json()
    with pytest.raises(FileAccessError, match="exists already"):
        options.to_fields()


def test_resolutions_of_csv_are_words_or_json(tmp_path):
    text = 'type,id,property,resolution\nP,ann,a,ours\nP,ann,b,5\nP,ann,c,"{""value"": ""x""}"\nP,ann,d,\n'
    assert [row["resolution"] for row in _read(tmp_path, text, "d.csv")] == ["ours", 5, {"value": "x"}, None]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("d.jsonl", '{"type": "Person"}\n\n{"type": ', ":3: invalid JSON"),
        ("d.jsonl", '{"type": "Person"}\n7\n', ":2: a decision must be a JSON object"),
        ("d.json", '{"conflict_rows": 7}', ":1: invalid JSON: 'conflict_rows' must be a list"),
        ("d.jsonl", "[" * 100_000, ":1: "),
        ("d.csv", "type,id\nPerson\n", ":2: the row has another number of cells"),
        ("d.csv", 'type,id,base\nPerson,"a\nb",1\nPerson,a,{\n', ":4: column 'base' is not valid JSON"),
        ("d.csv", 'type,id\nPerson,"a" b\n', "invalid CSV"),
    ],
)
def test_what_is_no_file_of_decisions_is_refused_with_its_line(tmp_path, name, text, message):
    with pytest.raises(MergeDecisionError) as refused:
        _read(tmp_path, text, name)
    assert message in refused.value.message
    assert refused.value.details.items[0].place.startswith(str(tmp_path / name))
