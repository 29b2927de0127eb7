"""What a plan tells its executor beside its text."""

from __future__ import annotations

from tests.unit.ir.graphs import compile_text

from omnigraph.ir import compile_query, expect_read
from omnigraph.ir.model import NOW_PARAMETER, AntiJoin, Compare, Constant, NearestRanking, NodeScan, ParameterRef
from omnigraph.ir.types import DATETIME

DOCS = compile_text(
    """
    node Doc { slug: String @key  at: DateTime?  size: I32?  vec: Vector(2)? @embed("slug", model="m1") }
    edge Cites: Doc -> Doc
    """
)


def plan(body: str, parameters: str = "") -> str:
    return f"query q({parameters}) {{ {body} }}"


def test_a_text_query_of_nearest_asks_for_the_model_of_the_schema() -> None:
    text = plan('match { $d: Doc } return { $d.slug } order { nearest($d.vec, "near") } limit 2')
    ranking = expect_read(compile_query(text, None, DOCS)).ranking
    assert isinstance(ranking, NearestRanking)
    assert ranking.needs_embedding
    assert ranking.model == "m1"


def test_a_vector_query_of_nearest_needs_no_model() -> None:
    text = plan("match { $d: Doc } return { $d.slug } order { nearest($d.vec, $v) } limit 2", "$v: Vector(2)")
    ranking = expect_read(compile_query(text, None, DOCS)).ranking
    assert isinstance(ranking, NearestRanking)
    assert not ranking.needs_embedding


def test_now_travels_as_the_reserved_parameter() -> None:
    scan = expect_read(compile_query(plan("match { $d: Doc { at: now() } } return { $d }"), None, DOCS)).operators[0]
    assert isinstance(scan, NodeScan)
    test = scan.filters[0]
    assert isinstance(test, Compare)
    assert test.right == ParameterRef(name=NOW_PARAMETER, type=DATETIME)


def test_a_fitted_literal_carries_the_type_of_its_column() -> None:
    scan = expect_read(compile_query(plan("match { $d: Doc { size: 2.0 } } return { $d }"), None, DOCS)).operators[0]
    assert isinstance(scan, NodeScan)
    test = scan.filters[0]
    assert isinstance(test, Compare)
    assert isinstance(test.right, Constant)
    assert (test.right.value, str(test.right.type)) == (2, "I32")


def test_only_one_plain_hop_from_an_outer_variable_is_an_existence_test() -> None:
    def existence(block: str) -> bool:
        compiled = compile_query(plan(f"match {{ $d: Doc  not {{ {block} }} }} return {{ $d }}"), None, DOCS)
        last = expect_read(compiled).operators[-1]
        assert isinstance(last, AntiJoin)
        return last.is_existence_test

    assert existence("$d cites $_")
    assert existence("$_ cites $d")
    assert existence("$d <cites> $x")
    assert not existence("$d cites{1,2} $_")
    assert not existence("$d cites $x  $x.size > 3")
    assert not existence("$d cites $d")
    assert not existence("$d.size > 3")
