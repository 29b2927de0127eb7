"""Runs the schema-check cases: what compiles, to which catalog, and which rule refuses the rest.

A case that compiles may claim ``respects: <rule>``: it comes close to that rule without breaking it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph.lang.pg
from omnigraph.catalog import RULES, compile_schema, describe_catalog
from omnigraph.errors import DiagnosticError, SchemaCheckError
from omnigraph.lang.pg import parse_schema
from tests.corpus.cases import Case, load_cases, read_expectation

_CASES = load_cases(Path(__file__).parent / "pg-check")


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.id)
def test_schema_check_case(case: Case) -> None:
    expected = read_expectation(case.sections["expect"])
    if expected.verdict == "ok":
        catalog = compile_schema(parse_schema(case.sections["schema"]))
        if "catalog" in case.sections:
            assert describe_catalog(catalog) == case.sections["catalog"]
        return
    with pytest.raises(DiagnosticError) as caught:
        compile_schema(parse_schema(case.sections["schema"]))
    error = caught.value
    assert f"error {error.code}" == expected.verdict
    for fragment in expected.all("contains"):
        assert fragment in error.message
    if isinstance(error, SchemaCheckError):
        assert [error.details.rule] == expected.all("rule")
    assert error.details.place is not None
    assert [f"{error.details.place.line}:{error.details.place.column}"] == expected.all("at")


def test_every_rule_is_broken_by_a_case_and_respected_by_another() -> None:
    broken = set(_claims("rule"))
    respected = set(_claims("respects"))
    assert sorted(set(RULES) - broken) == []
    assert sorted(set(RULES) - respected) == []
    assert sorted((broken | respected) - set(RULES)) == []


def test_every_rule_that_the_parser_names_is_in_the_catalogue() -> None:
    folder = Path(omnigraph.lang.pg.__file__).parent
    sources = [path.read_text() for path in folder.glob("*.py")]
    named = {word for text in sources for word in re.findall(r'_refuse\(\s*"([a-z_]+)"', text)}
    assert named
    assert sorted(named - set(RULES)) == []


def _claims(name: str) -> Iterator[str]:
    for case in _CASES:
        yield from read_expectation(case.sections["expect"]).all(name)
