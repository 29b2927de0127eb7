# ruff: noqa: INP001 - a script, not a package
"""Builds the site of the documentation, ``build/site``, from the pages below ``docs`` and the files that they link to.

``make docs`` runs it. The pages are copied to ``build/pages`` first, because a site holds nothing outside of its folder
and its generator does not know what our fences say to the tests. Any warning fails the build, and so does anything of
another host that a built page would load.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pygments.lexer import RegexLexer
from pygments.lexers import LEXERS
from pygments.token import Comment, Keyword, Name, Number, Punctuation, String, Whitespace

from omnigraph.lang.tables import open_tables

# Pygments finds the lexers of this module by their names.
__all__ = ["GqLexer", "PgLexer"]

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
INDEX = DOCS / "README.md"
BUILD = ROOT / "build"
PAGES, SITE = BUILD / "pages", BUILD / "site"
# Code that pages link to is shown on pages of its own, in the language of its ending.
_LANGUAGES = {".py": "python", ".sh": "sh", ".service": "ini", ".pg": "pg", ".gq": "gq"}

_LINK = re.compile(r"(?<=\]\()(?!https?://|#|mailto:)(?P<target>[^)#\s]+)(?P<anchor>#[^)\s]*)?(?=\))")
_FENCE = re.compile(r"^(?P<fence>```+)(?P<language>\w+) [^\n`]+$", re.MULTILINE)

# The kinds of tokens, by parts of the names of terminals; the first that fits decides.
_TOKEN_TYPES: Mapping[str, Any] = {
    "COMMENT": Comment,
    "IGNORE": Comment,
    "STRING": String,
    "FLOAT": Number,
    "INT": Number,
    "VARIABLE": Name.Variable,
    "ANNOTATION": Name.Decorator,
    "_OPEN": Name.Decorator,
    "INDEX_KIND": Name.Decorator,
    "TYPE_NAME": Name.Class,
    "NAME": Name,
    "IDENT": Name,
    "ENUM_VALUE": Name,
}


def _tokens(language: str) -> Mapping[str, Any]:
    """Return the rules of a lexer: the words of a language before its names, and values of enums after its numbers."""
    terminals = open_tables(f"omnigraph.lang.{language}").terminals
    words = [one for one in terminals if re.match(r"(\(\?:)?[a-z]", one.pattern)]
    others = sorted((one for one in terminals if one not in words), key=lambda one: one.name == "ENUM_VALUE")
    kinds = [next((kind for part, kind in _TOKEN_TYPES.items() if part in one.name), Punctuation) for one in others]
    return {
        "root": [
            (r"\s+", Whitespace),
            *((one.pattern if one.text is None else rf"{one.pattern}\b", Keyword) for one in words),
            *((one.pattern, kind) for one, kind in zip(others, kinds, strict=True)),
        ]
    }


class GqLexer(RegexLexer):
    """Highlights queries by the terminals of their grammar."""

    name = "omnigraph query"
    aliases = ("gq",)
    tokens = _tokens("gq")


class PgLexer(RegexLexer):
    """Highlights schemas by the terminals of their grammar."""

    name = "omnigraph schema"
    aliases = ("pg",)
    tokens = _tokens("pg")


def read_nav() -> list[dict[str, Any]]:
    """Return the first page, then the sections of the index with what the first column of their tables links to."""
    nav: list[dict[str, Any]] = [{"Home": staged_name(INDEX)}]
    for line in INDEX.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            pages: list[dict[str, str]] = []
            nav.append({line.removeprefix("## "): pages})
        elif line.startswith("| ["):
            for title, target in re.findall(r"\[([^\]]+)\]\(([^)]+)\)", line.split(" | ")[0]):
                pages.append({title[0].upper() + title[1:]: staged_name((DOCS / target).resolve())})
    return nav


def staged_name(path: Path) -> str:
    """Return the place of a file of the repository below the pages of the site."""
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    inside = path.relative_to(ROOT).as_posix()
    return inside if path.suffix == ".md" else f"files/{inside}.md"


def stage_pages() -> None:
    """Copy every page of the documentation, every picture, and what they link to, with links that hold there."""
    shutil.rmtree(PAGES, ignore_errors=True)
    waiting = [*sorted(DOCS.rglob("*.md")), *sorted(DOCS.rglob("*.svg")), *sorted(DOCS.rglob("*.css"))]
    staged = set(waiting)
    while waiting:
        path = waiting.pop()
        target = PAGES / staged_name(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            text, linked = stage_page(path)
            target.write_text(text, encoding="utf-8")
            waiting += linked - staged
            staged |= linked
        elif path.is_relative_to(DOCS):
            shutil.copyfile(path, target)
        else:
            target.write_text(_code_page(path), encoding="utf-8")


def stage_page(path: Path) -> tuple[str, set[Path]]:
    """Return the text of a page on the site, and the files that it links to."""
    linked = set()

    def relocate(link: re.Match[str]) -> str:
        target = (path.parent / link["target"]).resolve()
        if not target.is_file() or not target.is_relative_to(ROOT):
            return link[0]  # The generator reports it.
        linked.add(target)
        there = os.path.relpath(PAGES / staged_name(target), (PAGES / staged_name(path)).parent)
        return there + (link["anchor"] or "")

    text = _LINK.sub(relocate, path.read_text(encoding="utf-8"))
    return _FENCE.sub(r"\g<fence>\g<language>", text), linked


def _code_page(path: Path) -> str:
    language = _LANGUAGES.get(path.suffix, "text")
    return f"# {path.relative_to(ROOT).as_posix()}\n\n~~~~{language}\n{path.read_text(encoding='utf-8')}~~~~\n"


def build() -> None:
    """Build the site; any warning ends the process."""
    from zensical import build as build_site  # noqa: PLC0415 - tests read pages without the extra of documentation

    for lexer in (GqLexer, PgLexer):
        LEXERS[lexer.__name__] = (__name__, lexer.name, lexer.aliases, (), ())
    stage_pages()
    shutil.rmtree(SITE, ignore_errors=True)
    config = BUILD / "mkdocs.yml"
    config.write_text(json.dumps(site_config(), indent=2), encoding="utf-8")
    build_site(str(config), {"clean": True, "strict": True})
    problems = list(problems_of(SITE))
    if problems:
        sys.exit("\n".join(problems))


def site_config() -> dict[str, Any]:
    """Return what the generator is told. No font and no script comes from another host."""
    scheme = "(prefers-color-scheme: {})".format
    return {
        "site_name": "omnigraph",
        "docs_dir": PAGES.name,
        "site_dir": SITE.name,
        "nav": read_nav(),
        "theme": {
            "font": False,
            "features": [
                "navigation.sections",
                "navigation.top",
                "navigation.footer",
                "content.code.copy",
                "search.highlight",
                "toc.follow",
            ],
            "palette": [
                {"media": scheme("light"), "scheme": "default", "toggle": {"icon": "lucide/sun", "name": "Dark"}},
                {"media": scheme("dark"), "scheme": "slate", "toggle": {"icon": "lucide/moon", "name": "Light"}},
            ],
        },
        "extra_css": ["site.css"],
        "validation": {"invalid_links": True, "invalid_link_anchors": True, "unresolved_references": False},
        "markdown_extensions": {
            "attr_list": {},
            "md_in_html": {},
            "sane_lists": {},
            "pymdownx.highlight": {"pygments_lang_class": True},
            "pymdownx.superfences": {},
            "toc": {"permalink": True, "slugify": {"object": "pymdownx.slugs.slugify", "kwds": {"case": "lower"}}},
        },
    }


class _Page(HTMLParser):
    """The anchors of a built page, the pages that it links to, and the files that a browser loads with it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what an element names."""
        for name, value in attrs:
            if name == "id" or (tag, name) == ("a", "name"):
                self.anchors.add(value or "")
            elif (tag, name) == ("a", "href"):
                self.links.append(value or "")
            elif name in {"src", "href"}:
                self.loaded.append(value or "")


def problems_of(site: Path) -> Iterator[str]:
    """Yield links of a built site that lead nowhere, and what a browser would load from elsewhere."""
    pages = {path: _Page(path) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        place = path.relative_to(site).as_posix()
        for url in page.loaded + page.links:
            address = urlsplit(url)
            if address.scheme or address.netloc:
                if url in page.loaded and address.scheme != "data":
                    yield f"{place} loads {url}"
                continue
            target = site / address.path[1:] if address.path.startswith("/") else path.parent / unquote(address.path)
            target = (target / "index.html" if target.is_dir() else target).resolve() if address.path else path
            if not target.exists():
                yield f"{place} links to {url}, which does not exist"
            elif address.fragment and unquote(address.fragment) not in pages[target].anchors:
                yield f"{place} links to {url}, an anchor that does not exist"
    for style in sorted(site.rglob("*.css")):
        for url in re.findall(r"(?:url\(|@import )[\"']?((?:https?:)?//[^\"')]+)", style.read_text(encoding="utf-8")):
            yield f"{style.relative_to(site)} loads {url}"


if __name__ == "__main__":
    build()
