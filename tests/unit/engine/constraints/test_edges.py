"""Endpoints, orphans and cardinality."""

import pytest
from tests.constraint_graph import catalog_of, found, messages, part

GRAPH = catalog_of("""
node Person { name: String @key }
node Company { name: String @key }
edge Knows: Person -> Person
edge WorksAt: Person -> Company
""")


def node(name):
    return {"id": name, "name": name}


def edge(identifier, src, dst):
    return {"id": identifier, "src": src, "dst": dst}


STORED = {
    "Person": [node("ada"), node("bob")],
    "Company": [node("acme")],
    "Knows": [edge("k", "ada", "bob")],
    "WorksAt": [edge("w", "ada", "acme")],
}


def test_ends_may_be_stored_or_part_of_the_change():
    people = part(GRAPH, "Person", [node("cy")])
    edges = part(GRAPH, "Knows", [edge("1", "cy", "cy"), edge("2", "ada", "cy"), edge("3", "cy", "bob")])
    assert messages(GRAPH, people, edges, stored=STORED) == []


def test_a_missing_end_is_named_with_the_type_it_should_be_in():
    edges = part(GRAPH, "WorksAt", [edge("1", "ada", "ada"), edge("2", "acme", "acme"), edge("3", "x", "y")])
    violations = found(GRAPH, edges, stored=STORED)
    assert [(item.rule, item.message, item.entity_id, item.property) for item in violations.items] == [
        ("endpoint", "dst 'ada' not found in Company", "1", "dst"),
        ("endpoint", "src 'acme' not found in Person", "2", "src"),
        ("endpoint", "src 'x' not found in Person", "3", "src"),
        ("endpoint", "dst 'y' not found in Company", "3", "dst"),
    ]


def test_a_self_edge_needs_its_one_node():
    assert messages(GRAPH, part(GRAPH, "Knows", [edge("1", "ada", "ada")]), stored=STORED) == []
    assert messages(GRAPH, part(GRAPH, "Knows", [edge("1", "zoe", "zoe")]), stored=STORED) == [
        "src 'zoe' not found in Person",
        "dst 'zoe' not found in Person",
    ]


def test_an_end_that_the_same_change_deletes_is_missing():
    gone = part(GRAPH, "Person", deletes=("bob",))
    edges = part(GRAPH, "Knows", [edge("1", "ada", "bob")], deletes=("k",))
    assert messages(GRAPH, gone, edges, stored=STORED) == ["dst 'bob' not found in Person"]


def test_a_delete_that_took_its_edges_along_is_clean():
    gone = part(GRAPH, "Person", deletes=("ada",))
    edges = part(GRAPH, "Knows", deletes=("k",))
    work = part(GRAPH, "WorksAt", deletes=("w",))
    assert messages(GRAPH, gone, edges, work, stored=STORED) == []


def test_a_delete_that_leaves_an_edge_behind_is_an_orphan_of_that_edge_type():
    gone = part(GRAPH, "Person", deletes=("ada",))
    edges = part(GRAPH, "Knows", deletes=("k",))
    (item,) = found(GRAPH, gone, edges, stored=STORED).items
    assert (item.rule, item.type_name, item.entity_id) == ("orphan", "WorksAt", "w")
    assert "src 'ada' not found in Person" in item.message


def test_an_overwrite_that_drops_a_referenced_node_fails_with_the_endpoint_message():
    whole = part(GRAPH, "Person", [node("ada")], replaces_all=True)
    (item,) = found(GRAPH, whole, stored=STORED).items
    assert item.rule == "orphan"
    assert "dst 'bob' not found in Person" in item.message


def test_an_overwrite_that_keeps_every_referenced_node_is_clean():
    whole = part(GRAPH, "Person", [node("ada"), node("bob"), node("cy")], replaces_all=True)
    assert messages(GRAPH, whole, stored=STORED) == []


def test_an_overwritten_edge_type_holds_no_orphans_and_meets_the_stored_nodes():
    people = part(GRAPH, "Person", [node("ada")], replaces_all=True)
    edges = part(GRAPH, "Knows", [edge("1", "ada", "ada")], replaces_all=True)
    assert messages(GRAPH, people, edges, stored=STORED) == []
    alone = part(GRAPH, "Knows", [edge("1", "ada", "bob")], replaces_all=True)
    assert messages(GRAPH, alone, stored=STORED) == []


def test_an_edge_that_is_moved_off_a_removed_node_is_no_orphan():
    gone = part(GRAPH, "Person", deletes=("bob",))
    moved = part(GRAPH, "Knows", [edge("k", "ada", "ada")])
    assert messages(GRAPH, gone, moved, stored=STORED) == []


def test_a_superseded_edge_row_needs_no_nodes():
    rows = [edge("1", "nobody", "ada"), edge("1", "bob", "ada")]
    assert messages(GRAPH, part(GRAPH, "Knows", rows), stored=STORED) == []


def test_both_sides_of_a_lost_self_edge_are_orphans():
    stored = {**STORED, "Knows": [edge("k", "ada", "ada")], "WorksAt": []}
    assert [item.property for item in found(GRAPH, part(GRAPH, "Person", deletes=("ada",)), stored=stored).items] == [
        "src",
        "dst",
    ]


def carded(bounds):
    return catalog_of(f"""
    node Person {{ name: String @key }}
    node Company {{ name: String @key }}
    edge WorksAt: Person -> Company @card({bounds})
    """)


WORKING = {
    "Person": [node("ada"), node("bob"), node("cy")],
    "Company": [node("acme"), node("zeta")],
    "WorksAt": [edge("w1", "ada", "acme"), edge("w2", "bob", "acme"), edge("w3", "bob", "zeta")],
}


def works(bounds, *, people=None, edges=None):
    catalog = carded(bounds)
    parts = [part(catalog, "Person", **people)] if people else []
    parts += [part(catalog, "WorksAt", **edges)] if edges else []
    return messages(catalog, *parts, stored=WORKING)


def says(source, count, bound):
    return [f"@card violation on edge WorksAt: source '{source}' has {count} edges ({bound})"]


@pytest.mark.parametrize(
    ("bounds", "people", "edges", "expected"),
    [
        ("1..1", {"rows": [node("dan")]}, None, []),
        ("0..1", None, {"rows": [edge("n", "cy", "acme")]}, []),
        ("0..1", None, {"rows": [edge("n", "ada", "zeta")]}, says("ada", 2, "max 1")),
        ("0..1", None, {"rows": [edge("n", "cy", "acme"), edge("m", "cy", "zeta")]}, says("cy", 2, "max 1")),
        ("0..1", None, {"rows": [edge("w1", "ada", "zeta")]}, []),
        ("0..1", None, {"rows": [edge("n", "ada", "zeta")], "deletes": ("w1",)}, []),
        ("0..1", None, {"rows": [edge("w1", "bob", "zeta")]}, says("bob", 3, "max 1")),
        ("1..", None, {"rows": [edge("w1", "cy", "acme")]}, says("ada", 0, "min 1")),
        ("1..", None, {"deletes": ("w1",)}, says("ada", 0, "min 1")),
        ("1..", None, {"deletes": ("w2",)}, []),
        ("2..", None, {"deletes": ("w2",)}, says("bob", 1, "min 2")),
        ("2..", None, {"rows": [edge("n", "ada", "zeta")]}, []),
        ("2..", None, {"rows": [edge("n", "cy", "zeta")]}, says("cy", 1, "min 2")),
        ("1..", {"deletes": ("ada",)}, {"deletes": ("w1",)}, []),
        ("1..", None, {"rows": [edge("w1", "cy", "acme")], "deletes": ("unknown",)}, says("ada", 0, "min 1")),
        ("0..1", None, {"rows": [edge("n", "bob", "acme")], "replaces_all": True}, []),
        ("1..", None, {"rows": [edge("n", "bob", "acme")], "replaces_all": True}, []),
        ("2..", None, {"rows": [edge("n", "bob", "acme")], "replaces_all": True}, says("bob", 1, "min 2")),
        ("0..0", None, {"rows": [edge("n", "cy", "acme")]}, says("cy", 1, "max 0")),
        ("1..2", None, {"rows": [edge("w1", "ada", "acme"), edge("w3", "ada", "zeta")]}, []),
        (
            "2..2",
            None,
            {"rows": [edge("w3", "ada", "zeta"), edge("n", "ada", "zeta")]},
            says("ada", 3, "max 2") + says("bob", 1, "min 2"),
        ),
        ("0..", None, {"rows": [edge("n", "ada", "zeta")], "deletes": ("w2",)}, []),
        ("0..1", None, {"rows": [edge("n", "cy", "acme"), edge("n", "cy", "zeta")]}, []),
    ],
)
def test_cardinality_counts_the_sources_that_the_change_touches(bounds, people, edges, expected):
    assert works(bounds, people=people, edges=edges) == expected


def test_a_source_with_too_many_edges_points_at_the_first_row_that_adds_one():
    import pyarrow as pa  # noqa: PLC0415 - only this test needs it

    catalog = carded("0..1")
    places = pa.table({"source": [0, 0], "line": [3, 8]})
    rows = [edge("n", "cy", "acme"), edge("m", "cy", "zeta")]
    change = part(catalog, "WorksAt", rows, sources=places)
    (item,) = found(catalog, change, stored=WORKING, sources=("e.jsonl",)).items
    assert (item.source, item.line, item.value) == ("e.jsonl", 3, "cy")


def test_a_source_that_lost_its_edges_has_no_place_to_point_at():
    catalog = carded("1..")
    (item,) = found(catalog, part(catalog, "WorksAt", deletes=("w1",)), stored=WORKING).items
    assert (item.source, item.line, item.entity_id, item.value) == (None, None, None, "ada")


def test_edge_types_come_in_name_order_and_uniqueness_before_ends_before_counts():
    catalog = catalog_of("""
    node P { name: String @key }
    edge B: P -> P @card(0..1) { @unique(src, dst) }
    edge A: P -> P
    """)
    rows = [edge("1", "x", "y"), edge("2", "x", "y")]
    violations = found(catalog, part(catalog, "B", rows), part(catalog, "A", rows), stored={"P": [node("x")]})
    assert [(item.type_name, item.rule) for item in violations.items] == [
        ("A", "endpoint"),
        ("A", "endpoint"),
        ("B", "unique"),
        ("B", "endpoint"),
        ("B", "endpoint"),
        ("B", "cardinality"),
    ]
