"""One run over a change: what all set rules of it share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import EdgeType
from omnigraph.engine.change import GraphChange
from omnigraph.engine.constraints.image import Image, difference
from omnigraph.engine.constraints.kernel import Kernel
from omnigraph.engine.view import GraphView
from omnigraph.engine.violations import Describer, ViolationList
from omnigraph.records import record

_NO_IDS = pa.array([], pa.string())


@record
class NodesAfter:
    """Nodes that are there after a change, all written and asked for among them, and the asked ones that are not."""

    known: tuple[pa.Array | pa.ChunkedArray, ...]
    missing: pa.Array


@record
class Evaluation:
    """A change with the state it is made on; ``images`` holds what the change leaves of each type, by table."""

    change: GraphChange
    view: GraphView
    kernel: Kernel
    images: Mapping[str, Image]
    found: ViolationList
    _gone: dict[str, pa.Array] = field(default_factory=dict)
    _unwritten: dict[tuple[str, str], pa.Array] = field(default_factory=dict)

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

    def unwritten_ends(self, edge: EdgeType, side: str) -> pa.Array:
        """Return the nodes that written edges name on one side and the change does not write, each once."""
        where = edge.table_key, side
        if where not in self._unwritten:
            named = self.images[edge.table_key].rows.column(side)
            nodes = self.images.get(f"node:{edge.from_type if side == 'src' else edge.to_type}")
            others = named if nodes is None else difference(named, nodes.rows.column("id"))
            self._unwritten[where] = pc.unique(others).drop_null()
        return self._unwritten[where]

    def nodes_after(self, table_key: str, unwritten: pa.Array) -> NodesAfter:
        """Look for nodes that the change does not write among those that are there after it."""
        image = self.images.get(table_key)
        if image is None:
            stored = self.view.existing_ids(table_key, unwritten)
            return NodesAfter(known=(stored,), missing=difference(unwritten, stored))
        written = image.rows.column("id")
        if image.replaces_all:
            return NodesAfter(known=(written,), missing=unwritten)
        stored = self.view.existing_ids(table_key, difference(unwritten, image.deletes))
        return NodesAfter(known=(written, stored), missing=difference(unwritten, stored))
