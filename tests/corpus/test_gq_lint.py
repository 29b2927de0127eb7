"""Runs the lint corpus of query files: the whole report, as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from omnigraph.ir import RULES
from omnigraph.ir.lint import CODES, SchemaSource, lint_queries
from tests.corpus.cases import Case, load_cases
from tests.corpus.schemas import case_catalog

FOLDER = Path(__file__).parent / "gq-lint"
CASES = load_cases(FOLDER)
SCHEMA = SchemaSource(kind="file", location="schema.pg")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_file_gets_the_report_that_the_case_shows(case: Case) -> None:
    report = lint_queries(case.sections["query"].encode(), "queries.gq", case_catalog(case, FOLDER), SCHEMA)
    expected = json.loads(case.sections["report"])
    assert report.to_json() == expected
    assert list(report.to_json()) == list(expected)


def test_every_lint_code_has_a_case_with_and_one_without_it() -> None:
    reports = [json.loads(case.sections["report"]) for case in CASES]
    found = [{finding["code"] for finding in report["findings"]} for report in reports]
    assert sorted(code for code in CODES if not any(code in codes for codes in found)) == []
    assert sorted(code for code in CODES if all(code in codes for codes in found)) == []


def test_type_errors_are_reported_under_their_rule() -> None:
    errors = [result.get("error", "") for case in CASES for result in json.loads(case.sections["report"])["results"]]
    rules = {error.split(": ")[1] for error in errors if error}
    assert rules
    assert rules <= set(RULES)
