"""Random reads of the second edition: each parses, fits its schema, and the naive evaluator answers it."""

from __future__ import annotations

import dataclasses
import os
from random import Random

import pytest

from omnigraph.lang.gq import ast, parse_queries
from omnigraph.lang.gq.format import format_queries
from tests.prop.random_graphs import random_graph
from tests.prop.read_schemas import NOW_MS, SCHEMAS
from tests.query_oracle import Fault, evaluate
from tests.query_oracle.functions import FUNCTIONS, OTHERS
from tests.query_oracle.texts import seeded_text

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"
COUNT = 5_000 if LONG else 500
# Text search is written by the generator of the first edition.
UNWRITTEN = {"TextSearch"}


@pytest.fixture(scope="module")
def graphs():
    return [random_graph(Random(number), SCHEMAS[number % len(SCHEMAS)], 3 + number // 8) for number in range(32)]  # noqa: S311


@pytest.fixture(scope="module")
def reads():
    return [seeded_text(seed, SCHEMAS[seed % len(SCHEMAS)]) for seed in range(COUNT)]


@pytest.fixture(scope="module")
def trees(reads):
    return [parse_queries(read.text) for read in reads]


def test_every_text_has_an_answer(reads, trees, graphs):
    rows = faults = 0
    for seed, (read, tree) in enumerate(zip(reads, trees, strict=True)):
        (decl,) = tree.queries
        try:
            answer = evaluate(decl, SCHEMAS[seed % len(SCHEMAS)], graphs[seed % len(graphs)], read.parameters, NOW_MS)
        except Fault:
            faults += 1
        else:
            rows += bool(answer.rows)
    # Texts that find nothing, or fail, prove little.
    assert rows > COUNT * 0.4
    assert faults < COUNT * 0.1


def test_every_text_is_its_formatted_self(reads, trees):
    for read, tree in zip(reads, trees, strict=True):
        assert parse_queries(format_queries(tree)).queries == tree.queries, read.text


def test_texts_cover_every_function_and_every_form(trees):
    functions, forms = set(), set()
    for tree in trees:
        for node in _nodes(tree.queries[0].body):
            forms.add(type(node).__name__)
            if isinstance(node, ast.Call):
                functions.add(node.function.text)
    wanted = {one.__name__ for one in (*ast.Expression.__args__, *ast.Clause.__args__)}
    assert set(FUNCTIONS) | set(OTHERS) == functions
    assert wanted - forms == UNWRITTEN


def test_texts_cover_every_option(trees):
    bodies = [tree.queries[0].body for tree in trees]
    nodes = [node for body in bodies for node in _nodes(body)]
    aggregates = [node for node in nodes if isinstance(node, ast.Aggregate)]
    walks = [node for node in nodes if isinstance(node, ast.Traversal)]
    assert {one.function for one in aggregates} == set(ast.AggregateFunction.__args__)
    assert any(one.is_distinct for one in aggregates)
    assert any(one.where is not None for one in aggregates)
    assert any(one.argument is None for one in aggregates)
    assert any(one.alternatives for one in walks)
    assert any(one.hops is not None and one.hops.maximum is None for one in walks)
    assert any(one.where is not None and one.edge_variable is None for one in walks)
    assert any(one.where is not None and one.edge_variable is not None for one in walks)
    assert {one.is_all for one in nodes if isinstance(one, ast.PathClause)} == {True, False}
    assert {one.kind for one in nodes if isinstance(one, ast.Block)} == {"exists", "not", "count"}
    assert {one.op for one in nodes if isinstance(one, ast.Comparison)} == set(ast.ConditionOp.__args__)
    assert {one.op for one in nodes if isinstance(one, ast.Arithmetic)} == set(ast.ArithmeticOp.__args__)
    assert {one.nulls for one in nodes if isinstance(one, ast.Ordering)} == {None, "first", "last"}
    for field in ("is_distinct", "having", "orderings", "offset", "limit", "per"):
        assert any(getattr(body, field) for body in bodies), field
        assert any(getattr(node, field) for node in nodes if isinstance(node, ast.Stage)), field
    assert {union.keeps_duplicates for body in bodies for union in body.unions} == {True, False}


def _nodes(tree):
    if isinstance(tree, tuple):
        for item in tree:
            yield from _nodes(item)
    elif dataclasses.is_dataclass(tree):
        yield tree
        for field in dataclasses.fields(tree):
            yield from _nodes(getattr(tree, field.name))
