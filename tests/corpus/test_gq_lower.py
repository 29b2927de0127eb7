"""Runs the plan corpora: the exact plan of each query, or its refusal."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from omnigraph.errors import DiagnosticError
from omnigraph.ir import compile_query
from tests.corpus.cases import Case, load_cases, read_expectation
from tests.corpus.schemas import case_catalog
from tests.corpus.test_gq_check import check_refusal

HERE = Path(__file__).parent
LOWER = [(case, HERE / "gq-lower") for case in load_cases(HERE / "gq-lower")]
WORKED = [(case, HERE / "gq-worked") for case in load_cases(HERE / "gq-worked")]


@pytest.mark.parametrize(("case", "folder"), LOWER + WORKED, ids=lambda value: getattr(value, "id", ""))
def test_query_has_the_plan_that_the_case_shows(case: Case, folder: Path) -> None:
    catalog = case_catalog(case, folder)
    if "plan" in case.sections:
        plan = compile_query(case.sections["query"], None, catalog).plan
        assert plan.describe() + "\n" == case.sections["plan"]
        assert msgspec.json.decode(msgspec.json.encode(plan.to_json())) == plan.to_json()
        return
    with pytest.raises(DiagnosticError) as caught:
        compile_query(case.sections["query"], None, catalog)
    check_refusal(caught.value, read_expectation(case.sections["expect"]))


def test_every_worked_example_has_a_case() -> None:
    numbers = {int(case.title.split()[0]) for case, _ in WORKED}
    assert sorted(set(range(1, 55)) - numbers) == []
