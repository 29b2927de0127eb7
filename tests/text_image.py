"""A version of a table as search sees one, made from plain lists instead of storage."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from omnigraph.store.tables.pins import TablePin


def no_limit(size_bytes):
    """A check that lets everything pass."""
    assert size_bytes >= 0


class TextImage:
    """Rows with stable row ids; every row has a text or None."""

    def __init__(self, rows, *, version=1, location="nodes/1", chunk_rows=3):
        self.pin = TablePin(location=location, branch=None, version=version)
        self.row_count = len(rows)
        self.row_ids = np.array(list(rows), dtype=np.uint64)
        texts = list(rows.values())
        chunks = [
            pa.array(texts[start : start + chunk_rows], pa.string()) for start in range(0, len(texts), chunk_rows)
        ]
        self.texts = pa.chunked_array(chunks, type=pa.string())
        self.loads = 0

    @classmethod
    def of(cls, *texts, **options):
        """Rows 0, 1, 2 … with these texts."""
        return cls(dict(enumerate(texts)), **options)

    def column(self, name):
        """Return the texts, whatever the property is called."""
        self.loads += 1
        return self.texts

    def codes_of(self, row_ids):
        """Return codes by row id."""
        codes = {int(row_id): code for code, row_id in enumerate(self.row_ids)}
        return np.array([codes.get(int(row_id), -1) for row_id in row_ids], dtype=np.int64)
