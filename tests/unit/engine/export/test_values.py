"""Whatever values a type can hold, each format writes them so that the reader of loads gives the same bits back."""

from __future__ import annotations

import os
from datetime import date

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.export_graph import SCHEMA, bits

from omnigraph.catalog import compile_schema
from omnigraph.catalog.arrow import arrow_schema
from omnigraph.catalog.model import EdgeType, Scalar
from omnigraph.engine.export.encoders import column_names, new_encoder
from omnigraph.engine.load import LoadSettings, Source
from omnigraph.engine.load.reading.csv import read_csv
from omnigraph.engine.load.reading.jsonl import read_jsonl
from omnigraph.engine.load.reading.parquet import read_parquet
from omnigraph.engine.rows import ChunkDecoder
from omnigraph.errors import ChangeValueError
from omnigraph.lang.pg import parse_schema

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"
CATALOG = compile_schema(parse_schema(SCHEMA.replace("@key", "").encode(), "schema"))
THING, LINK = CATALOG.nodes["Thing"], CATALOG.edges["Link"]
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(["", "null", '"', ",", "\r\n"])
_SCALARS = {
    Scalar.STRING: _TEXT,
    Scalar.BOOL: st.booleans(),
    Scalar.I32: st.integers(-(1 << 31), (1 << 31) - 1),
    Scalar.I64: st.integers(-(1 << 63), (1 << 63) - 1),
    Scalar.U32: st.integers(0, (1 << 32) - 1),
    Scalar.U64: st.integers(0, (1 << 64) - 1),
    Scalar.F32: st.floats(width=32, allow_nan=False, allow_infinity=False),
    Scalar.F64: st.floats(allow_nan=False, allow_infinity=False),
    Scalar.DATE: st.integers(-(1 << 31), (1 << 31) - 1) | st.integers(-800_000, 3_000_000),
    Scalar.DATETIME: st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-70_000_000_000_000, 260_000_000_000_000),
    Scalar.BLOB: st.binary(max_size=8),
}


def _values(kind):
    if kind.is_vector:
        item = st.lists(_SCALARS[Scalar.F32], min_size=kind.dimension, max_size=kind.dimension)
    elif kind.enum_values is not None:
        item = st.sampled_from(kind.enum_values)
    else:
        item = st.lists(_SCALARS[kind.scalar], max_size=3) if kind.is_list else _SCALARS[kind.scalar]
    return st.none() | item if kind.nullable else item


def _rows(owner):
    system = {"src": _TEXT, "dst": _TEXT} if isinstance(owner, EdgeType) else {}
    row = st.fixed_dictionaries({**system, **{prop.name: _values(prop.type) for prop in owner.properties}})
    return st.dictionaries(_TEXT, row, min_size=1, max_size=4).map(lambda rows: _batch(owner, rows))


def _batch(owner, rows):
    schema = arrow_schema(owner)
    columns = {"id": list(rows), **{name: [row[name] for row in rows.values()] for name in schema.names[1:]}}
    arrays = [_array(columns[field.name], field.type) for field in schema]
    return pa.record_batch(arrays, schema=schema)


def _array(values, of):
    if pa.types.is_date(of):
        return pa.array(values, pa.int32() if of == pa.date32() else pa.int64()).view(of)
    if pa.types.is_list(of) and pa.types.is_date(of.value_type):
        items = [item for value in values if value is not None for item in value]
        offsets = [0]
        for value in values:
            offsets.append(offsets[-1] + len(value or ()))
        nulls = pa.array([value is None for value in values])
        return pa.ListArray.from_arrays(
            pa.array(offsets, pa.int32()), _array(items, of.value_type), type=of, mask=nulls
        )
    return pa.array(values, of)


def read_back(source, owner):
    """Return the rows of a file as a load decodes them."""
    match source.format:
        case "jsonl":
            chunks = read_jsonl(source, ChunkDecoder(CATALOG), LoadSettings(threads=1))
        case "csv":
            chunks = read_csv(source, CATALOG, LoadSettings(), is_patch=False)
        case _:
            chunks = read_parquet(source, CATALOG, LoadSettings(), is_patch=False)
    parts = []
    for chunk in chunks:
        assert chunk.decoded.problems == ()
        parts += [part.rows for part in chunk.decoded.types.values()]
    return pa.concat_tables(parts).select(column_names(owner))


@pytest.mark.parametrize("owner", [THING, LINK], ids=["node", "edge"])
def test_any_values_come_back_to_the_bit(owner, tmp_path):
    path = tmp_path / "part"

    @settings(max_examples=400 if LONG else 20, deadline=None, suppress_health_check=list(HealthCheck))
    @given(_rows(owner))
    def check(batch):
        for form in ("jsonl", "csv", "parquet"):
            with path.open("wb") as file:
                encoder = new_encoder(form, owner, file)
                encoder.write(batch)
                encoder.close()
            source = Source(path=str(path), format=form, type_name=owner.table_key, is_exported=True)
            assert bits(read_back(source, owner)) == bits(pa.Table.from_batches([batch])), form

    check()


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize("column", ["single", "doubles", "vector"])
def test_a_float_that_no_load_would_take_is_refused(form, column, tmp_path):
    bad = float("nan") if column == "single" else [1.0, float("-inf"), 2.0]
    row = {**dict.fromkeys(column_names(THING)[1:]), "name": "x", column: bad}
    with (tmp_path / "part").open("wb") as file, pytest.raises(ChangeValueError, match=f"property '{column}'"):
        new_encoder(form, THING, file).write(_batch(THING, {"1": row}))


def test_usual_dates_in_csv_read_like_dates(tmp_path):
    days = (date(2026, 1, 31) - date(1970, 1, 1)).days
    row = {**dict.fromkeys(column_names(THING)[1:]), "name": "x", "day": days, "at": days * 86_400_000 + 1}
    with (tmp_path / "part").open("wb") as file:
        new_encoder("csv", THING, file).write(_batch(THING, {"1": row}))
    assert b'"x",,,,,,,,,2026-01-31,2026-01-31T00:00:00.001Z,' in (tmp_path / "part").read_bytes()
