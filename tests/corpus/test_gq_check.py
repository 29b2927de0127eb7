"""Runs the type-check corpus: which queries fit the schema, and which rule refuses the others, where."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from omnigraph.errors import DiagnosticError
from omnigraph.ir import RULES, compile_query
from tests.corpus.cases import Case, Expectation, load_cases, read_expectation
from tests.corpus.schemas import case_catalog

FOLDER = Path(__file__).parent / "gq-check"
CASES = load_cases(FOLDER)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_query_fits_the_schema_or_is_refused_as_the_case_says(case: Case) -> None:
    expectation = read_expectation(case.sections["expect"])
    catalog = case_catalog(case, FOLDER)
    if expectation.verdict == "ok":
        assert compile_query(case.sections["query"], None, catalog).plan.describe()
        return
    with pytest.raises(DiagnosticError) as caught:
        compile_query(case.sections["query"], None, catalog)
    check_refusal(caught.value, expectation)


def test_every_rule_has_a_case_that_violates_it() -> None:
    violated = {rule for case in CASES for rule in read_expectation(case.sections["expect"]).all("rule")}
    assert sorted(set(RULES) - violated) == []


def test_a_rule_is_only_claimed_by_a_type_error() -> None:
    for case in CASES:
        expectation = read_expectation(case.sections["expect"])
        if expectation.all("rule"):
            assert expectation.verdict == "error query.type", case.id


# What a query must hold to have passed a rule: a rule without a passing case could refuse everything.
EXERCISED = {
    "T1": r"\$p: Person",
    "T2": r"\{ name: ",
    "T3": r"age: 3\b",
    "T4": r"knows",
    "T5": r"memberOf",
    "T6": r"\$p\.age",
    "T7": r">= 1\.5",
    "T8": r"sum\(",
    "T9": r"not \{",
    "T10": r"insert ",
    "T11": r"where age",
    "T12": r"insert Note \{ text",
    "T13": r"insert Person \{ name: [^}]*, age:",
    "T14": r"set \{ age: \$a",
    "T15": r"knows\{2,3\}",
    "T16": r"update Person",
    "T17": r"nearest\(.*limit",
    "T18": r"order \{ nearest\(",
    "T19": r"search\(.* = true",
    "T20": r"bm25\(",
    "T21": r"rrf\(.*limit",
    "T22": r"<knows>",
    "T23": r"\$w:knows",
    "T24": r"photo: \$b",
    "T25": r"\+ 1\) \* 2",
    "T26": r"coalesce\(",
    "T27": r" or not ",
    "T28": r"having n > 1",
    "T29": r"min\(\$f\.age\), max\(\$f\.age\)",
}


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_has_a_case_that_keeps_it(rule: str) -> None:
    accepted = [case for case in CASES if read_expectation(case.sections["expect"]).verdict == "ok"]
    assert any(re.search(EXERCISED[rule], case.sections["query"], re.DOTALL) for case in accepted)


def check_refusal(error: DiagnosticError, expectation: Expectation) -> None:
    details = error.details
    assert f"error {error.code}" == expectation.verdict
    assert [details.rule] == (expectation.all("rule") or [None])
    for fragment in expectation.all("contains"):
        assert fragment in error.message
    for suggestion in expectation.all("suggests"):
        assert suggestion in (details.suggestion or "")
    assert details.place is not None
    for place in expectation.all("at"):
        assert f"{details.place.line}:{details.place.column}" == place
