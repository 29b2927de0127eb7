"""The page about Spark does what it says; its blocks continue each other, with the session of the tests."""

from __future__ import annotations

import contextlib
import io

from tests.e2e.process import ROOT, copy_people
from tests.e2e.test_docs_snippets import read_snippets
from tests.spark.clusters.processes import CONNECT, MASTER, WORKER

PAGE = ROOT / "docs" / "user" / "spark.md"


def test_programs_of_a_cluster_are_those_that_the_tests_start():
    text = PAGE.read_text(encoding="utf-8")
    assert all(f" {program} " in text for program in (MASTER, WORKER, CONNECT))


# A stream starts several processes, and each loads its libraries.
def test_page_does_what_it_says(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(copy_people(tmp_path))
    snippets = read_snippets(PAGE)
    assert len(snippets) >= 7
    names: dict[str, object] = {}
    for snippet in snippets:
        assert snippet.language == "python"
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            exec(compile(snippet.body, str(snippet), "exec"), names)  # noqa: S102 - that is the test
        assert shown.getvalue() == (snippet.output or ""), str(snippet)
