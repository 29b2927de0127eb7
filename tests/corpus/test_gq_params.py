"""Runs the parameter corpus: which JSON each declared type takes, and as what."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from omnigraph.errors import QueryParameterError
from omnigraph.ir import decode_parameter_text, decode_parameters
from omnigraph.lang.gq import parse_queries
from tests.corpus.cases import Case, load_cases, read_expectation

CASES = load_cases(Path(__file__).parent / "gq-params")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_parameters_are_decoded_or_refused_as_the_case_says(case: Case) -> None:
    expectation = read_expectation(case.sections["expect"])
    if expectation.verdict == "ok":
        decoded = decode(case)
        for claim in expectation.all("value"):
            name, _, text = claim.partition(" = ")
            assert json.loads(json.dumps(decoded[name], default=str)) == json.loads(text)
            assert type(json.loads(text)) is type(json.loads(json.dumps(decoded[name], default=str)))
        return
    with pytest.raises(QueryParameterError) as caught:
        decode(case)
    assert f"error {caught.value.code}" == expectation.verdict
    for fragment in expectation.all("contains"):
        assert fragment in caught.value.message


def decode(case: Case) -> Any:
    declaration = parse_queries(case.sections["query"]).queries[0]
    mode: Any = case.sections.get("mode", "strict").strip()
    return decode_parameters(declaration.parameters, decode_parameter_text(case.sections["params"]), mode)
