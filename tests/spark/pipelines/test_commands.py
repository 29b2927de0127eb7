"""Pipelines on the command line, with the session of the tests."""

from __future__ import annotations

import json

import pytest

import omnigraph
from omnigraph.cli import main

SCHEMA = "node Person { name: String @key  age: I32? }"
PIPELINE = """
pipeline: people
sources:
  staff: {format: csv, path: FOLDER/staff-*.csv, incremental: files}
nodes:
  Person:
    input: staff
    set: {age: CAST(age AS INT)}
    expect:
      sane_age: {quarantine: age BETWEEN 0 AND 130}
"""


@pytest.fixture
def place(tmp_path, spark):
    omnigraph.init(tmp_path / "g", SCHEMA).close()
    (tmp_path / "p.yaml").write_text(PIPELINE.replace("FOLDER", str(tmp_path)))
    (tmp_path / "staff-1.csv").write_text("name,age\nada,36\nbob,200\n")
    return tmp_path


def command(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main.main(["pipeline", *map(str, words)])
    return int(ended.value.code or 0), capsys.readouterr()


def test_commands_tell_a_run_from_its_start_to_its_replay(place, capsys):
    given = (place / "p.yaml", "--store", place / "g")
    code, told = command(capsys, "run", *given, "--json", "--report", place / "run.html", "--as", "nightly")
    report = json.loads(told.out)
    assert (code, report["outcome"]) == (0, "published")
    counts = {name: report["steps"][-1][name] for name in ("rows_in", "written", "quarantined")}
    assert counts == {"rows_in": 2, "written": 1, "quarantined": 1}
    assert "sane_age" in (place / "run.html").read_text()

    code, told = command(capsys, "run", *given, "--exit-code")
    assert (code, told.out.splitlines()[0].startswith("people: nothing to do on main")) == (20, True)

    code, told = command(capsys, "status", *given)
    assert (code, "1 written, 1 quarantined" in told.out) == (0, True)
    code, told = command(capsys, "report", *given, "--run", report["run"])
    assert (code, told.out.splitlines()[0].startswith(f"people: published {report['commit']}")) == (0, True)
    code, told = command(capsys, "quarantine", *given)
    assert (code, told.out.splitlines()) == (0, [f"{report['run']}  Person  sane_age  1 row"])
    code, told = command(capsys, "quarantine", *given, "--export", place / "rows.jsonl")
    row = json.loads((place / "rows.jsonl").read_text())
    assert (code, json.loads(row["row"])["name"], row["rule"]) == (0, "bob", "sane_age")

    (place / "p.yaml").write_text((place / "p.yaml").read_text().replace("130}", "250}"))
    code, told = command(capsys, "quarantine", *given, "--replay", "--json")
    assert (code, json.loads(told.out)["steps"][-1]["written"]) == (0, 1)
    with omnigraph.open(place / "g") as graph:
        assert len(graph.query("query q() { match { $p: Person } return { $p.name } }")) == 2
        assert graph.log()[-2].actor == "nightly"
    assert command(capsys, "quarantine", *given)[1].out == "no row of people is in quarantine\n"


@pytest.mark.core
def test_expectation_that_fails_has_its_exit_code_and_leaves_its_report(place, capsys):
    (place / "p.yaml").write_text((place / "p.yaml").read_text().replace("quarantine:", "fail:"))
    given = (place / "p.yaml", "--store", place / "g")
    code, told = command(capsys, "run", *given, "--report", place / "run.html")
    assert (code, told.out) == (2, "")
    assert "error: expectation 'sane_age' of step 'Person' does not hold for 1 of 2 rows" in told.err
    assert "an expectation failed" in (place / "run.html").read_text()
    assert command(capsys, "status", *given)[1].out == "people has not run on branch main\n"
