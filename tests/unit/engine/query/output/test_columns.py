"""Columns on their way through the relational kernel."""

from __future__ import annotations

import pyarrow as pa
import pytest

from omnigraph.engine.query.output.relational import decoded
from omnigraph.errors import QueryRuntimeError


def test_number_of_a_union_that_its_column_cannot_hold_is_a_runtime_error():
    assert decoded(pa.array([2**63 - 1, None], pa.uint64()), pa.int64()).to_pylist() == [2**63 - 1, None]
    with pytest.raises(QueryRuntimeError, match="does not fit a 64-bit integer"):
        decoded(pa.array([2**63], pa.uint64()), pa.int64())
