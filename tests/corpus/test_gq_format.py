"""Runs the formatting corpus of the query language."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.lang.gq import parse_queries
from omnigraph.lang.gq.format import format_queries
from tests.corpus.cases import Case, load_cases

CASES = load_cases(Path(__file__).parent / "gq-format")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_source_is_laid_out_as_the_case_says(case: Case) -> None:
    tree = parse_queries(case.sections["query"])
    written = format_queries(tree)
    assert written == case.sections["formatted"]
    reread = parse_queries(written)
    assert reread == tree
    assert format_queries(reread) == written
