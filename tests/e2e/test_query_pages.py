"""Every example on the pages about the query language gives exactly what its page shows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import DiagnosticError, OmnigraphError
from omnigraph.graph.branch import BranchVerbs
from tests.query_pages import CLUB, REFERENCE, TUTORIAL, Example, open_club, read_examples, run_example

REFERENCE_EXAMPLES = [example for example in read_examples(REFERENCE) if example.language == "gq"]


@pytest.fixture(scope="module")
def club(tmp_path_factory: pytest.TempPathFactory) -> Iterator[omnigraph.Graph]:
    """The club as it was loaded: no example writes to its main branch."""
    with open_club(tmp_path_factory.mktemp("club")) as graph:
        yield graph


def test_tutorial_can_be_followed_to_the_letter(tmp_path: Path):
    examples = read_examples(TUTORIAL)
    assert len(examples) >= 30
    with open_club(tmp_path) as graph:
        for example in examples:
            check_example(graph, example)


def test_tutorial_shows_the_schema_of_the_club():
    assert f"```pg\n{(CLUB / 'schema.pg').read_text(encoding='utf-8')}```\n" in TUTORIAL.read_text(encoding="utf-8")


@pytest.mark.parametrize("example", REFERENCE_EXAMPLES, ids=str)
def test_reference_example_gives_what_the_page_shows(example: Example, club: omnigraph.Graph):
    check_example(own_state(club, example), example)


def own_state(club: omnigraph.Graph, example: Example) -> BranchVerbs:
    """Return the club for an example that reads it, and a branch of it for one that changes it."""
    is_change = example.fails is None and example.is_mutation
    return club.create_branch(f"line-{example.line}") if is_change else club


def check_example(graph: BranchVerbs, example: Example) -> None:
    if example.fails is None:
        assert run_example(graph, example) == example.shown, str(example)
        return
    with pytest.raises(OmnigraphError) as caught:
        run_example(graph, example)
    error = caught.value
    rule = error.details.rule if isinstance(error, DiagnosticError) else None
    assert example.fails in (rule, error.code), str(example)
