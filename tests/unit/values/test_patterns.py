"""Regular expressions that are compiled when they are first used."""

import re

import pytest

from omnigraph.values import patterns
from omnigraph.values.patterns import late_pattern


def test_an_expression_behaves_as_if_it_had_been_compiled_at_once():
    late, at_once = (
        late_pattern(r"(?P<word>[a-z]+) ([0-9]+)", re.IGNORECASE),
        re.compile(r"(?P<word>[a-z]+) ([0-9]+)", re.IGNORECASE),
    )
    text = "Ada 36, bob 7"
    assert late.findall(text) == at_once.findall(text)
    assert [found["word"] for found in late.finditer(text)] == ["Ada", "bob"]
    assert late.sub(r"\2", text) == "36, 7"
    assert (late.pattern, late.flags, late.groups) == (at_once.pattern, at_once.flags, at_once.groups)
    assert late.fullmatch(text) is None


def test_an_expression_is_compiled_by_the_first_who_uses_it(monkeypatch: pytest.MonkeyPatch):
    compiled = []
    monkeypatch.setattr(patterns.re, "compile", lambda *asked: compiled.append(asked) or re._compiler.compile(*asked))
    late = late_pattern("[0-9]+")
    assert compiled == []
    assert late.match("7")
    assert late.match("8")
    assert compiled == [("[0-9]+", 0)]
