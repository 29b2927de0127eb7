"""The reference of the query language has an example of every construct that the grammar knows.

Every example of the page is parsed with the tables of the real parser, and the productions that it used are noted. A
construct that none of them uses is missing from the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import pytest

from omnigraph.ir.functions import FUNCTIONS
from omnigraph.lang.gq.lexer import QueryLexing
from omnigraph.lang.lalr import Parser, Tables
from omnigraph.lang.tables import open_tables
from tests.query_pages import REFERENCE, ROOT, read_examples

# That a word of the language may also be a name, as of an edge that is called like an operator, is one fact, told once,
# and not one for each of the words.
NAMES = {"soft_word", "edge_word", "worded"}
# Terminals that stand for several words: each of them is a construct.
SEVERAL_WORDS = {"AGGREGATE", "TEXT_FUNCTION", "CMP"}

Part = tuple[str, str]


class NotingParser(Parser):
    """A parser that builds nothing, and notes the productions and the tokens of what it reads."""

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables, object(), QueryLexing(tables))
        self.productions: set[int] = set()
        self.words: set[str] = set()
        self._rules = [(rule.origin, rule.size, self._noting(number)) for number, rule in enumerate(tables.rules)]
        self._leaves = dict.fromkeys(SEVERAL_WORDS, self.words.add)

    def _noting(self, number: int):
        return lambda children: self.productions.add(number)


def expansions(tables: Tables) -> dict[int, tuple[str, ...]]:
    """Return the symbols of every production, read backwards along the states that end in it.

    Every state is entered by one symbol, and all ways into the end of a production spell the same symbols.
    """
    entered: dict[int, str] = {}
    before: dict[int, int] = {}
    for table in (tables.shifts, tables.gotos):
        for state in range(tables.states):
            for symbol, target in table[state].items():
                assert entered.setdefault(target, symbol) == symbol
                before[target] = state
    found: dict[int, tuple[str, ...]] = {}
    for state in range(tables.states):
        for number, _ in tables.reductions[state]:
            symbols = tuple(_backwards(state, tables.rules[number].size, entered, before))[::-1]
            assert found.setdefault(number, symbols) == symbols
    return found


def _backwards(state: int, size: int, entered: dict[int, str], before: dict[int, int]) -> Iterator[str]:
    for _ in range(size):
        yield entered[state]
        state = before[state]


@cache
def noted() -> NotingParser:
    """The parser that has read every example of the reference, those that are wrong in other ways included."""
    parser = NotingParser(open_tables("omnigraph.lang.gq"))
    for example in read_examples(REFERENCE):
        if example.fails != "query.syntax":
            parser.parse(example.text)
    return parser


def test_every_production_has_an_example():
    """One that fails here is a new construct: describe it in ``docs/user/query-reference.md``, with an example."""
    tables = open_tables("omnigraph.lang.gq")
    symbols = expansions(tables)
    assert len(symbols) == len(tables.rules)

    def parts(numbers: set[int]) -> set[Part]:
        rules = [(tables.rules[number], symbols[number]) for number in numbers]
        # What is repeated goes on with itself: twice is enough.
        return {
            (rule.method or rule.origin, symbol)
            for rule, expansion in rules
            for symbol in expansion
            if not NAMES & {rule.origin, rule.method, symbol} and symbol != rule.origin
        }

    assert sorted(parts(set(symbols)) - parts(noted().productions)) == []


def test_every_aggregate_search_and_comparison_has_an_example():
    terminals = {terminal.name: terminal.pattern for terminal in open_tables("omnigraph.lang.gq").terminals}
    words = {word for name in SEVERAL_WORDS for word in re.findall(r"[a-z_]{2,}|[<>!=]+=?", _words_of(terminals[name]))}
    assert len(words) > 15
    assert words - noted().words == set()


def _words_of(pattern: str) -> str:
    """Return the alternatives of a pattern without what must not follow them."""
    return pattern.split("(?![", maxsplit=1)[0].replace("(?:", "")


def test_every_kind_of_comment_has_an_example():
    texts = "\n".join(example.text for example in read_examples(REFERENCE))
    assert re.search(r"^\s+//", texts, re.MULTILINE)
    assert "/*" in texts


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_is_listed_with_an_example(name: str):
    page = (ROOT / "docs" / "user" / "functions.md").read_text(encoding="utf-8")
    assert re.search(rf"^\| `{name}\(.*\| `.*{name}\(", page, re.MULTILINE)


# Words that only go with another one, or name a value, and cost nothing of their own.
PARTS = {
    *(
        "absent",
        "all",
        "as",
        "asc",
        "desc",
        "else",
        "end",
        "first",
        "for",
        "if",
        "last",
        "nulls",
        "query",
        "set",
        "then",
    ),
    *("when", "where", "strict", "now", "date", "datetime", "true", "false", "null", "version"),
}
# Chapters about constructs; what the others tell costs nothing.
CHAPTERS = ("Expressions", "Match", "Return", "Stages and unions", "Mutations")


def _costs() -> dict[str, str]:
    """What each section of the chapters about constructs says about costs, by its heading."""
    page = re.sub(r"^```.*?^```$", "", REFERENCE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    parts = re.split(r"^(##+) (.*)$", page, flags=re.MULTILINE)
    found, chapter = {}, ""
    for level, heading, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        chapter = heading if level == "##" else chapter
        if chapter in CHAPTERS:
            told = re.findall(r"\*\*Cost\.\*\*(.*?)(?=\n\n|\n\* |\Z)", text, flags=re.DOTALL)
            found[heading] = "".join(told)
    return found


def test_every_section_about_a_construct_says_what_it_costs():
    introductions = {"Expressions", "Match", "Stages and unions", "Mutations", "What happens to a key that exists"}
    assert [heading for heading, cost in _costs().items() if not cost and heading not in introductions] == []


def test_every_keyword_is_told_of_where_costs_are():
    """A reader of a text can say what it costs: a keyword that is missing here is a construct without a cost."""
    patterns = (terminal.pattern for terminal in open_tables("omnigraph.lang.gq").terminals)
    words = {word for pattern in patterns for word in re.findall(r"^[a-z_]+[a-z0-9_]*(?=\(\?!\[)", pattern)}
    assert len(words) > 40
    told = {word for cost in _costs().values() for code in re.findall(r"`([^`]+)`", cost) for word in code.split()}
    assert words - PARTS - told == set()
