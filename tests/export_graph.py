"""A graph with a value of every kind at its limits, and tables compared bit by bit."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tests.load_graph import load_lines, make_graph

SCHEMA = """
node Thing {
    name: String @key
    text: String?
    flag: Bool?
    small: I32?
    big: I64?
    count: U32?
    huge: U64?
    single: F32?
    double: F64?
    day: Date?
    at: DateTime?
    level: enum(low, high)?
    content: Blob?
    vector: Vector(3)?
    words: [String]?
    numbers: [I64]?
    doubles: [F64]?
    days: [Date]?
    moments: [DateTime]?
}
node Bare { }
node Link { title: String? }
edge Link: Thing -> Thing { from: String? weight: F64? }
"""
ROWS = r"""
{"type":"Thing","data":{"name":"low","text":"","flag":false,"small":-2147483648,"big":-9223372036854775808,"count":0,"huge":0,"single":-0.0,"double":-0.0,"day":-2147483648,"at":-9223372036854775808,"level":"low","content":"base64:","vector":[-0.0,1e-45,3.4028234663852886e38],"words":[],"numbers":[],"doubles":[],"days":[],"moments":[]}}
{"type":"Thing","data":{"name":"high","text":"null","flag":true,"small":2147483647,"big":9223372036854775807,"count":4294967295,"huge":18446744073709551615,"single":3.4028234663852886e38,"double":1.7976931348623157e308,"day":2147483647,"at":9223372036854775807,"level":"high","content":"base64:AAECA/8=","vector":[0.1,0.2,0.3],"words":["","null","a,b","\"","\n"],"numbers":[-1,9007199254740993],"doubles":[-0.0,5e-324,1e22,0.1],"days":[-719529,0,2932897],"moments":[-62167219200001,-1,253402300800000]}}
{"type":"Thing","data":{"name":"none"}}
{"type":"Thing","data":{"name":" \r\n\t\"',;\\ \u0000\u0001\u001f\u2028 é 漢 🙂 ","text":"\ufeff line one\nline two\r\n","single":0.1,"double":5e-324,"day":-719529,"at":-62135596800001,"doubles":[1e16,123456789012345680000]}}
{"type":"Thing","data":{"name":"usual","day":"2026-01-31","at":"2026-01-31T10:00:00.001Z","double":12345.678,"single":1}}
{"type":"Bare","data":{"id":"bare one"}}
{"type":"Link","data":{"id":"l1","title":"a node with the name of an edge"}}
{"edge":"Link","from":"low","to":"high","data":{"id":"z","from":"a property that is called like an end","weight":-0.0}}
{"edge":"Link","from":"none","to":"none","data":{"id":"a"}}
""".strip()  # noqa: E501 - one row per line


def make_full_graph(root):
    """Create a graph with all of that in it and return it open."""
    graph = make_graph(root / "full", SCHEMA)
    load_lines(graph, root / "full.jsonl", ROWS, "append")
    return graph


def tables_of(graph, branch="main"):
    """Every table of a branch as :func:`bits` by row id order, ids first."""
    snapshot = graph.snapshot(branch)
    return {key: bits(snapshot.table(key).read()) for key in sorted(snapshot.state.tables)}


def bits(rows: pa.Table):
    """Rows by id with nothing rounded: floats, dates and instants as the integers that they are stored as."""
    ordered = rows.combine_chunks().take(pc.sort_indices(rows.column("id")))
    columns = {name: _plain(_one(ordered.column(name))) for name in sorted(ordered.schema.names)}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _one(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _plain(column: pa.Array):
    of = column.type
    if pa.types.is_list(of) or pa.types.is_fixed_size_list(of):
        return [None if not item.is_valid else _plain(item.values) for item in column]
    width = {
        pa.float32(): pa.int32(),
        pa.float64(): pa.int64(),
        pa.date32(): pa.int32(),
        pa.date64(): pa.int64(),
    }.get(of)
    return column.to_pylist() if width is None else column.view(width).to_pylist()
