"""No edit of a schema text brings the reader down: it answers with a tree or with an error of ours."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from omnigraph.errors import DiagnosticError, OmnigraphError
from omnigraph.lang.pg import format_schema, parse_schema
from omnigraph.lang.pg.ast import SchemaFile
from tests.corpus.cases import load_cases
from tests.prop.mutate import fuzz_rounds, mutate

_CORPUS = Path(__file__).parents[1] / "corpus"
_VOCABULARY = (
    *("node", "edge", "interface", "implements", "enum", "Vector", "String", "Blob", "DateTime", "true", "id", "src"),
    *("@key", "@key(", "@card(", "@range(", "@check(", "@embed(", "@", "{", "}", "(", ")", "[", "]", "?", ":", "->"),
    *("..", "*", ",", "=", "-", "-1", "0", "1.5", "99999999999999999999999", '"', '"x"', "\\", "//", "/*", "*/", "\n"),
)


@pytest.mark.more
def test_mutated_schemas_raise_nothing_but_our_errors():
    cases = [*load_cases(_CORPUS / "pg-syntax"), *load_cases(_CORPUS / "pg-format")]
    texts = [case.sections["schema"] for case in cases if "error" not in case.sections.get("expect", "")]
    rng = Random(20_240_601)  # noqa: S311 - a seeded generator is what makes the run repeatable
    parsed = 0
    for _ in range(fuzz_rounds(10_000)):
        data = mutate(rng, rng.choice(texts), _VOCABULARY)
        answer = _read(data)
        if isinstance(answer, OmnigraphError):
            assert not isinstance(answer, DiagnosticError) or answer.details.place is not None, data
            continue
        parsed += 1
        written = format_schema(answer)
        reread = parse_schema(written)
        assert reread == answer, data
        assert format_schema(reread) == written, data
    # Edits that leave nothing legal would test the error path alone.
    assert parsed > 1_000


def _read(data: bytes) -> SchemaFile | OmnigraphError:
    try:
        return parse_schema(data)
    except OmnigraphError as error:
        return error
