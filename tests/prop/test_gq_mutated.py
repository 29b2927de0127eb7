"""No edit of a query text brings the reader down: it answers with a tree or with an error of ours."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from omnigraph.errors import DiagnosticError, OmnigraphError
from omnigraph.lang.gq import parse_queries
from omnigraph.lang.gq.format import format_queries
from tests.corpus.cases import load_cases
from tests.prop.mutate import fuzz_rounds, mutate

_CORPUS = Path(__file__).parents[1] / "corpus"
_VOCABULARY = (
    *("query", "match", "return", "order", "limit", "not", "as", "desc", "contains", "starts_with", "insert", "set"),
    *("update", "delete", "where", "now()", "nearest(", "search(", "rrf(", "count(", "date(", "true", "name", "Person"),
    *("@description(", "@", "$p", "$P", "$", "$p.", "$p.*", "{", "}", "(", ")", "[", "]", "{1,2}", "{1,}", "?", ":"),
    *("<", ">", ">=", "!=", "=", ",", ".", "*", "-", "0", "1.5", "99999999999999999999999", "Vector(3)", "String"),
    *("and", "or", "in", "is null", "is not null", "not in", "case when", "then", "else", "end", "exists {", "count {"),
    *(
        "optional {",
        "each $x in",
        "path $p:",
        "with {",
        "having",
        "offset",
        "per {",
        "union all",
        "distinct",
        "nulls last",
    ),
    *(
        "upsert",
        "if absent",
        "strict",
        "for each $p",
        "if version =",
        "null",
        "+",
        "%",
        "/",
        "|",
        "lower(",
        "[0]",
        "1e3",
    ),
    *("'x'", "ends_with", "matches", "any(", "percentile("),
    *('"', '"x"', "\\", "//", "/*", "*/", "\n", "'", ";"),
)


@pytest.mark.more
def test_mutated_queries_raise_nothing_but_our_errors():
    cases = [*load_cases(_CORPUS / "gq-syntax"), *load_cases(_CORPUS / "gq-format")]
    texts = [case.sections["query"] for case in cases if "error" not in case.sections.get("expect", "")]
    rng = Random(20_240_602)  # noqa: S311 - a seeded sequence of edits, no secret
    rounds, parsed, placeless = fuzz_rounds(4_000), 0, 0
    for _ in range(rounds):
        data = mutate(rng, rng.choice(texts), _VOCABULARY)
        try:
            tree = parse_queries(data)
        except OmnigraphError as error:
            if isinstance(error, DiagnosticError):
                placeless += error.details.place is None
            continue
        parsed += 1
        written = format_queries(tree)
        reread = parse_queries(written)
        assert reread == tree, data
        assert format_queries(reread) == written, data
    assert placeless == 0
    # Edits that leave nothing legal would test the error path alone.
    assert parsed > rounds // 10
