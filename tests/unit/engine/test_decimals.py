"""Decimals from files and parameters to storage, queries and files again: exact on every way, or refused."""

from __future__ import annotations

import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import omnigraph
from omnigraph.catalog.entity_ids import canonical_text, canonical_texts
from omnigraph.catalog.model import PropertyDef, PropertyType, Scalar
from omnigraph.engine.comparison import compare
from omnigraph.engine.constraints.row_rules import above, below
from omnigraph.engine.decimals import decimal_texts, exact_cast, to_doubles
from omnigraph.engine.rows.columns import read_column, wide_decimal
from omnigraph.errors import (
    BadRowsError,
    ConstraintViolationError,
    QueryParameterError,
    QueryRuntimeError,
    SchemaPlanError,
)
from omnigraph.ir.model import TargetColumn
from omnigraph.store.staging.columns import holds_all

NINES = "9" * 38
SCHEMA = """
node Item {
    slug: String @key
    price: Decimal(12, 2)? @index
    rate: Decimal(5, 4) @default(0.19)
    big: Decimal(38, 0)?
    steps: [Decimal(6, 1)]?
    number: I64?
    near: F64?
    @range(price, -1000.50..1000000)
}
node Account {
    no: Decimal(10, 2) @key
    limit: Decimal(4, 1)? @unique
}
edge Owns: Account -> Item { amount: Decimal(9, 3)? }
"""
LINES = [
    {
        "type": "Item",
        "data": {"slug": "a", "price": 10.10, "big": NINES, "steps": [1.5, "2"], "number": 3, "near": 10.1},
    },
    {
        "type": "Item",
        "data": {"slug": "b", "price": "3", "rate": 0.07, "big": int(NINES[:30]), "number": 3, "near": 3.0},
    },
    {"type": "Item", "data": {"slug": "c", "price": -1.5e1, "near": 0.5}},
    {"type": "Item", "data": {"slug": "d"}},
    {"type": "Account", "data": {"no": 1.50, "limit": "0.5"}},
    {"edge": "Owns", "from": "1.5", "to": "a", "data": {"amount": "1.125"}},
]


def decimal_type(precision, scale):
    return PropertyType(scalar=Scalar.DECIMAL, precision=precision, scale=scale)


def column(texts, precision, scale):
    return pa.array([None if text is None else Decimal(text) for text in texts], pa.decimal128(precision, scale))


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    folder = tmp_path_factory.mktemp("decimals")
    file = folder / "items.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in LINES), encoding="utf-8")
    with omnigraph.init(folder / "g", SCHEMA) as made:
        made.load(file)
        yield made


def rows(graph, match, returned, **given):
    declared = given.pop("declared", "")
    text = f"query q({declared}) {{ match {{ {match} }} return {{ {returned} }} }}"
    return [tuple(row.values()) for row in graph.query(text, params=given or None).to_arrow().to_pylist()]


# What Arrow must not be trusted with


def test_casts_are_exact_or_fail_where_arrow_itself_would_wrap_around():
    huge = column([NINES], 38, 0)
    with pytest.raises(pa.ArrowInvalid):
        exact_cast(huge, pa.decimal128(38, 30))
    assert exact_cast(pa.array([2**64 - 1], pa.uint64()), pa.decimal128(22, 2)).to_pylist() == [Decimal(2**64 - 1)]
    lists = pa.array([[Decimal("1.5"), None], None, []], pa.list_(pa.decimal128(3, 1)))
    assert exact_cast(lists, pa.list_(pa.decimal128(5, 2))).to_pylist() == [[Decimal("1.50"), None], None, []]


def test_texts_have_all_digits_and_no_exponent():
    small = column(["0.0000001", "0", None, "-12.5"], 20, 7)
    assert decimal_texts(small).to_pylist() == ["0.0000001", "0.0000000", None, "-12.5000000"]
    assert canonical_texts(decimal_type(20, 7), small.drop_null()).to_pylist() == ["0.0000001", "0", "-12.5"]
    assert canonical_texts(decimal_type(3, 0), column(["100", "0"], 3, 0)).to_pylist() == ["100", "0"]
    assert canonical_text(Scalar.DECIMAL, Decimal("-100.00")) == "-100"


def test_doubles_are_the_nearest_ones():
    texts = ["0.1", "2.675", "-123456789.37", None]
    assert to_doubles(column(texts, 38, 25)).to_pylist() == [0.1, 2.675, -123456789.37, None]
    assert to_doubles(column(texts, 20, 5)).to_pylist() == [0.1, 2.675, -123456789.37, None]


def test_parsed_columns_with_too_many_digits_are_doubtful_row_by_row():
    kind = decimal_type(4, 2)
    prop = PropertyDef(name="p", type=kind)
    parsed = pa.array([Decimal("99.99"), Decimal(100), None, Decimal(NINES)], wide_decimal(kind))
    values, bad = read_column(prop, parsed, "text")
    assert values.to_pylist() == [Decimal("99.99"), None, None, None]
    assert bad.tolist() == [False, True, False, True]


@pytest.mark.parametrize(
    ("op", "value", "expected"),
    [
        ("=", Decimal("1.50"), [True, False, False]),
        ("=", Decimal("1.505"), [False, False, False]),
        ("!=", Decimal("1.505"), [True, True, False]),
        ("<", Decimal("1.505"), [True, True, False]),
        (">", Decimal("1.495"), [True, False, False]),
        ("<=", 1, [False, True, False]),
        (">=", 0.5, [True, False, False]),
        ("<", 10**40, [True, True, False]),
        (">", Decimal("-1e30"), [True, True, False]),
        (">", Decimal("99.991"), [False, False, False]),
        ("<", float("inf"), [True, True, False]),
    ],
)
def test_a_column_is_compared_exactly_with_any_number(op, value, expected):
    kind = decimal_type(4, 2)
    of = {Decimal: decimal_type(38, 3), int: PropertyType(scalar=Scalar.I64)}.get(
        type(value), PropertyType(scalar=Scalar.F64)
    )
    found = compare(TargetColumn(property="p", type=kind), op, value, of)
    assert found.matches(column(["1.5", "-3", None], 4, 2)).to_pylist() == expected
    sql = found.sql()
    assert found.is_never or sql is not None


def test_what_is_pushed_to_storage_names_the_type():
    found = compare(TargetColumn(property="p", type=decimal_type(4, 2)), "<", Decimal("1.505"), decimal_type(4, 3))
    assert found.sql() == "`p` <= arrow_cast('1.50', 'Decimal128(4, 2)')"


def test_range_bounds_are_exact():
    values = column(["0.1", "0.2", None], 38, 20)
    assert below(values, Decimal("0.10000000000000000001")).to_pylist() == [True, False, None]
    assert above(values, Decimal("0.09999999999999999999")).to_pylist() == [True, True, None]
    assert below(values, 10**30).to_pylist() == [True, True, None]
    assert above(values, 10**30).to_pylist() == [False, False, None]


WIDENINGS = [
    (pa.decimal128(12, 2), pa.decimal128(12, 2), True),
    (pa.decimal128(13, 3), pa.decimal128(12, 2), True),
    (pa.decimal128(12, 3), pa.decimal128(12, 2), False),
    (pa.decimal128(20, 1), pa.decimal128(12, 2), False),
    (pa.decimal128(10, 0), pa.int32(), True),
    (pa.decimal128(10, 0), pa.uint32(), True),
    (pa.decimal128(9, 0), pa.int32(), False),
    (pa.decimal128(21, 2), pa.int64(), True),
    (pa.decimal128(20, 2), pa.int64(), False),
    (pa.decimal128(20, 0), pa.uint64(), True),
    (pa.decimal128(19, 0), pa.uint64(), False),
    (pa.decimal128(38, 10), pa.float64(), False),
    (pa.float64(), pa.decimal128(4, 1), False),
    (pa.int64(), pa.decimal128(4, 0), False),
]


@pytest.mark.parametrize(("wide", "narrow", "holds"), WIDENINGS)
def test_storage_widens_only_what_holds_every_value(wide, narrow, holds):
    assert holds_all(wide, narrow) is holds
    assert holds_all(pa.list_(wide), pa.list_(narrow)) is holds


# A graph


def test_values_are_stored_as_they_were_written(graph):
    found = rows(graph, "$i: Item", "$i.slug, $i.price, $i.rate, $i.big, $i.steps")
    assert found[0] == ("a", Decimal("10.10"), Decimal("0.1900"), Decimal(NINES), [Decimal("1.5"), Decimal("2.0")])
    assert found[1] == ("b", Decimal("3.00"), Decimal("0.0700"), Decimal(NINES[:30]), None)
    assert found[2][1:3] == (Decimal("-15.00"), Decimal("0.1900"))
    assert found[3][1] is None


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("$i.price = 10.1", ["a"]),
        ("$i.price = $i.near", ["b"]),
        ("$i.price = $i.number", ["b"]),
        ("$i.price >= 2.999", ["a", "b"]),
        ("$i.price in [3, 10.100, 7.777]", ["a", "b"]),
        ("$i.steps contains 2.0", ["a"]),
        (f"$i.big > {NINES[:29]}8.5", ["a", "b"]),
        ("$i.price * 2 = 20.2", ["a"]),
    ],
)
def test_conditions_compare_exactly(graph, condition, expected):
    assert [row[0] for row in rows(graph, f"$i: Item  {condition}", "$i.slug")] == expected


def test_parameters_are_exact(graph):
    given = rows(graph, "$i: Item  $i.price < $p", "$i.slug", declared="$p: Decimal(5, 3)", p=Decimal("10.101"))
    assert [row[0] for row in given] == ["a", "b", "c"]
    double = rows(graph, "$i: Item  $i.price < $p", "$i.slug", declared="$p: F64", p=10.1)
    assert [row[0] for row in double] == ["b", "c"]
    with pytest.raises(QueryParameterError, match=r"expected a decimal number, found 1\.5") as refused:
        rows(graph, "$i: Item  $i.price < $p", "$i.slug", declared="$p: Decimal(5, 3)", p=1.5)
    assert refused.value.hint == "pass a decimal.Decimal, or the number as text"


def test_aggregates_are_exact_and_overflow_is_an_error(graph):
    (found,) = rows(
        graph, "$i: Item", "sum($i.price) as s, avg($i.price) as a, max($i.price) as m, sum(distinct $i.rate) as d"
    )
    assert found == (Decimal("-1.90"), Decimal("-0.633333"), Decimal("10.10"), Decimal("0.2600"))
    with pytest.raises(QueryRuntimeError, match="sum does not fit 38 digits"):
        rows(graph, "$i: Item", "sum($i.big) as s")
    # What leaves 38 digits on the way and comes back is a sum like any other.
    match = "$i: Item { slug: 'a' }  each $n in [1, 1, -1]"
    assert rows(graph, match, "sum($i.big * $n) as s, avg($i.big * $n) as a") == [(Decimal(NINES), Decimal("3" * 38))]
    with pytest.raises(QueryRuntimeError, match="does not fit 38 digits for the values"):
        rows(graph, "$i: Item", "$i.big * 10 as x")


def test_results_are_exact_in_every_encoding(graph):
    result = graph.query("query q() { match { $i: Item { slug: 'a' } } return { $i.price as p, $i.steps as s } }")
    assert result.to_arrow().schema.field("p").type == pa.decimal128(12, 2)
    assert json.loads(result.to_json())["rows"] == [{"p": "10.10", "s": ["1.5", "2.0"]}]
    assert next(iter(result))["p"] == Decimal("10.10")
    assert "10.10" in str(result)


def test_mutations_store_what_fits_exactly(graph):
    with graph.transaction() as edit:
        edit.mutate("query m($p: Decimal(12, 2)) { insert Item { slug: 'e', price: $p } }", params={"p": "7.77"})
        with pytest.raises(QueryRuntimeError, match=r"value 19\.425 does not fit Decimal\(12, 2\)"):
            edit.mutate("query m() { update Item set { price: price * 2.5 } where slug = 'e' }")
        edit.mutate("query m() { update Item set { price: round(price * 2.5, 2) } where price = 7.77 }")
        assert [
            row["p"] for row in edit.query("query q() { match { $i: Item { slug: 'e' } } return { $i.price as p } }")
        ] == [Decimal("19.43")]
        edit.mutate("query m() { upsert Account { no: 1.50, limit: 4 } }")
        edit.mutate("query m() { update Account set { limit: limit + 0.5 } where no = 1.5 }")
        found = edit.query("query q() { match { $a: Account } return { id($a) as id, $a.limit as most } }")
        assert [tuple(row.values()) for row in found] == [("1.5", Decimal("4.5"))]
        edit.rollback()


def test_rules_of_the_schema_hold(graph):
    with pytest.raises(ConstraintViolationError, match=r"value -1000\.51 < min -1000\.5"):
        graph.mutate("query m() { insert Item { slug: 'f', price: -1000.51 } }")
    with pytest.raises(ConstraintViolationError, match=r"@unique violation on Account\.limit: value '3\.5'"):
        graph.mutate("query m() { insert Account { no: 2, limit: 3.5 } insert Account { no: 3, limit: 3.50 } }")


BAD = [
    ('{"type":"Item","data":{"slug":"x","price":1.005}}', "has more than 2 digits after the point"),
    ('{"type":"Item","data":{"slug":"x","price":10000000000}}', "exceeds Decimal(12, 2) range"),
    ('{"type":"Item","data":{"slug":"x","price":"1,5"}}', "expects Decimal(12, 2)?, got a string"),
    ('{"type":"Item","data":{"slug":"x","price":true}}', "expects Decimal(12, 2)?, got a boolean"),
    (f'{{"type":"Item","data":{{"slug":"x","big":{NINES}0}}}}', "exceeds Decimal(38, 0) range"),
    ('{"type":"Item","data":{"slug":"x","steps":[1.55]}}', "has more than 1 digit after the point"),
]


def test_rows_with_other_digits_are_refused_with_their_place(graph, tmp_path):
    file = tmp_path / "bad.jsonl"
    file.write_text("".join(f"{line}\n" for line, _ in BAD), encoding="utf-8")
    with pytest.raises(BadRowsError) as refused:
        graph.load(file)
    found = {item.line: item.message for item in refused.value.details.items}
    assert list(found) == list(range(1, len(BAD) + 1))
    for number, (_, text) in enumerate(BAD, 1):
        assert text in found[number]


def test_files_of_every_format_give_the_same_values(graph, tmp_path):
    texts = ["1.5", "-0.07", "+3", "1e2", None, "99999999.99", "007.100"]
    table = pa.table({"slug": [f"r{at}" for at in range(len(texts))], "price": texts})
    (tmp_path / "Item.csv").write_text(
        "slug,price\n" + "".join(f"{row['slug']},{row['price'] or ''}\n" for row in table.to_pylist()), encoding="utf-8"
    )
    exact = [None if text is None else Decimal(text) for text in texts]
    wide = table.set_column(1, "price", pa.array(exact, pa.decimal256(60, 4)))
    narrow = table.set_column(1, "price", pa.array(exact, pa.decimal128(20, 4)))
    loaded = []
    for number, source in enumerate((table, wide, narrow, None)):
        path = tmp_path / "Item.csv"
        if source is not None:
            path = tmp_path / str(number) / "Item.parquet"
            path.parent.mkdir()
            pq.write_table(source, path)
        with graph.transaction() as trial:
            trial.load(path)
            found = trial.query("query q() { match { $i: Item } return { $i.slug as s, $i.price as p } }").to_arrow()
            loaded.append(found.filter(pc.starts_with(found["s"], "r")).column("p").to_pylist())
            trial.rollback()
    assert loaded == [[None if value is None else value.quantize(Decimal("0.01")) for value in exact]] * 4


def test_exports_are_loaded_again_to_the_same_values(graph, tmp_path):
    wanted = rows(graph, "$i: Item", "$i.slug, $i.price, $i.rate, $i.big, $i.steps")
    for form in ("jsonl", "csv", "parquet"):
        folder = tmp_path / form
        graph.export(folder, format=form)
        with omnigraph.init(tmp_path / f"{form}-graph", SCHEMA) as copy:
            copy.load(folder)
            assert rows(copy, "$i: Item", "$i.slug, $i.price, $i.rate, $i.big, $i.steps") == wanted
            assert rows(copy, "$a: Account  $a $e:owns $i", "$a.no, $e.amount") == [(Decimal("1.50"), Decimal("1.125"))]


def test_a_schema_change_widens_and_never_narrows(tmp_path):
    text = "node Item {{ slug: String @key  price: {price}  count: {count}? }}"
    with omnigraph.init(tmp_path / "g", text.format(price="Decimal(4, 2) @index", count="I32")) as graph:
        graph.mutate("query m() { insert Item { slug: 'a', price: 99.99, count: -2147483648 } }")
        graph.apply_schema(text.format(price="Decimal(8, 4) @index", count="Decimal(12, 2)"))
        assert rows(graph, "$i: Item  $i.price = 99.99", "$i.price, $i.count") == [
            (Decimal("99.9900"), Decimal("-2147483648.00"))
        ]
        with pytest.raises(SchemaPlanError, match=r"from Decimal\(8, 4\) to Decimal\(8, 2\)"):
            graph.apply_schema(text.format(price="Decimal(8, 2) @index", count="Decimal(12, 2)"))


def test_schemas_are_inferred_from_arrow_decimals(tmp_path):
    table = pa.table({"slug": ["a"], "price": column(["1.5"], 12, 2), "all": pa.array([[Decimal("1.5")]])})
    proposed = omnigraph.infer_schema({"Item": table})
    assert "price: Decimal(12, 2)" in str(proposed)
    assert "all: [Decimal(2, 1)]" in str(proposed)
    of_rows = omnigraph.infer_schema({"Item": [{"slug": "a", "price": Decimal("12.50")}, {"slug": "b", "price": 1000}]})
    assert "price: Decimal(6, 2)" in str(of_rows)


def test_changes_show_exact_texts(tmp_path):
    with omnigraph.init(tmp_path / "g", "node Item { slug: String @key  price: Decimal(12, 2)? }") as graph:
        graph.mutate("query m() { insert Item { slug: 'a', price: 1.10 } }")
        graph.mutate("query m() { update Item set { price: 1.20 } where slug = 'a' }")
        document = json.dumps(graph.at("main~1").diff("main").to_json())
        assert '"price": "1.10"' in document
        assert '"price": "1.20"' in document
