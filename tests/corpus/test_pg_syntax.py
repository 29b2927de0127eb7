"""The text cases of the schema language's syntax."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.errors import DiagnosticError, OmnigraphError
from omnigraph.lang.pg import format_schema, parse_schema
from tests.corpus.cases import Case, load_cases, read_expectation

_CASES = load_cases(Path(__file__).parent / "pg-syntax")


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.id)
def test_schema_text_is_read_as_the_case_says(case: Case):
    expected = read_expectation(case.sections["expect"])
    if expected.verdict == "ok":
        tree = parse_schema(case.sections["schema"])
        assert parse_schema(format_schema(tree)) == tree
        return
    with pytest.raises(OmnigraphError) as caught:
        parse_schema(case.sections["schema"])
    error = caught.value
    assert isinstance(error, DiagnosticError)
    assert expected.verdict == f"error {error.code}"
    place = error.details.place
    assert place is not None
    assert place.end > place.start
    for fragment in expected.all("contains"):
        assert fragment in str(error)
    assert expected.all("rule") in ([], [error.details.rule])
    assert expected.all("at") in ([], [f"{place.line}:{place.column}"])


def test_every_finding_that_names_a_rule_has_a_case():
    rules = {rule for case in _CASES for rule in read_expectation(case.sections["expect"]).all("rule")}
    assert rules == {
        "cardinality_order",
        "cardinality_range",
        "decimal_digits",
        "enum_duplicate",
        "enum_empty",
        "list_of_blob",
        "number_range",
        "reserved_name",
        "vector_dimension",
    }
