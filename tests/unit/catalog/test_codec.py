"""The stored catalog: reads back equal, and nothing but its own errors comes out of damaged bytes."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

import pytest

from omnigraph.catalog import assign_identities, catalog_from_json, catalog_hash, catalog_to_json, compile_schema
from omnigraph.catalog.shape import digest
from omnigraph.errors import CatalogCorruptError, CatalogFormatError
from omnigraph.lang.pg import parse_schema

_TEXT = """
interface Named { name: String @index @description("what it is called") }
node Doc @instruction("cite") @limit(5, unit="s") implements Named {
    slug: String @key
    state: enum(open, done)?
    text: String
    vector: Vector(4)? @embed(text, model="m-1") @index
    size: U64
    @range(size, 0..18446744073709551615)
    @check(slug, "^[a-z\\"é]+$")
}
node Small { x: F32  @range(x, -0.0000001..1.5) }
edge Cites: Doc -> Doc @card(0..3) { weight: F64  @key(src, dst)  @unique(weight, src) }
"""
_CATALOG = assign_identities(compile_schema(parse_schema(_TEXT)), "01ARZ3NDEKTSV4RRFFQ69G5FAV")


def _sealed(content: object, **changes: object) -> bytes:
    return json.dumps({"format": 1, "hash": digest(content), "catalog": content, **changes}).encode()


def _content() -> dict:
    return json.loads(catalog_to_json(_CATALOG))["catalog"]


@pytest.mark.parametrize("text", [_TEXT, "", "node A {}"])
def test_a_catalog_reads_back_equal_with_and_without_ids(text):
    for catalog in (compile_schema(parse_schema(text)), assign_identities(compile_schema(parse_schema(text)), "D")):
        assert catalog_from_json(catalog_to_json(catalog)) == catalog


def test_the_stored_form_names_its_format_and_its_hash():
    document = json.loads(catalog_to_json(_CATALOG))
    assert document["format"] == 1
    assert document["hash"] == catalog_hash(_CATALOG)
    assert document["catalog"]["shape_hash"] == _CATALOG.shape_hash


def test_catalogs_keep_the_bytes_that_graphs_have_stored():
    """What the language gained since leaves no trace in catalogs that do not use it."""
    assert catalog_hash(_CATALOG) == "sha256:536fae1335265c37f31172c7551d3a6a6b528fd0674509c31e83fb426ee3c845"
    assert _CATALOG.shape_hash == "sha256:26f59a2bda3a9cdaf6dc8b116b80b0c068df73f5789c222c5951f15069d1c90b"
    newer = """
    node A { s: enum("in progress", done) @default("in progress") }
    edge E: A -> A { w: F32  t: String  @range(w, 0..1.5)  @check(t, "^x") }
    """
    catalog = assign_identities(compile_schema(parse_schema(newer)), "01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert catalog_from_json(catalog_to_json(catalog)) == catalog
    assert catalog_hash(catalog) == "sha256:4863845f98569d6a704f836ac1b855bbef1a20327f5eeadac4da6def1cb19e14"
    edge = json.loads(catalog_to_json(catalog))["catalog"]["edges"][0]
    assert (edge["ranges"], edge["checks"]) == ([["w", "0", "1.5"]], [["t", "^x"]])


def test_range_bounds_are_exact():
    read = catalog_from_json(catalog_to_json(_CATALOG))
    assert read.nodes["Doc"].ranges[0].high == 18446744073709551615
    assert read.nodes["Small"].ranges[0].low == -0.0000001


def test_white_space_does_not_matter():
    document = json.loads(catalog_to_json(_CATALOG))
    assert catalog_from_json(json.dumps(document, indent=2).encode()) == _CATALOG


@pytest.mark.parametrize("version", [0, 2, 99, -1])
def test_another_format_is_refused_before_anything_else_is_read(version):
    with pytest.raises(CatalogFormatError) as caught:
        catalog_from_json(json.dumps({"format": version, "layout": "unheard of"}).encode())
    assert caught.value.details.found == str(version)


def test_a_changed_value_contradicts_the_hash():
    data = catalog_to_json(_CATALOG).replace(b'"open"', b'"shut"')
    with pytest.raises(CatalogCorruptError, match="does not match its hash"):
        catalog_from_json(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"null",
        b"{",
        b"\xff",
        b"[" * 100_000,
        b'{"format":true}',
        b'{"format":"1"}',
        b'{"format":1}',
        b'{"format":1.0,"hash":"","catalog":{}}',
        b'{"format":1,"hash":5,"catalog":{}}',
        b'{"format":1,"hash":"","catalog":123456789012345678901234567890}',
        b'{"format":1,"hash":"","catalog":' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"format":1,"hash":"","catalog":"\\ud800"}',
        _sealed(None),
        _sealed([]),
        _sealed({}),
        _sealed({"interfaces": []}),
        _sealed({}, extra=1),
    ],
)
def test_bytes_that_are_no_catalog_are_refused(data):
    with pytest.raises(CatalogCorruptError):
        catalog_from_json(data)


def _drop(content: dict) -> None:
    del content["nodes"][0]["key"]


def _add(content: dict) -> None:
    content["nodes"][0]["colour"] = "red"


def _mistype(content: dict) -> None:
    content["nodes"][0]["properties"][0]["nullable"] = "no"


def _unknown_scalar(content: dict) -> None:
    content["nodes"][0]["properties"][0]["scalar"] = "Complex"


def _twice(content: dict) -> None:
    content["nodes"].append(content["nodes"][-1])


def _property_twice(content: dict) -> None:
    content["nodes"][0]["properties"].append(content["nodes"][0]["properties"][0])


def _lost_key(content: dict) -> None:
    content["nodes"][0]["key"] = ["nowhere"]


def _lost_rule(content: dict) -> None:
    content["nodes"][0]["checks"] = [["nowhere", "x"]]


def _lost_interface(content: dict) -> None:
    content["nodes"][0]["implements"] = ["Nowhere"]


def _lost_interface_column(content: dict) -> None:
    content["interfaces"][0]["constraints"] = [["nowhere", "key"]]


def _lost_endpoint(content: dict) -> None:
    content["edges"][0]["to_type"] = "Nowhere"


def _repeated_id(content: dict) -> None:
    content["nodes"][0]["id"] = content["nodes"][1]["id"]


def _counter_behind(content: dict) -> None:
    content["next_identity"] = 3


def _ids_without_domain(content: dict) -> None:
    content["identity_domain"] = ""


def _shape(content: dict) -> None:
    content["shape_hash"] = "sha256:0"


def _flat_vector(content: dict) -> None:
    vector = next(prop for prop in content["nodes"][0]["properties"] if prop["scalar"] == "Vector")
    vector["dimension"] = None


def _round_string(content: dict) -> None:
    content["nodes"][0]["properties"][0]["dimension"] = 3


def _unsorted_enum(content: dict) -> None:
    enum = next(prop for prop in content["nodes"][0]["properties"] if prop["enum_values"])
    enum["enum_values"].reverse()


def _unsorted_types(content: dict) -> None:
    content["nodes"].reverse()


def _folded_edges(content: dict) -> None:
    content["edges"].insert(0, {**content["edges"][0], "name": "CITES", "id": 90, "incarnation": 91, "properties": []})
    content["edges"][0].update(key=None, uniques=[], indexes=[])
    content["next_identity"] = 99


def _odd_bound(content: dict) -> None:
    content["nodes"][1]["ranges"] = [["x", "-0.0000001", "01.50"]]


def _infinite_bound(content: dict) -> None:
    content["nodes"][1]["ranges"] = [["x", "9" * 400 + ".5", None]]


def _endless_bound(content: dict) -> None:
    content["nodes"][1]["ranges"] = [["x", "9" * 5000, None]]


@pytest.mark.parametrize(
    "damage",
    [
        *(_drop, _add, _mistype, _unknown_scalar, _twice, _property_twice, _lost_key, _lost_rule, _lost_interface),
        *(_lost_interface_column, _lost_endpoint, _repeated_id, _counter_behind, _ids_without_domain, _shape),
        *(_flat_vector, _round_string, _unsorted_enum, _unsorted_types, _folded_edges),
        *(_odd_bound, _infinite_bound, _endless_bound),
    ],
)
def test_content_that_contradicts_itself_is_refused_even_with_a_right_hash(damage):
    content = _content()
    damage(content)
    with pytest.raises(CatalogCorruptError, match=r"malformed|contradicts itself"):
        catalog_from_json(_sealed(content))


def test_damaged_bytes_raise_catalog_errors_only():
    rng = Random(7)  # noqa: S311 - a seed, not a secret
    good = catalog_to_json(_CATALOG)
    for _ in range(3_000):
        data = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(data))
            data[at : at + rng.randint(0, 3)] = rng.choice([b"", b"0", b'"', b"}", b"[", b"\xff", b"null", b"-1", b","])
        try:
            read = catalog_from_json(bytes(data))
        except (CatalogCorruptError, CatalogFormatError):
            continue
        assert read == _CATALOG


def test_the_hash_covers_what_the_shape_leaves_out():
    moved = replace(_CATALOG, next_identity=1_000)
    assert catalog_hash(moved) != catalog_hash(_CATALOG)
    assert moved.shape_hash == _CATALOG.shape_hash
