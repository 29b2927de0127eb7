"""Rows as plain JSON values, as conflicts show them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pyarrow as pa

from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.results.texts import json_texts


def row_images(owner: NodeType | EdgeType, rows: pa.Table) -> list[dict[str, Any]]:
    """Return each row as its properties and, for an edge, the nodes it joins; the id is left out."""
    columns = {prop.name: _values(rows.column(prop.name)) for prop in owner.properties}
    images: list[dict[str, Any]] = [
        {"properties": {name: values[row] for name, values in columns.items()}} for row in range(rows.num_rows)
    ]
    if isinstance(owner, EdgeType):
        ends = zip(rows.column("src").to_pylist(), rows.column("dst").to_pylist(), strict=True)
        for image, (start, end) in zip(images, ends, strict=True):
            image["endpoints"] = {"from": start, "to": end}
    return images


def _values(column: pa.ChunkedArray) -> list[Any]:
    found: list[Any] = []
    for chunk in column.chunks:
        if pa.types.is_large_binary(chunk.type):
            found += [None if item is None else _base64(item) for item in chunk.to_pylist()]
        else:
            found += [json.loads(text) for text in json_texts(chunk)]
    return found


def _base64(content: bytes) -> str:
    return f"base64:{base64.b64encode(content).decode()}"
