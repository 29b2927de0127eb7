"""Pages about Spark do what they say; the blocks of a page continue each other, with the session of the tests."""

from __future__ import annotations

import contextlib
import io

import pytest

from tests.e2e.process import copy_people
from tests.e2e.test_docs_snippets import ELSEWHERE, read_snippets

LEAST = {"spark.md": 7, "resolve.md": 2}


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
