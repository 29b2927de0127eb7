"""Branches, commits, diffs, feeds, tags and reverts, as people and scripts meet them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.process import Outcome, omnigraph
from tests.session_graph import create_graph

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person\n"
SEED = """
{"type": "Person", "data": {"name": "ann", "age": 1}}
{"type": "Person", "data": {"name": "bob"}}
{"edge": "Knows", "from": "ann", "to": "bob", "data": {"id": "ab"}}
"""


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    create_graph(tmp_path / "g", SCHEMA, SEED)
    return tmp_path


def run(folder: Path, *arguments: str) -> Outcome:
    return omnigraph(*arguments, "--store", "g", cwd=folder)


def document(folder: Path, *arguments: str) -> Any:
    done = run(folder, *arguments, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def change(folder: Path, text: str, branch: str = "main") -> str:
    done = document(folder, "mutate", "--branch", branch, "--as", "zoe", "-e", f"query q() {{ {text} }}")
    return str(done["commit"]["graph_commit_id"])


def test_a_branch_lives_from_its_creation_to_its_merge(graph: Path):
    made = run(graph, "branch", "create", "draft")
    assert (made.code, made.out) == (0, "created branch draft from main\n")
    assert made.err == "omnigraph branch create → g (direct, local)\n"
    commit = change(graph, 'update Person set { age: 2 } where name = "ann"', "draft")
    told = run(graph, "branch", "list", "--verbose").out.splitlines()
    assert told[0] == f"draft head={commit} parent=main ahead=1 behind=0 last_actor=zoe"
    assert document(graph, "branch", "list") == {"branches": ["draft", "main"]}
    seen = document(graph, "branch", "merge", "draft", "--preview")
    assert (seen["outcome"], seen["conflicts"]) == ("fast_forward", [])
    merged = document(graph, "branch", "merge", "draft", "--delete-branch")
    assert (merged["outcome"], merged["branch_deleted"]) == ("fast_forward", True)
    assert run(graph, "branch", "list").out == "main\n"


def test_what_a_branch_cannot_do_says_so_with_its_exit_code(graph: Path):
    assert run(graph, "branch", "create", "Main").code == 2
    assert "cannot delete branch 'main'" in run(graph, "branch", "delete", "main").err
    assert run(graph, "branch", "delete", "none").code == 5
    run(graph, "branch", "create", "draft")
    assert run(graph, "branch", "create", "draft").code == 3
    run(graph, "branch", "create", "leaf", "--from", "draft")
    kept = run(graph, "branch", "merge", "draft", "--delete-branch", "--quiet")
    assert kept.code == 0
    assert "warning: branch draft was not deleted" in kept.err
    remote = omnigraph("branch", "delete", "x", "--uri", "s3://nowhere/graph", cwd=graph)
    assert (remote.code, "--yes" in remote.err) == (2, True)


def test_conflicts_are_data_with_exit_code_3(graph: Path):
    run(graph, "branch", "create", "draft")
    change(graph, 'update Person set { age: 2 } where name = "ann"')
    change(graph, 'update Person set { age: 3 } where name = "ann"', "draft")
    refused = run(graph, "branch", "merge", "draft", "--json")
    assert refused.code == 3
    (conflict,) = json.loads(refused.out)["error"]["details"]["items"]
    assert conflict["type_key"] == "node:Person"
    assert "conflict" in run(graph, "branch", "merge", "draft", "--preview").out
    taken = run(graph, "branch", "merge", "draft", "--resolve", "theirs", "--quiet")
    assert taken.out == "merged draft into main: merged\n  node:Person: 1 updated, 1 resolved\n"
    assert run(graph, "branch", "merge", "draft", "--resolve", "mine").code == 2


def test_conflicts_are_written_decided_in_the_file_and_merged_with_it(graph: Path):
    run(graph, "branch", "create", "draft")
    change(graph, 'update Person set { age: 2 } where name = "ann"')
    undone = change(graph, 'update Person set { age: 3 } where name = "ann"', "draft")
    refused = run(graph, "branch", "merge", "draft", "--quiet")
    (hint,) = [line for line in refused.err.splitlines() if line.startswith("hint: ")]
    command = hint.partition("omnigraph ")[2].split()
    assert command[:2] == ["branch", "merge"]
    assert command[-2:] == ["--conflicts-out", "conflicts.jsonl"]
    written = omnigraph(*command, "--quiet", cwd=graph)
    assert (written.code, "--resolve-with conflicts.jsonl" in written.err) == (3, True)
    file = graph / "conflicts.jsonl"
    (row,) = [json.loads(line) for line in file.read_text().splitlines()]
    assert row == json.loads(run(graph, "branch", "merge", "draft", "--json").out)["conflict_rows"][0]
    assert row == document(graph, "branch", "merge", "draft", "--preview")["conflict_rows"][0]
    assert (row["property"], row["base"], row["ours"], row["theirs"]) == ("age", row["base"], 2, 3)
    file.write_text(json.dumps(row | {"resolution": 7, "ours": 1}))
    stale = run(graph, "branch", "merge", "draft", "--resolve-with", "conflicts.jsonl")
    assert (stale.code, "conflicts.jsonl:1: the conflict of Person 'ann' has changed" in stale.err) == (2, True)
    file.write_text(json.dumps(row | {"resolution": 7}))
    merged = run(graph, "branch", "merge", "draft", "--resolve-with", "conflicts.jsonl", "--quiet")
    assert merged.out == "merged draft into main: merged\n  node:Person: 1 updated, 1 resolved\n"
    change(graph, 'update Person set { age: 4 } where name = "ann"', "draft")
    reverted = run(graph, "revert", undone, "--branch", "draft", "--conflicts-out", "undo.csv", "--quiet")
    assert f"{undone} --branch draft --resolve-with undo.csv" in reverted.err
    assert (graph / "undo.csv").read_text().startswith("kind,type,id,property,base,ours,theirs,message,resolution\n")
    (graph / "undo.csv").write_text((graph / "undo.csv").read_text().removesuffix("\n") + "theirs\n")
    assert run(graph, "revert", undone, "--branch", "draft", "--resolve-with", "undo.csv", "--quiet").code == 0


def test_commits_are_listed_filtered_and_shown(graph: Path):
    commit = change(graph, 'update Person set { age: 2 } where name = "ann"')
    listed = run(graph, "commit", "list", "-n", "1")
    shown, published, rest = listed.out.split(" ", 2)
    assert (shown, rest) == (commit, "graph_branch=main graph_manifest_version=3 operation=mutate actor=zoe\n")
    assert document(graph, "commit", "show", commit)["published_at"] == published
    place = listed.err.removeprefix("more: --after ").strip()
    assert len(document(graph, "commit", "list", "--after", place)["commits"]) == 2
    assert [
        one["graph_commit_id"] for one in document(graph, "commit", "list", "--filter", "actor=zoe")["commits"]
    ] == [commit]
    assert run(graph, "commit", "list", "--filter", "colour=red").code == 2
    assert f"graph_commit_id: {commit}\n" in run(graph, "commit", "show", commit).out
    assert run(graph, "commit", "show", "01ARZ3NDEKTSV4RRFFQ69G5FAV").code == 5
    assert run(graph, "commit", "changes", commit).out == "~ Person ann  age: 1 → 2\n"
    assert document(graph, "commit", "changes", commit, "--op", "delete")["changes"] == []


def test_a_diff_streams_lines_or_is_one_document(graph: Path):
    change(graph, 'delete Person where name = "bob"')
    lines = run(graph, "diff", "main~1").out.splitlines()
    assert lines == [
        "- Knows ab (ann → bob)",
        "- Person bob",
        "edge Knows: 0 inserted, 0 updated, 1 deleted",
        "node Person: 0 inserted, 0 updated, 1 deleted",
    ]
    assert document(graph, "diff", "main", "main~1", "--type", "Person", "--stat")["stats"]["inserts"] == 1
    assert run(graph, "diff", "main", "main").out == "(no changes)\n"
    assert run(graph, "diff", "tag:none").code == 5


def test_a_feed_goes_on_from_its_token(graph: Path):
    start = json.loads(run(graph, "changes", "follow", "--once", "--from", "now").out)
    assert start["blocks"] == []
    commit = change(graph, 'insert Person { name: "cid" }')
    told = run(graph, "changes", "follow", "--once", "--text", "--from", start["token"]).out.splitlines()
    assert told[:2] == [f"{commit} graph_branch=main actor=zoe", '  + Person cid  name: "cid"']
    token = told[-1].removeprefix("token: ")
    assert run(graph, "changes", "follow", "--once", "--from", token).out == ""
    lines = run(graph, "changes", "follow", "--once", "--from", "beginning", "--limit", "2").out.splitlines()
    assert [json.loads(line)["end"] for line in lines] == [
        {"sequence": 0, "part": 2},
        {"sequence": 2, "part": 0},
    ]
    assert run(graph, "changes", "follow", "--once", "--from", "nonsense").code == 2


def test_lines_of_a_feed_are_applied_to_another_graph_once(graph: Path):
    create_graph(graph / "copy", SCHEMA)
    lines = run(graph, "changes", "follow", "--once", "--from", "beginning", "--limit", "2").out
    (graph / "lines.jsonl").write_text(lines)
    told = json.loads(omnigraph("changes", "apply", "copy", "--input", "lines.jsonl", "--json", cwd=graph).out)
    assert (told["written"], told["commits"], told["repeated"]) == (3, 1, 0)
    told = json.loads(omnigraph("changes", "apply", "copy", "--input", "lines.jsonl", "--json", cwd=graph).out)
    assert (told["written"], told["commits"], told["repeated"]) == (0, 0, 3)
    applied = json.loads(omnigraph("changes", "applied", "copy", "--json", cwd=graph).out)["feeds"]
    assert applied == [{"source": told["source"], "token": json.loads(lines.splitlines()[-1])["token"]}]
    assert omnigraph("export", "copy", cwd=graph).out == run(graph, "export").out
    (graph / "lines.jsonl").write_text("no json\n")
    refused = omnigraph("changes", "apply", "copy", "--input", "lines.jsonl", cwd=graph)
    assert (refused.code, "line 1 of the input is not JSON" in refused.err) == (2, True)


def test_a_baseline_is_written_whole_with_the_cursor_to_go_on_from(graph: Path):
    told = document(graph, "changes", "baseline", "--out", "base.jsonl")
    assert set(told) == {"snapshot_commit_id", "resume_cursor"}
    records = [json.loads(line) for line in (graph / "base.jsonl").read_text().splitlines()]
    assert [next(iter(record)) for record in records] == ["edge", "type", "type"]
    assert run(graph, "changes", "follow", "--once", "--from", told["resume_cursor"]).out == ""
    assert run(graph, "changes", "baseline", "--out", "no/such/folder.jsonl").code != 0
    # Entities only: the file can be loaded as it is, and nothing lies beside it.
    assert document(graph, "load", "--data", "base.jsonl", "--mode", "overwrite")["total_entities"] == 3
    assert [path.name for path in graph.glob("base.jsonl*")] == ["base.jsonl"]


def test_a_baseline_that_fails_leaves_the_file_as_it_was_and_nothing_beside_it(graph: Path):
    (graph / "folder").mkdir()
    assert run(graph, "changes", "baseline", "--out", "folder").code == 2
    (graph / "base.jsonl").write_text("kept\n")
    for file in (graph / "g" / "nodes").glob("*/data/*"):
        # Edges come first, so that half of the file is written when the nodes cannot be read.
        file.unlink()
    assert run(graph, "changes", "baseline", "--out", "base.jsonl").code not in {0, 2}
    assert (graph / "base.jsonl").read_text() == "kept\n"
    assert sorted(path.name for path in graph.iterdir() if path.name != "g") == ["base.jsonl", "folder"]


def test_tags_reverts_blame_and_snapshots(graph: Path):
    commit = change(graph, 'update Person set { age: 2 } where name = "ann"')
    assert document(graph, "tag", "create", "v1", "-m", "first")["graph_commit_id"] == commit
    assert run(graph, "tag", "list").out == f'v1 {commit} "first"\n'
    assert run(graph, "tag", "create", "v1").code == 3
    reverted = document(graph, "revert", commit, "--as", "yan")
    assert reverted["reverted_commit_id"] == commit
    assert run(graph, "diff", "tag:v1").out.splitlines()[0] == "~ Person ann  age: 2 → 1"
    assert [event["op"] for event in document(graph, "blame", "Person", "ann")["events"]] == [
        "update",
        "update",
        "insert",
    ]
    blamed = run(graph, "blame", "Person", "ann", "-n", "1")
    assert blamed.out.endswith(" update actor=yan changed=age\n")
    assert blamed.err == "older changes are not shown; use a larger --limit\n"
    state = document(graph, "snapshot", "--at", "tag:v1")
    assert state["graph_commit_id"] == commit
    assert [dataset["entity_count"] for dataset in state["datasets"]] == [1, 2]
    assert run(graph, "tag", "delete", "v1").out == "deleted tag v1\n"
    assert run(graph, "tag", "delete", "v1").code == 5
