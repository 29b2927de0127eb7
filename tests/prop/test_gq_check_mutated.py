"""Broken queries through the whole front end: a plan or one of our errors, never anything else."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from omnigraph.errors import OmnigraphError
from omnigraph.ir import compile_query
from omnigraph.ir.model import (
    AntiJoin,
    BlockValue,
    Expand,
    Filter,
    NodeScan,
    Operator,
    OptionalJoin,
    ReadPlan,
    SameEntity,
    UnionScan,
    Walk,
)
from omnigraph.lang.gq import ast
from tests.corpus.cases import load_cases
from tests.corpus.schemas import compile_text
from tests.prop.mutate import fuzz_rounds, mutate

CORPUS = Path(__file__).parent.parent / "corpus" / "gq-check"
CATALOG = compile_text((CORPUS / "schema.pg").read_text(encoding="utf-8"))
SEEDS = [case.sections["query"] for case in load_cases(CORPUS)]

VOCABULARY = (
    *("$p", "$d", "$w", "$f", "$_", "$q", "$p.name", "$p.age", "$p.tags", "$d.vec", "$d.title", "$w.since", "$p.*"),
    *("Person", "Team", "Doc", "knows", "memberOf", "cites", "<knows>", "{1,2}", "{0,}", "not {", "}", "{", ",", ":"),
    *("=", "!=", "<", ">=", "contains", "starts_with", "now()", "null", "true", '"x"', "3", "2.5", "[1, 2]", "[]"),
    *('date("2026-01-31")', 'datetime("x")', "count(", "sum(", "min(", ")", "as who", "who", "asc", "desc"),
    *('search($d.title, "x")', 'bm25($d.title, "x")', 'nearest($d.vec, "x")', "rrf(", "limit 3", "order {"),
    *("insert", "update", "delete", "set {", "where", "from: ", "to: ", "$v: Vector(2)", "$s: String?", "$b: Blob"),
)


def test_a_mutated_query_gives_a_plan_or_one_of_our_errors() -> None:
    rng = Random(20260131)  # noqa: S311 - the same run for everyone, no secret
    outcomes: dict[str, int] = {}
    for _ in range(fuzz_rounds(4000)):
        data = mutate(rng, rng.choice(SEEDS), VOCABULARY)
        try:
            compiled = compile_query(data, None, CATALOG)
        except OmnigraphError as problem:
            outcome = problem.code
        else:
            outcome = "ok"
            compiled.plan.describe()
            compiled.plan.to_json()
            compiled.descriptor.to_json()
            if isinstance(compiled.plan, ReadPlan):
                assert isinstance(compiled.decl.body, ast.ReadBody)
                check_nothing_is_lost(compiled.decl.body, compiled.plan)
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    assert {"ok", "query.syntax", "query.type", "query.meaning"} <= set(outcomes)


def check_nothing_is_lost(body: ast.ReadBody, plan: ReadPlan) -> None:
    matched = plan.stages[-1].operators if plan.stages else plan.operators
    last = dataclasses.replace(body, stages=(), unions=())
    operators = list(walk(matched))
    predicates = sum(len(item.filters) for item in operators if isinstance(item, NodeScan | UnionScan | Expand | Walk))
    on_rows = [item for item in operators if isinstance(item, Filter) and not isinstance(item.predicate, SameEntity)]
    assert predicates + len(on_rows) == count_predicates(last)
    assert sum(isinstance(item, Expand | Walk) for item in operators) == count_traversals(last)
    private = [item.destination for item in operators if isinstance(item, Expand | Walk) and "#" in item.destination]
    assert len(private) == len(set(private))


def walk(operators: tuple[Operator, ...]) -> Iterator[Operator]:
    for operator in operators:
        yield operator
        if isinstance(operator, AntiJoin | OptionalJoin | BlockValue):
            yield from walk(operator.inner)


def nodes_of(node: Any) -> Iterator[Any]:
    """Yield a node of a tree and everything below it."""
    if isinstance(node, tuple):
        for item in node:
            yield from nodes_of(item)
    elif dataclasses.is_dataclass(node):
        yield node
        for part in dataclasses.fields(node):
            yield from nodes_of(getattr(node, part.name))


def count_predicates(body: ast.ReadBody) -> int:
    blocks = (node for node in nodes_of(body) if isinstance(node, ast.Block | ast.Negation | ast.OptionalBlock))
    total = 0
    for clause in (*body.match, *(clause for block in blocks for clause in block.clauses)):
        match clause:
            case ast.Binding():
                total += len(clause.predicates)
            case ast.Filter() | ast.TextSearch() | ast.Condition():
                total += 1
    return total


def count_traversals(body: ast.ReadBody) -> int:
    return sum(isinstance(node, ast.Traversal) for node in nodes_of(body))
