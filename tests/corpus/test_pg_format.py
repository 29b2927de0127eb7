"""The text cases of the schema formatter."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.lang.pg import format_schema, parse_schema
from tests.corpus.cases import Case, load_cases

_CASES = load_cases(Path(__file__).parent / "pg-format")


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.id)
def test_schema_text_is_laid_out_as_the_case_says(case: Case):
    tree = parse_schema(case.sections["schema"])
    written = format_schema(tree)
    assert written == case.sections["formatted"]
    assert parse_schema(written) == tree
    assert format_schema(parse_schema(written)) == written
