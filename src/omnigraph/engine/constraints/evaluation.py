"""One run over a change: what all set rules of it share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from omnigraph.engine.change import GraphChange
from omnigraph.engine.constraints.image import Image, difference
from omnigraph.engine.constraints.kernel import Kernel
from omnigraph.engine.view import GraphView
from omnigraph.engine.violations import Describer, ViolationList

_NO_IDS = pa.array([], pa.string())


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesAfter:
    """Ids of nodes that are there after a change, all that were asked for among them, and asked ones that are not."""

    known: tuple[pa.Array | pa.ChunkedArray, ...]
    missing: pa.Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """A change with the state it is made on; ``images`` holds what the change leaves of each type, by table."""

    change: GraphChange
    view: GraphView
    kernel: Kernel
    images: Mapping[str, Image]
    found: ViolationList
    _gone: dict[str, pa.Array] = field(default_factory=dict)

    def describer(self, image: Image) -> Describer:
        """Return what describes the rows of a type's part."""
        return Describer(change=self.change, part=image.part)

    def is_replaced(self, table_key: str) -> bool:
        """Whether no stored row of the table survives."""
        image = self.images.get(table_key)
        return image is not None and image.replaces_all

    def gone_nodes(self, table_key: str) -> pa.Array:
        """Return the ids of nodes that the change removes."""
        image = self.images.get(table_key)
        if image is None:
            return _NO_IDS
        if table_key not in self._gone:
            if image.replaces_all:
                self._gone[table_key] = difference(self.view.all_ids(table_key), image.rows.column("id"))
            else:
                self._gone[table_key] = image.deletes
        return self._gone[table_key]

    def nodes_after(self, table_key: str, wanted: pa.Array) -> NodesAfter:
        """Look for nodes among those that are there after the change."""
        image = self.images.get(table_key)
        if image is None:
            stored = self.view.existing_ids(table_key, wanted)
            return NodesAfter(known=(stored,), missing=difference(wanted, stored))
        written = image.rows.column("id")
        lost = difference(wanted, written)
        if image.replaces_all:
            return NodesAfter(known=(written,), missing=lost)
        stored = self.view.existing_ids(table_key, difference(lost, image.deletes))
        return NodesAfter(known=(written, stored), missing=difference(lost, stored))
