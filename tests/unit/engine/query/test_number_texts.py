"""Numbers and their texts: a text is read as the nearest number, and a number is written by its shortest text."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from tests.session_graph import create_graph, open_session

from omnigraph.engine.query.functions.conversions import as_text

SCHEMA = "node N { k: I32 @key  s: String  f: F32?  d: F64? }"


def test_a_text_is_cast_to_the_nearest_number_of_the_width(tmp_path):
    create_graph(tmp_path / "graph", SCHEMA, '{"type": "N", "data": {"k": 1, "s": "42341.43299123"}}')
    with open_session(tmp_path / "graph") as session:
        session.mutate("query m() { match { $n: N } update $n set { f: cast_float($n.s), d: cast_float($n.s) } }")
        casts = "cast_float($n.s) as c, to_string(cast_float($n.s)) as text, to_string($n.f) as short"
        (row,) = session.query(f"query q() {{ match {{ $n: N }} return {{ $n.f as f, $n.d as d, {casts} }} }}").rows()
    assert row == {
        "f": 42341.43359375,
        "d": 42341.43299123,
        "c": 42341.43299123,
        "text": "42341.43299123",
        "short": "42341.434",
    }


def test_a_number_of_32_bits_is_written_by_the_nearest_of_its_shortest_texts():
    draw = np.random.default_rng(3)
    numbers = (draw.uniform(-1, 1, 2_000) * 10.0 ** draw.integers(-20, 20, 2_000)).astype(np.float32)
    for number, text in zip(numbers, as_text(pa.array(numbers)).to_pylist(), strict=True):
        assert np.float32(text) == number
        digits = len(text.partition("e")[0].replace(".", "").lstrip("-0").rstrip("0"))
        shorter = [np.float32(f"{number:.{count - 1}e}") for count in range(1, digits)]
        assert number not in shorter
        nearest = float(f"{float(number):.{digits - 1}e}")
        assert np.float32(nearest) != number or float(text) == nearest
