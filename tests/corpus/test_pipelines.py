"""Runs the cases of pipelines in YAML: everything that is wrong with one, in the order of its lines, or ``ok``.

They are checked against ``schema.pg`` beside the cases, or against a schema of their own.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.catalog import compile_schema
from omnigraph.errors import PipelineInvalidError
from omnigraph.lang.pg import parse_schema
from omnigraph.pipelines.check import find_mistakes
from omnigraph.pipelines.mistakes import refuse
from omnigraph.pipelines.yaml_file import read_yaml
from tests.corpus.cases import Case, load_cases

FOLDER = Path(__file__).parent / "pipelines"


@pytest.mark.parametrize("case", load_cases(FOLDER), ids=lambda case: case.id)
def test_pipeline_case(case: Case) -> None:
    schema = case.sections.get("schema") or (FOLDER / "schema.pg").read_text()
    assert told_of(case.sections["pipeline"], schema) == case.sections["expect"].splitlines()


def told_of(text: str, schema: str) -> list[str]:
    """Return all mistakes of a pipeline, one a line."""
    catalog = compile_schema(parse_schema(schema))
    try:
        declared = read_yaml(text.encode(), "p.yaml")
        refuse("", [*declared.mistakes, *find_mistakes(declared.declaration, catalog)])
    except PipelineInvalidError as error:
        return [str(item) for item in error.details.items]
    return ["ok"]
