"""Pages about Spark do what they say; the blocks of a page continue each other, with the session of the tests."""

from __future__ import annotations

import contextlib
import io

import pytest

from tests.e2e.process import copy_people
from tests.e2e.test_docs_snippets import ELSEWHERE, read_snippets
from tests.spark.clusters.processes import CONNECT, MASTER, WORKER

LEAST = {"spark.md": 7, "resolve.md": 3}


def test_programs_of_a_cluster_are_those_that_the_tests_start():
    (page,) = [page for page in ELSEWHERE if page.name == "spark.md"]
    text = page.read_text(encoding="utf-8")
    assert all(f" {program} " in text for program in (MASTER, WORKER, CONNECT))


# A stream starts several processes, and each loads its libraries.
@pytest.mark.parametrize("page", ELSEWHERE, ids=lambda page: page.name)
def test_page_does_what_it_says(spark, tmp_path, monkeypatch, page):
    monkeypatch.chdir(copy_people(tmp_path))
    snippets = read_snippets(page)
    assert len(snippets) >= LEAST[page.name]
    names: dict[str, object] = {}
    for snippet in snippets:
        assert snippet.language == "python"
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            exec(compile(snippet.body, str(snippet), "exec"), names)  # noqa: S102 - that is the test
        assert shown.getvalue() == (snippet.output or ""), str(snippet)
