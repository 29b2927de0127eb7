"""The site of the documentation: every page is in its navigation, and what would not be shown well is found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pygments.token import Error, Keyword, Name

from tests.e2e.test_docs_snippets import DOCUMENTS, read_snippets
from tests.guards.layout import ROOT
from tests.guards.test_docs import script

SITE = script("make_site")


def test_the_navigation_has_every_page_once():
    nav = SITE.read_nav()
    pages = [target for entry in nav for value in entry.values() for target in _targets(value)]
    there = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert set(pages) == there | {"CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}
    assert len(pages) == len(set(pages))


def _targets(value: str | list[dict[str, str]]) -> list[str]:
    return [value] if isinstance(value, str) else [target for page in value for target in page.values()]


def test_staged_pages_link_to_pages_of_the_site():
    text, linked = SITE.stage_page(ROOT / "docs" / "user" / "pipelines.md")
    assert "](../files/examples/crm/pipeline.py.md)" in text
    assert ROOT / "examples" / "crm" / "pipeline.py" in linked
    assert "excerpt=" not in text
    assert "](dev/testing.md)" in SITE.stage_page(ROOT / "CONTRIBUTING.md")[0]


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_tables_and_lists_of_a_page_begin_behind_an_empty_line(page: Path):
    """Otherwise they are part of the paragraph above them for Markdown as the site reads it."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert re.findall(r"^(?![|\s>]|[-*] |\d+\. )\S.*\n(?:\||[-*] |\d+\. ).*$", text, re.MULTILINE) == []


@pytest.mark.parametrize(("language", "lexer"), [("gq", SITE.GqLexer), ("pg", SITE.PgLexer)])
def test_every_example_of_a_language_is_highlighted(language, lexer):
    snippets = [one for page in DOCUMENTS for one in read_snippets(page) if one.language == language]
    assert snippets
    for snippet in snippets:
        tokens = list(lexer().get_tokens(snippet.body))
        assert "".join(text for _, text in tokens).strip() == snippet.body.strip()
        if snippet.fails is None:
            assert Error not in {kind for kind, _ in tokens}, snippet
            assert Keyword in {kind for kind, _ in tokens}, snippet


def test_a_word_of_the_language_is_a_name_where_it_names_something():
    tokens = list(SITE.GqLexer().get_tokens("query q() { insert Day { order: 1 } }"))
    assert (Keyword, "insert") in tokens
    assert (Name.Class, "Day") in tokens
    assert (Name, "order") in tokens


def test_dead_links_and_foreign_hosts_of_a_built_site_are_found(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "index.html").write_text('<h1 id="top">b</h1>', encoding="utf-8")
    (tmp_path / "good.css").write_text("a { background: url(data:,x) }", encoding="utf-8")
    good = '<link href="good.css"><a href="b/#top">b</a><a href="https://example.org/">e</a><a href="/b/">b</a>'
    (tmp_path / "index.html").write_text(good, encoding="utf-8")
    assert list(SITE.problems_of(tmp_path)) == []
    bad = '<script src="https://example.org/a.js"></script><img src="no.svg"><a href="b/#no">b</a><a href="no/">n</a>'
    (tmp_path / "index.html").write_text(bad, encoding="utf-8")
    (tmp_path / "bad.css").write_text("@import 'https://example.org/font.css';", encoding="utf-8")
    assert list(SITE.problems_of(tmp_path)) == [
        "index.html loads https://example.org/a.js",
        "index.html links to no.svg, which does not exist",
        "index.html links to b/#no, an anchor that does not exist",
        "index.html links to no/, which does not exist",
        "bad.css loads https://example.org/font.css",
    ]
