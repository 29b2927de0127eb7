"""Runs the syntax corpus of the query language: what parses, as what, and how the rest is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.errors import DiagnosticError
from omnigraph.lang.gq import parse_queries
from omnigraph.lang.gq.ast import MutationBody, QueryFile, ReadBody
from tests.corpus.cases import Case, Expectation, load_cases, read_expectation

CASES = load_cases(Path(__file__).parent / "gq-syntax")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_source_is_taken_or_refused_as_the_case_says(case: Case) -> None:
    expectation = read_expectation(case.sections["expect"])
    source = case.sections["query"]
    if expectation.verdict == "ok":
        check_tree(parse_queries(source), expectation)
        return
    with pytest.raises(DiagnosticError) as caught:
        parse_queries(source)
    assert f"error {caught.value.code}" == expectation.verdict
    check_diagnostic(caught.value, expectation)


def check_diagnostic(error: DiagnosticError, expectation: Expectation) -> None:
    """Compare an error with the claims about it, and its place with what every place must satisfy."""
    place = error.details.place
    assert place is not None
    assert place.end > place.start
    for text in expectation.all("contains"):
        assert text in str(error)
    for at in expectation.all("at"):
        assert f"{place.line}:{place.column}" == at


def check_tree(tree: QueryFile, expectation: Expectation) -> None:
    """Compare the kinds of the first declaration's nodes with the claims about them."""
    counts = {"queries": len(tree.queries), "comments": len(tree.comments)}
    kinds: dict[str, list[str]] = {}
    match tree.queries[0].body if tree.queries else None:
        case ReadBody() as body:
            kinds["clauses"] = [type(clause).__name__ for clause in body.match]
            kinds["returns"] = [type(item.expression).__name__ for item in body.projections]
            kinds["orders"] = [type(item.expression).__name__ for item in body.orderings]
        case MutationBody() as body:
            kinds["statements"] = [type(statement).__name__ for statement in body.statements]
        case None:
            pass
    actual = {name: ", ".join(names) for name, names in kinds.items()} | {name: str(n) for name, n in counts.items()}
    for name, value in expectation.claims:
        assert actual[name] == value
