"""Compiling, kinds of queries and the plan cache."""

from __future__ import annotations

import threading

import pytest
from tests.unit.ir.graphs import PEOPLE, compile_text

from omnigraph.errors import OmnigraphError, QueryNotFoundError, QueryTypeError, UsageError, WrongQueryKindError
from omnigraph.ir import PlanCache, compile_query, expect_mutation, expect_read
from omnigraph.ir.model import MutationPlan, ReadPlan

CATALOG = compile_text()
READ = "query people() { match { $p: Person } return { $p.* } }"
MUTATION = 'query add() { insert Person { name: "x" } }'


def test_each_lane_takes_its_own_kind() -> None:
    assert isinstance(expect_read(compile_query(READ, None, CATALOG)), ReadPlan)
    assert isinstance(expect_mutation(compile_query(MUTATION, None, CATALOG)), MutationPlan)


def test_a_mutation_is_refused_by_the_read_lane() -> None:
    with pytest.raises(WrongQueryKindError, match="'add' is a mutation, not a read"):
        expect_read(compile_query(MUTATION, None, CATALOG))


def test_a_read_is_refused_by_the_mutation_lane() -> None:
    with pytest.raises(WrongQueryKindError, match="'people' is a read, not a mutation"):
        expect_mutation(compile_query(READ, None, CATALOG))


def test_a_name_selects_the_declaration() -> None:
    both = f"{READ}\n{MUTATION}"
    assert compile_query(both, "add", CATALOG).decl.is_mutation
    with pytest.raises(QueryNotFoundError):
        compile_query(both, None, CATALOG)
    with pytest.raises(QueryNotFoundError):
        compile_query(both, "remove", CATALOG)


def test_a_repeated_query_is_compiled_once() -> None:
    cache = PlanCache(4)
    assert cache.compile(READ, None, CATALOG) is cache.compile(READ, None, CATALOG)
    assert len(cache) == 1


def test_an_equal_catalog_read_again_shares_the_plan() -> None:
    cache = PlanCache(4)
    assert cache.compile(READ, None, CATALOG) is cache.compile(READ, None, compile_text())


def test_another_schema_gets_its_own_plan() -> None:
    cache = PlanCache(4)
    wider = compile_text(PEOPLE.replace("age: I32?", "age: I64?"))
    assert cache.compile(READ, None, CATALOG).plan != cache.compile(READ, None, wider).plan
    assert len(cache) == 2


def test_the_order_of_properties_is_part_of_the_schema() -> None:
    """The shape hash ignores it, the columns of ``$p.*`` do not."""
    cache = PlanCache(4)
    cache.compile(READ, None, CATALOG)
    turned = compile_text(PEOPLE.replace("name: String @key  age: I32?", "age: I32?  name: String @key"))
    plan = expect_read(cache.compile(READ, None, turned))
    assert [output.name for output in plan.outputs] == ["p.age", "p.name", "p.tags"]


def test_the_least_recently_used_plan_makes_room() -> None:
    cache = PlanCache(2)
    texts = [READ.replace("people", name) for name in ("a", "b", "c")]
    first = cache.compile(texts[0], None, CATALOG)
    second = cache.compile(texts[1], None, CATALOG)
    assert cache.compile(texts[0], None, CATALOG) is first
    cache.compile(texts[2], None, CATALOG)
    assert cache.compile(texts[0], None, CATALOG) is first
    assert cache.compile(texts[1], None, CATALOG) is not second
    assert len(cache) == 2


def test_long_texts_make_room_before_there_are_many_of_them() -> None:
    cache = PlanCache(100, max_text=3 * len(READ))
    texts = [READ.replace("people", f"peopl{number}") for number in range(5)]
    for text in texts:
        cache.compile(text, None, CATALOG)
    assert len(cache) == 3
    newest = cache.compile(texts[4], None, CATALOG)
    assert cache.compile(texts[4], None, CATALOG) is newest
    assert len(cache) == 3


def test_a_refused_query_is_not_cached() -> None:
    cache = PlanCache(2)
    for _ in range(2):
        with pytest.raises(QueryTypeError):
            cache.compile(READ.replace("Person", "Persn"), None, CATALOG)
    assert len(cache) == 0


def test_a_cache_holds_at_least_one_plan() -> None:
    with pytest.raises(UsageError, match="at least one entry, not 0"):
        PlanCache(0)


def test_threads_share_a_cache() -> None:
    cache = PlanCache(3)
    texts = [READ.replace("people", f"q{number}") for number in range(6)]
    failures: list[OmnigraphError] = []

    def work() -> None:
        try:
            for _ in range(5):
                for text in texts:
                    cache.compile(text, None, CATALOG)
        except OmnigraphError as problem:
            failures.append(problem)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(cache) == 3
