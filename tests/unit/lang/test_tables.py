"""Parse tables that are made ahead."""

from __future__ import annotations

import json
from importlib import resources

import lark
import pytest
from lark import Transformer

from omnigraph.lang import tables
from omnigraph.lang.tables import build_parser, open_parser

TEXTS = {
    "omnigraph.lang.gq": "query q($n: String) { match { $p: Person { name: $n } $p knows $f } return { $f.age as a } }",
    "omnigraph.lang.pg": 'node Person @description("x") { name: String @key\n age: I32? @range(0..150) }',
}
PACKAGES = sorted(TEXTS)


@pytest.mark.parametrize("package", PACKAGES)
def test_tables_belong_to_the_grammar_beside_them(package: str):
    """Otherwise run ``python -m omnigraph.lang.tables``."""
    made = json.loads(resources.files(package).joinpath("grammar.json").read_text(encoding="utf-8"))
    grammar = resources.files(package).joinpath("grammar.lark").read_text(encoding="utf-8")
    assert (made["lark"], made["grammar"]) == (lark.__version__, grammar)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_parser_with_tables_made_ahead_reads_what_one_without_reads(package: str, monkeypatch):
    grammar = resources.files(package).joinpath("grammar.lark").read_text(encoding="utf-8")
    plain = build_parser(grammar, Transformer())
    monkeypatch.setattr(tables, "build_parser", lambda *_: pytest.fail("the tables were passed over"))
    assert open_parser(package, Transformer()).parse(TEXTS[package]) == plain.parse(TEXTS[package])


def test_tables_of_another_version_of_the_library_are_passed_over(monkeypatch):
    monkeypatch.setattr(tables.lark, "__version__", "0.0")
    monkeypatch.setattr(tables.Lark, "_load_from_dict", lambda *_, **__: pytest.fail("they were used"))
    assert open_parser("omnigraph.lang.pg", Transformer()).parse(TEXTS["omnigraph.lang.pg"])
