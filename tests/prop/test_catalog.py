"""Laws of compiled schemas over generated and over damaged ones."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.catalog import (
    RULES,
    Catalog,
    assign_identities,
    catalog_from_json,
    catalog_to_json,
    compile_schema,
    describe_catalog,
    index_intents,
)
from omnigraph.catalog.arrow import arrow_schema
from omnigraph.catalog.declare import schema_text
from omnigraph.errors import OmnigraphError, SchemaCheckError
from omnigraph.lang.pg import format_schema, parse_schema
from omnigraph.lang.pg.ast import InterfaceDecl, SchemaFile
from tests.corpus.cases import load_cases
from tests.prop.mutate import fuzz_rounds, mutate
from tests.prop.strategies_catalog import compilable
from tests.prop.strategies_pg import schema_files

pytestmark = pytest.mark.more

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"

DOMAIN = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
_CORPUS = Path(__file__).parents[1] / "corpus" / "pg-check"
_VOCABULARY = (
    *(
        "node A {",
        "edge E: A -> A {",
        "interface I {",
        "implements I",
        "enum(a)",
        "Vector(2)",
        "String",
        "I32?",
        "Blob",
    ),
    *("@key", "@unique", "@index", "@embed(a)", "@key(a)", "@unique(a, b)", "@range(a, 0..1)", '@check(a, "(")', "}"),
    *("[String]", "a: String", "src", "dst", '@description("")', "@rename_from", "@instruction(x)", "A", "E", "I", "a"),
)


@settings(derandomize=True, deadline=None, max_examples=100 if LONG else 15)
@given(compilable())
def test_what_compiles_is_stored_exactly_and_has_tables_and_indexes(tree: SchemaFile):
    catalog = compile_schema(tree)
    assert catalog_from_json(catalog_to_json(catalog)) == catalog
    # Written as text again it means the same.
    assert compile_schema(parse_schema(schema_text(catalog))).shape_hash == catalog.shape_hash
    _use(catalog)


@settings(derandomize=True, deadline=None, max_examples=60 if LONG else 12)
@given(compilable(), st.randoms(use_true_random=False))
def test_the_shape_does_not_depend_on_order(tree: SchemaFile, rng: Random):
    declarations = []
    for declaration in rng.sample(tree.declarations, len(tree.declarations)):
        if isinstance(declaration, InterfaceDecl):
            shuffled = tuple(rng.sample(declaration.properties, len(declaration.properties)))
            declarations.append(replace(declaration, properties=shuffled))
        else:
            items = tuple(rng.sample(declaration.items, len(declaration.items)))
            declarations.append(replace(declaration, items=items))
    moved = compile_schema(SchemaFile(declarations=tuple(declarations)))
    assert moved.shape_hash == compile_schema(tree).shape_hash


@settings(derandomize=True, deadline=None, max_examples=60 if LONG else 12)
@given(compilable())
def test_formatting_does_not_change_the_catalog(tree: SchemaFile):
    assert compile_schema(parse_schema(format_schema(tree))) == compile_schema(tree)


@settings(derandomize=True, deadline=None, max_examples=200 if LONG else 30)
@given(schema_files)
def test_incoherent_schemas_break_a_known_rule_at_a_place(tree: SchemaFile):
    _outcome(tree)


def test_mutated_schemas_compile_or_break_a_known_rule_at_a_place():
    cases = load_cases(_CORPUS)
    sound = [case.sections["schema"] for case in cases if case.sections["expect"].startswith("ok")]
    texts = [*sound, *sound, *(case.sections["schema"] for case in cases)]
    rng = Random(20_240_602)  # noqa: S311 - a seeded generator is what makes the run repeatable
    outcomes: Counter[str] = Counter()
    for _ in range(fuzz_rounds(10_000)):
        try:
            tree = parse_schema(mutate(rng, rng.choice(texts), _VOCABULARY))
        except OmnigraphError:
            continue
        outcomes[_outcome(tree)] += 1
    # Edits that leave nothing legal would test the parser alone.
    assert outcomes["ok"] > 500
    assert len(outcomes) > len(RULES) / 2


def _outcome(tree: SchemaFile) -> str:
    """Return the rule that a schema breaks, or ``ok`` after the catalog was put to every use it has."""
    try:
        catalog = compile_schema(tree)
    except SchemaCheckError as error:
        rule, place = error.details.rule, error.details.place
    else:
        _use(catalog)
        return "ok"
    assert rule in RULES
    assert place is not None
    return rule


def _use(catalog: Catalog) -> None:
    identified = assign_identities(catalog, DOMAIN)
    assert catalog_from_json(catalog_to_json(identified)) == identified
    types = (*identified.interfaces, *identified.nodes, *identified.edges)
    described = describe_catalog(identified).rstrip("\n").split("\n") if types else []
    assert len([line for line in described if not line.startswith("  ")]) == len(types)
    for table in (*identified.nodes.values(), *identified.edges.values()):
        schema = arrow_schema(table)
        assert len(set(schema.names)) == len(schema.names)
        assert {intent.column for intent in index_intents(table)} <= set(schema.names)
        names = [intent.name for intent in index_intents(table)]
        assert len(set(names)) == len(names)
