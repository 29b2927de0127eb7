"""Runs schema lint over the cases of ``pg-lint``.

``findings`` lists all findings in order, one per line: severity, code, ``Type`` or ``Type.property``, and a part of
the message.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.catalog.compile import compile_schema
from omnigraph.catalog.lint import LINT_CODES, SchemaFinding, lint_schema
from omnigraph.lang.pg import parse_schema
from tests.corpus.cases import Case, load_cases

CASES = load_cases(Path(__file__).parent / "pg-lint")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_findings_are_the_expected_ones(case):
    findings = _lint(case)
    wanted = [line.split(" ", 3) for line in case.sections["findings"].splitlines()]
    found = [[finding.severity.value, finding.code, _target(finding)] for finding in findings]
    assert found == [line[:3] for line in wanted]
    for finding, (*_, fragment) in zip(findings, wanted, strict=True):
        assert fragment in finding.message
        assert finding.severity is LINT_CODES[finding.code].severity
        assert finding.place.end > finding.place.start


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_finding_points_into_the_declaration_that_it_is_about(case):
    for finding in _lint(case):
        above = "\n".join(case.sections["schema"].splitlines()[: finding.place.line])
        assert finding.type_name in above


def test_every_code_is_found_in_some_case_and_absent_from_another():
    found = [{finding.code for finding in _lint(case)} for case in CASES]
    never = [code for code in LINT_CODES if not any(code in codes for codes in found)]
    always = [code for code in LINT_CODES if all(code in codes for codes in found)]
    assert (never, always) == ([], [])


def _lint(case: Case) -> tuple[SchemaFinding, ...]:
    tree = parse_schema(case.sections["schema"])
    return lint_schema(tree, compile_schema(tree))


def _target(finding: SchemaFinding) -> str:
    return finding.type_name if finding.property is None else f"{finding.type_name}.{finding.property}"
