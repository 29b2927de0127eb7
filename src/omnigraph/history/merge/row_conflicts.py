"""Conflicts of rows as they are told: the first of them one by one, with the row of every side."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.results.encodings import json_texts
from omnigraph.errors import MergeConflict
from omnigraph.history.merge.conflicts import Conflicts, row_message
from omnigraph.history.merge.resolution import changed_on_both
from omnigraph.history.merge.three_way import RowConflicts
from omnigraph.values.blobs import blob_text


def json_images(owner: NodeType | EdgeType, rows: pa.Table) -> list[dict[str, Any]]:
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
            found += [None if item is None else blob_text(item) for item in chunk.to_pylist()]
        else:
            found += [json.loads(text) for text in json_texts(chunk)]
    return found


class FirstConflicts:
    """The first conflicts of a merge one by one, and the number of all of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._items: list[MergeConflict] = []
        self._total = 0

    def add(self, owner: NodeType | EdgeType, key: str, found: Sequence[RowConflicts]) -> None:
        """Take the conflicts of the next range of ids."""
        room = self._most - len(self._items)
        self._total += sum(len(item.ids) for item in found)
        if room > 0:
            # Of each kind no more than can be the first of all kinds.
            first = [item.only(np.arange(len(item.ids)) < room) for item in found]
            self._items += describe_rows(owner, key, first)[:room]

    def add_described(self, found: Conflicts) -> None:
        """Take the conflicts of the next range of ids that are described already: the first, and how many there are."""
        self._total += found.total
        self._items += found[: max(self._most - len(self._items), 0)]

    def finish(self) -> Conflicts:
        """Return them."""
        return Conflicts(self._items, total=self._total)


def describe_rows(owner: NodeType | EdgeType, key: str, found: Sequence[RowConflicts]) -> list[MergeConflict]:
    """Return conflicts of one type's rows, by id."""
    conflicts = []
    for item in found:
        images = [
            [None] * len(item.ids) if rows is None else json_images(owner, rows)
            for rows in (item.base, item.source, item.target)
        ]
        for entity_id, clashing, base, source, target in zip(
            item.ids.to_pylist(), changed_on_both(item), *images, strict=True
        ):
            conflicts.append(
                MergeConflict(
                    kind=item.kind.value,
                    message=row_message(item.kind, entity_id),
                    type_key=key,
                    entity_id=entity_id,
                    properties=clashing,
                    base=base,
                    source=source,
                    target=target,
                )
            )
    return sorted(conflicts, key=lambda conflict: (conflict.entity_id or "").encode())
