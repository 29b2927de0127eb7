"""Laws of the migration planner over generated schemas."""

from __future__ import annotations

import json
import os

from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.catalog.compile import compile_schema
from omnigraph.catalog.lint import lint_schema
from omnigraph.catalog.migration import UnsupportedChange, plan_creation, plan_migration
from omnigraph.catalog.model import Catalog
from omnigraph.errors import SchemaCheckError
from omnigraph.lang.pg import parse_schema
from omnigraph.lang.pg.ast import SchemaFile
from tests.prop.strategies_pg import schema_files

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"

DOMAIN = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
TYPES = ("String", "String?", "I32", "I32?", "I64?", "enum(x)", "enum(x, y)", "enum(x, y)?", "[String]?", "Vector(2)?")
PLAIN = ("", "", ' @description("d")', " @owner(1)")


@st.composite
def bodies(draw: st.DrawFn, *, has_key: bool, on_node: bool) -> str:
    """The items of a type: a few properties of few names, so that two drawn types often share some."""
    lines = [f"slug: String{' @key' if has_key else ''}"] if on_node else ["@key(src, dst)"] if has_key else []
    for name in draw(st.lists(st.sampled_from("abcd"), unique=True, max_size=4)):
        kind = draw(st.sampled_from(TYPES))
        is_scalar = kind[0] not in "[V"
        lines.append(
            f"{name}: {kind}{draw(st.sampled_from(PLAIN))}{' @index' if draw(st.booleans()) and is_scalar else ''}"
        )
        if is_scalar and draw(st.booleans()):
            lines.append(f"@unique({name}, {'slug' if on_node else 'dst'})")
        if on_node and kind.startswith("I") and draw(st.booleans()):
            lines.append(f"@range({name}, {draw(st.integers(0, 1))}..)")
        if on_node and kind.startswith("String") and draw(st.booleans()):
            lines.append(f'@check({name}, "{draw(st.sampled_from("xy"))}")')
    return "\n".join(draw(st.permutations(lines)))


@st.composite
def schemas(draw: st.DrawFn) -> str:
    """A schema that compiles, over so few names that two of them are mostly related."""
    blocks: list[str] = []
    interfaces = draw(st.lists(st.sampled_from("IJ"), unique=True))
    for name in interfaces:
        # Contributed names differ from the nodes' own and between interfaces, so that they always agree.
        kind = draw(st.sampled_from(TYPES[:8]))
        mark = draw(st.sampled_from(["", " @index", " @unique"]))
        blocks.append(f"interface {name} {{ {name.lower()}: {kind}{mark} }}")
    nodes = draw(st.lists(st.sampled_from("ABC"), unique=True))
    for name in nodes:
        chosen = draw(st.lists(st.sampled_from(interfaces), unique=True)) if interfaces else []
        implements = f" implements {', '.join(chosen)}" if chosen else ""
        body = draw(bodies(has_key=draw(st.booleans()), on_node=True))
        blocks.append(f"node {name}{draw(st.sampled_from(PLAIN))}{implements} {{\n{body}\n}}")
    for name in draw(st.lists(st.sampled_from("EF"), unique=True)) if nodes else []:
        ends = f"{draw(st.sampled_from(nodes))} -> {draw(st.sampled_from(nodes))}"
        card = draw(st.sampled_from(["", " @card(0..1)"]))
        body = draw(bodies(has_key=draw(st.booleans()), on_node=False))
        blocks.append(f"edge {name}: {ends}{card} {{\n{body}\n}}")
    return "\n".join(draw(st.permutations(blocks)))


@settings(derandomize=True, deadline=None, max_examples=150 if LONG else 25)
@given(schemas())
def test_a_schema_planned_onto_itself_has_no_step(text: str):
    tree = parse_schema(text)
    accepted = plan_creation(tree, DOMAIN).catalog
    plan = plan_migration(accepted, tree)
    assert plan.is_empty
    assert plan.catalog == accepted


@settings(derandomize=True, deadline=None, max_examples=200 if LONG else 30)
@given(schema_files)
def test_any_tree_that_compiles_has_no_step_onto_itself(tree: SchemaFile):
    try:
        plan = plan_creation(tree, DOMAIN)
    except SchemaCheckError:
        return
    lint_schema(tree, compile_schema(tree))
    again = plan_migration(plan.catalog, tree) if not plan.diagnostics else None
    assert again is None or again.is_empty


@settings(derandomize=True, deadline=None, max_examples=300 if LONG else 40)
@given(schemas(), schemas())
def test_every_difference_is_a_step_and_planning_it_twice_finds_nothing_more(before: str, after: str):
    accepted = plan_creation(parse_schema(before), DOMAIN).catalog
    desired = parse_schema(after)
    plan = plan_migration(accepted, desired)
    assert plan.is_empty == (compile_schema(desired).shape_hash == accepted.shape_hash)
    assert plan.is_supported == (not any(isinstance(step, UnsupportedChange) for step in plan.steps))
    # The last resort would mean that a kind of change was forgotten.
    assert not any(isinstance(step, UnsupportedChange) and step.entity == "schema" for step in plan.steps)
    assert json.loads(json.dumps(plan.to_json())) == plan.to_json()
    assert len(set(plan.steps)) == len(plan.steps)
    assert plan_migration(plan.catalog, desired).is_empty


@settings(derandomize=True, deadline=None, max_examples=150 if LONG else 25)
@given(schemas(), schemas())
def test_ids_of_what_stays_are_kept_and_no_id_is_used_twice(before: str, after: str):
    accepted = plan_creation(parse_schema(before), DOMAIN).catalog
    catalog = plan_migration(accepted, parse_schema(after)).catalog
    old, ids = _ids(accepted), _ids(catalog)
    assert len(set(ids.values())) == len(ids)
    assert {name: old[name] for name in ids.keys() & old.keys()} == {
        name: ids[name] for name in ids.keys() & old.keys()
    }
    assert all(number >= accepted.next_identity for name, number in ids.items() if name not in old)
    assert catalog.next_identity > max(ids.values(), default=0)


def _ids(catalog: Catalog) -> dict[str, int]:
    found: dict[str, int] = {}
    for kind, types in (("interface", catalog.interfaces), ("node", catalog.nodes), ("edge", catalog.edges)):
        for name, one in types.items():
            found[f"{kind}:{name}"] = one.id
            found.update({f"{kind}:{name}.{prop.name}": prop.id for prop in one.properties})
            if kind != "interface":
                found[f"{kind}:{name} table"] = one.incarnation
    return found
