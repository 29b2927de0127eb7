"""Runs the cases of ``load``: rows from a file into a graph.

A case has a ``schema``, perhaps a ``seed`` that is loaded before, and ``data``, the lines of ``data.jsonl``. ``modes``
lists the modes it holds in, with ``patch`` behind a mode for patching. ``expect`` starts with ``loaded`` (claims:
``nodes`` and ``edges`` as ``Type=count``), ``nothing`` (no row, no commit) or ``error <code>`` (claims: ``contains``,
``at`` as ``file:line``, ``property``, ``value``, ``rule`` of the first violation, ``total``, ``id`` of a key that
exists). ``rows`` is what the graph holds afterwards, dates as counts, and ``"*"`` for an id that was made up.
A load that fails leaves the seed as it was, whatever the case says.
"""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import pytest

from omnigraph.errors import OmnigraphError
from tests.corpus.cases import Case, Expectation, load_cases, read_expectation
from tests.load_graph import export, load_lines, make_graph

CASES = [
    pytest.param(case, mode, id=f"{case.id}-{mode.replace(' ', '-')}")
    for case in load_cases(Path(__file__).parent / "load")
    for mode in case.sections.get("modes", "append\nmerge\noverwrite").splitlines()
]
_ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")


@pytest.mark.parametrize(("case", "mode"), CASES)
def test_load_does_as_the_case_says(case: Case, mode: str, tmp_path):
    expected = read_expectation(case.sections["expect"])
    word, *flags = mode.split()
    with make_graph(tmp_path / "graph", case.sections["schema"]) as graph:
        if "seed" in case.sections:
            load_lines(graph, tmp_path / "seed.jsonl", case.sections["seed"], "append")
        before = export(graph)
        run = partial(load_lines, graph, tmp_path / "data.jsonl", input_of(case), word, patch="patch" in flags)
        if expected.verdict.startswith("error"):
            with pytest.raises(OmnigraphError) as caught:
                run()
            _check_error(caught.value, expected, tmp_path)
            assert export(graph) == before
            return
        result = run()
        assert (result.commit is not None) == (expected.verdict == "loaded")
        assert [f"{name}={count}" for name, count in result.nodes_loaded.items()] == expected.all("nodes")
        assert [f"{name}={count}" for name, count in result.edges_loaded.items()] == expected.all("edges")
        if "rows" in case.sections:
            wanted = [json.loads(line) for line in case.sections["rows"].splitlines()]
            assert [without_fresh_ids(row) for row in export(graph)] == wanted


def _check_error(error: OmnigraphError, expected: Expectation, folder: Path) -> None:
    assert f"error {error.code}" == expected.verdict
    for fragment in expected.all("contains"):
        assert fragment in str(error).replace(f"{folder}/", "")
    first = error.details.items[0] if hasattr(error.details, "items") else None
    for place in expected.all("at"):
        assert f"{Path(first.source).name}:{first.line}" == place
    for name in ("property", "value", "rule", "type_name", "entity_id"):
        for wanted in expected.all(name):
            assert getattr(first, name) == wanted
    for total in expected.all("total"):
        assert error.details.total == int(total)
    for taken in expected.all("id"):
        assert taken in error.details.ids
    for location in expected.all("table"):
        assert error.details.location == location


def input_of(case: Case) -> bytes:
    # Cases are text files: a line that should hold bytes which are no text is written with escapes.
    data = case.sections["data"].encode()
    return data.decode("unicode_escape").encode("latin-1") if "escaped" in case.sections else data


def without_fresh_ids(row):
    if _ULID.fullmatch(row["data"]["id"]):
        row["data"]["id"] = "*"
    return row
