"""``omnigraph embed``: vectors of a graph that are stale, and those of records in files.

Of files: which records get one, what passes as it is, and that a failure leaves the output alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.process import omnigraph
from tests.session_graph import create_graph

MANIFEST = """
sources: { raw_seed: seed.jsonl }
artifacts: { embedded_seed: out/seed.embedded.jsonl }
embeddings:
  dimension: 3
  types:
    Note: { target: vec, fields: [title, tags, missing] }
    Page: { target: v, fields: [body] }
other: ignored
"""
LINES = [
    '{"type": "Note",  "data": {"slug": "a", "title": "one", "tags": ["x", "y"], "big": 12345678901234567890}}',
    '{"type": "Note", "data": {"slug": "b", "title": "two", "vec": [1.0, 0.0, 0.0]}}',
    '{"type": "Note", "data": {"slug": "c", "title": "three", "vec": []}}',
    '{"type": "Page", "data": {"body": "four", "v": null}}',
    '{"type": "Tag", "data": {"name":  "t"}}',
    '{"edge": "Has",  "from": "a", "to": "t"}',
    "",
]
MOCK = {"OMNIGRAPH_EMBEDDINGS_MOCK": "1"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "seed.yaml").write_text(MANIFEST)
    (tmp_path / "seed.jsonl").write_text("\n".join(LINES) + "\n")
    return tmp_path


def run(folder: Path, *arguments: str, code: int = 0):
    ended = omnigraph("embed", "--seed", "seed.yaml", "--json", *arguments, cwd=folder, **MOCK)
    assert ended.code == code, ended
    return json.loads(ended.out)


def records(folder: Path):
    lines = (folder / "out" / "seed.embedded.jsonl").read_text().splitlines()
    return lines, [json.loads(line) for line in lines if line]


def test_missing_vectors_are_filled_and_other_lines_pass_byte_by_byte(folder):
    told = run(folder)
    assert told == {
        "input": "seed.jsonl",
        "output": "out/seed.embedded.jsonl",
        "records": 5,
        "selected_records": 4,
        "embedded_records": 3,
        "cleaned_records": 0,
        "mode": "fill_missing",
        "dimension": 3,
        "model": told["model"],
    }
    lines, found = records(folder)
    assert [lines[at] for at in (1, 4, 5, 6)] == [LINES[at] for at in (1, 4, 5, 6)]
    assert [len(found[at]["data"][name]) for at, name in ((0, "vec"), (2, "vec"), (3, "v"))] == [3, 3, 3]
    assert found[0]["data"]["big"] == 12345678901234567890
    assert list((folder / "out").iterdir()) == [folder / "out" / "seed.embedded.jsonl"]


@pytest.mark.parametrize(
    ("arguments", "mode", "selected", "embedded", "cleaned"),
    [
        (["--reembed-all"], "reembed_all", 4, 4, 0),
        (["--reembed_all", "--type", "Note"], "reembed_all", 3, 3, 0),
        (["--select", "title=two", "--select", "Page:body=four"], "reembed_selected", 2, 2, 0),
        (["--select", "tags=x, y"], "reembed_selected", 1, 1, 0),
        (["--select", "Note:title=two", "--type", "Page"], "reembed_selected", 0, 0, 0),
        (["--clean"], "clean", 4, 0, 3),
        (["--clean", "--select", "slug=b"], "clean", 1, 0, 1),
    ],
)
def test_modes_and_selections(folder, arguments, mode, selected, embedded, cleaned):
    told = run(folder, *arguments)
    names = ("mode", "selected_records", "embedded_records", "cleaned_records")
    assert tuple(told[name] for name in names) == (mode, selected, embedded, cleaned)


def test_the_parts_of_a_manifest_may_be_given_one_by_one(folder):
    (folder / "spec.json").write_text(
        json.dumps({"dimension": 2, "types": {"Page": {"target": "v", "fields": ["body"]}}})
    )
    files = ["--input", "seed.jsonl", "--output", "o.jsonl", "--spec", "spec.json"]
    assert omnigraph("embed", *files, cwd=folder, **MOCK).out == "wrote o.jsonl: 5 records, 1 selected, 1 embedded\n"


def test_what_makes_no_sense_is_refused_and_leaves_the_output_alone(folder):
    run(folder)
    before = (folder / "out" / "seed.embedded.jsonl").read_bytes()
    for line, reason in (("{", "it is not JSON"), ('{"type": "Note"}', "a line with a type has an object 'data'")):
        (folder / "seed.jsonl").write_text(f"{LINES[0]}\n{line}\n")
        assert run(folder, code=2)["error"]["message"] == f"seed.jsonl:2: {reason}"
    (folder / "seed.jsonl").unlink()
    assert run(folder, code=5)["error"]["code"] == "file.not_found"
    for arguments in (
        ["--type", "Nope"],
        ["--select", "Nope:a=b"],
        ["--select", "a"],
        ["--clean", "--reembed-all"],
        ["--spec", "x"],
        ["--limit", "1"],
        ["--dry-run"],
        ["--store", "g"],
        ["--engine", "local"],
    ):
        assert run(folder, *arguments, code=2)["error"]["code"] == "usage"
    for text in (
        "[]",
        "embeddings: 5",
        MANIFEST.replace("dimension: 3", "dimension: 0"),
        MANIFEST.replace("target: v,", ""),
    ):
        (folder / "seed.yaml").write_text(text)
        assert run(folder, code=2)["error"]["kind"] == "invalid"
    assert (folder / "out" / "seed.embedded.jsonl").read_bytes() == before
    assert list((folder / "out").iterdir()) == [folder / "out" / "seed.embedded.jsonl"]


def test_a_graph_is_embedded_in_commits_of_a_size_and_counted_before(tmp_path):
    rows = "".join(f'{{"type": "Note", "data": {{"slug": "n{at}", "text": "t{at}"}}}}\n' for at in range(5))
    create_graph(tmp_path / "g", "node Note { slug: String @key  text: String  vec: Vector(3)? @embed(text) }", rows)

    def embed(*arguments: str):
        ended = omnigraph("embed", "g", "--json", *arguments, cwd=tmp_path, **MOCK)
        told = json.loads(ended.out)
        return tuple(told[name] for name in ("stale", "embedded", "remaining", "commits"))

    assert embed("--dry-run") == (5, 0, 5, 0)
    assert embed("--limit", "1") == (5, 1, 4, 1)
    assert embed("--commit-every", "2", "--limit", "3") == (4, 3, 1, 2)
    assert embed("--commit-every", "2", "--type", "Note", "-m", "rest") == (1, 1, 0, 1)
    assert embed() == (0, 0, 0, 0)
    assert embed("--reembed-all") == (5, 5, 0, 1)
    text = omnigraph("embed", "g", cwd=tmp_path, **MOCK)
    assert (text.code, text.out, text.err) == (0, "no stale vector on branch main; nothing was committed\n", "")
    for arguments, code in ((["--type", "Nope"], 5), (["--commit-every", "1", "--reembed-all"], 2)):
        assert omnigraph("embed", "g", *arguments, cwd=tmp_path, **MOCK).code == code
    # Without a provider only counting is possible.
    assert omnigraph("embed", "g", "--dry-run", cwd=tmp_path).code == 0
    assert omnigraph("embed", "g", "--reembed-all", cwd=tmp_path).code == 2
