"""Sums and means of floats: the same bits on every engine, however the rows are cut and ordered."""

from __future__ import annotations

import pytest
from tests.arrow_relations import query_in_parts
from tests.float_sums import READS, bits, make_sales, sales, true_sums


@pytest.mark.parametrize("seed", range(4))
def test_sums_of_floats_are_equal_bit_for_bit_in_any_order_and_any_parts(tmp_path, seed):
    lines = sales(seed)
    whole, parted = make_sales(tmp_path / "one", lines, 1, 1), make_sales(tmp_path / "many", lines, 5, 2)
    with whole, parted:
        for text in READS:
            query = f"query q() {{ {text} }}"
            expected = bits(whole.query(query).to_arrow())
            assert bits(parted.query(query).to_arrow()) == expected
            assert bits(query_in_parts(parted, query)) == expected
        row = whole.query(f"query q() {{ {READS[0]} }}").to_arrow().to_pylist()[0]
        assert (row["a"], row["b"]) == true_sums(lines)
