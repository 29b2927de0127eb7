"""Findings of schema lint as data; which schema gives which finding is covered by the corpus."""

from __future__ import annotations

from omnigraph.catalog.compile import compile_schema
from omnigraph.catalog.lint import SchemaFinding, lint_schema
from omnigraph.lang.pg import parse_schema


def lint(text: str) -> tuple[SchemaFinding, ...]:
    tree = parse_schema(text)
    return lint_schema(tree, compile_schema(tree))


def test_empty_schema_has_no_finding():
    assert lint("") == ()


def test_finding_names_type_property_and_place():
    (finding,) = lint("node A {\n    slug: String @key\n    n: I32? @indx\n}")
    assert finding.to_json() == {
        "severity": "warning",
        "code": "OG-NM-201",
        "message": "annotation @indx has no effect here; did you mean @index?",
        "type_name": "A",
        "property": "n",
        "place": {"line": 3, "column": 13},
    }
    assert finding.place.text == "    n: I32? @indx"


def test_finding_about_a_whole_type_has_no_property():
    (finding,) = lint("node A {}")
    assert "property" not in finding.to_json()


def test_findings_come_in_the_order_of_their_places():
    found = lint("interface Z {}\nnode B {}\nnode A {}\nedge E: A -> B @card(1..)")
    places = [finding.place.start for finding in found]
    assert places == sorted(places)
    assert [finding.type_name for finding in found] == ["Z", "B", "A", "E", "E"]


def test_head_annotations_are_known_on_heads_only():
    found = lint('node A { slug: String @key  b: String? @owner("x") }\nnode B @rename_from("C") { slug: String @key }')
    assert [(finding.type_name, finding.property) for finding in found] == [("A", "b")]
