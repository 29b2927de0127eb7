"""The demo and the example pipeline run to their ends and show what they promise."""

from __future__ import annotations

import importlib.util

from tests.e2e.process import ROOT


def example(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_demo_tells_its_whole_story(spark, tmp_path, capsys):
    example("demo").main(tmp_path, spark, people=5000)
    told = capsys.readouterr().out
    for promised in (
        "zoe    mutate",
        "yan    insert",
        '~ Person bo  level: "junior" → "senior"',
        '+ Team lab  code: "lab"  name: "Lab"',
        "before the merge: junior",
        "after it:         senior",
        "lance    Lance in a week",
        "20,000 rows in ",
        "{'people': 5002}",
        "{'within_three_hops': 19}",
    ):
        assert promised in told, promised


def test_pipeline_cleans_loads_reviews_and_merges(spark, tmp_path, capsys):
    example("spark_pipeline").main(tmp_path, spark)
    assert capsys.readouterr().out.splitlines() == [
        "loaded 5 rows into branch import, 0 were there already",
        '  insert WorksIn ["cem","core"]',
        '  insert WorksIn ["ida","core"]',
        "  insert Person cem",
        "  insert Person ida",
        "  update Person mira",
        "conflicts: 0",
        "merged: fast_forward",
    ]


def test_example_of_a_pipeline_is_reviewed_merged_ranked_and_run_again(spark, tmp_path, monkeypatch):
    monkeypatch.setenv("CRM_RAW", "")
    told = []
    example("crm/story").main(tmp_path, spark, lambda line: told.extend(str(line).splitlines()))
    page = (tmp_path / "report.html").read_text()
    assert "every team has somebody" in page
    # What the page about pipelines shows of it.
    shown = (ROOT / "docs" / "user" / "pipelines.md").read_text(encoding="utf-8").rpartition("```text\n")[2]
    promises = shown.partition("```")[0].splitlines()
    assert len(promises) >= 5
    for promised in promises:
        assert [line for line in told if line.startswith(promised)], (promised, told)
    assert [line for line in told if "pipeline crm" in line], told
