"""Parse tables that are made ahead, and the parser that runs them."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from lark import Lark
from tests.corpus.cases import load_cases

from omnigraph.lang import tables
from omnigraph.lang.contextual import ContextualLexing
from omnigraph.lang.gq.lexer import QueryLexing
from omnigraph.lang.lalr import Parser, UnexpectedToken, UnreadableText
from omnigraph.lang.tables import make_tables, open_tables

CORPUS = Path(__file__).parents[2] / "corpus"
LEXINGS: dict[str, Any] = {"gq": QueryLexing, "pg": ContextualLexing}
SECTIONS = {"gq": "query", "pg": "schema"}
LANGUAGES = sorted(LEXINGS)


def grammar_of(language: str) -> str:
    return resources.files(f"omnigraph.lang.{language}").joinpath("grammar.lark").read_text(encoding="utf-8")


@pytest.mark.parametrize("language", LANGUAGES)
def test_tables_belong_to_the_grammar_beside_them(language: str):
    """Otherwise run ``python -m omnigraph.lang.tables``."""
    made = resources.files(f"omnigraph.lang.{language}").joinpath("grammar.json").read_text(encoding="utf-8")
    assert json.loads(made)["grammar"] == grammar_of(language)


class Shape:
    """Builds nested tuples: the name of each rule with its children."""

    def __getattr__(self, name: str) -> Any:
        if name.isupper() or name.startswith("_"):
            raise AttributeError(name)
        return lambda children: (name, *children)


def texts_of(language: str) -> list[str]:
    cases = [case for folder in ("syntax", "format", "lint") for case in load_cases(CORPUS / f"{language}-{folder}")]
    return [case.sections[SECTIONS[language]] for case in cases if SECTIONS[language] in case.sections]


@pytest.mark.parametrize("language", LANGUAGES)
def test_our_parser_reads_what_lark_reads(language: str):
    shape: Any = Shape()
    theirs = Lark(grammar_of(language), parser="lalr", lexer="contextual", transformer=shape)
    made = open_tables(f"omnigraph.lang.{language}")
    ours = Parser(made, shape, LEXINGS[language](made))
    texts = texts_of(language)
    assert len(texts) > 50
    for text in texts:
        try:
            expected = theirs.parse(text)
        except Exception:  # noqa: BLE001 - Lark refuses a text by several classes
            with pytest.raises((UnexpectedToken, UnreadableText)):
                ours.parse(text)
        else:
            assert ours.parse(text) == expected


def test_only_the_states_that_a_text_visits_are_read():
    made = open_tables("omnigraph.lang.gq")
    assert (len(made.shifts), len(made.gotos), len(made.reductions)) == (0, 0, 0)
    Parser(made, Shape(), LEXINGS["gq"](made)).parse("query q() { match { $p: Person } return { $p.age } }")
    for table in (made.shifts, made.gotos, made.reductions):
        assert 0 < len(table) < made.states / 4


def test_tables_of_another_grammar_are_passed_over(monkeypatch: pytest.MonkeyPatch):
    grammar = 'start: WORD\nWORD: "x"\n'
    data = {"grammar.lark": grammar.encode(), "grammar.json": make_tables('start: WORD\nWORD: "y"\n').encode()}
    monkeypatch.setattr(tables.pkgutil, "get_data", lambda _package, name: data[name])
    assert [terminal.text for terminal in open_tables("any").terminals] == ["x"]


def test_tables_that_are_missing_are_made(monkeypatch: pytest.MonkeyPatch):
    def get_data(_package: str, name: str) -> bytes:
        if name == "grammar.json":
            raise FileNotFoundError(name)
        return b'start: WORD\nWORD: "x"\n'

    monkeypatch.setattr(tables.pkgutil, "get_data", get_data)
    assert [terminal.text for terminal in open_tables("any").terminals] == ["x"]
