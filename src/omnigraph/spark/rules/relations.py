"""The relations that the texts of the set rules read, built from keys files and the state that is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.constraints.set_rules import FINAL_IMAGE, ID_REPEATED
from omnigraph.records import record
from omnigraph.spark.rules import texts
from omnigraph.spark.rules.change import WrittenChange, WrittenType
from omnigraph.spark.rules.engine import RuleEngine, StoredRows
from omnigraph.spark.rules.texts import bind, over


@record
class Relations:
    """What a change writes and what it meets, as relations of an engine; each is made when it is first asked for."""

    change: WrittenChange
    engine: RuleEngine
    _repeats: dict[str, bool] = field(default_factory=dict)
    _last: dict[str, str] = field(default_factory=dict)
    _gone: dict[str, str | None] = field(default_factory=dict)

    def part(self, owner: NodeType | EdgeType) -> WrittenType | None:
        """Return what happens to a type, if anything does."""
        return self.change.types.get(owner.table_key)

    def is_empty(self, text: str, asks: str) -> bool:
        """Whether a text finds nothing."""
        return next(self.engine.rows(text, asks=asks, limit=1), None) is None

    def has_repeated_ids(self, part: WrittenType) -> bool:
        """Whether several rows have one id."""
        if part.has_fresh_ids:
            return False
        key = part.type.table_key
        if key not in self._repeats:
            self._repeats[key] = not self.is_empty(over(ID_REPEATED, {"written": self.ids(part)}), ID_REPEATED.name)
        return self._repeats[key]

    def ids(self, part: WrittenType) -> str:
        """Return ``row`` and ``id`` of all rows."""
        return self.engine.keys(part, ("id",))

    def last(self, part: WrittenType) -> str | None:
        """Return the ``row`` of each row that no later one of the same id replaces; None when that is all of them."""
        if not self.has_repeated_ids(part):
            return None
        key = part.type.table_key
        if key not in self._last:
            text = over(FINAL_IMAGE, {"written": self.ids(part)})
            self._last[key] = self.engine.define(text, is_reused=True)
        return self._last[key]

    def written(self, part: WrittenType, *columns: str, value: str | None = None) -> str:
        """Return ``row`` and columns of all rows; ``value`` under this name, and only rows that have it."""
        keys = self.engine.keys(part, _all(columns, value))
        return self.engine.define(texts.picked(keys, columns, value, None))

    def image(self, part: WrittenType, *columns: str, value: str | None = None) -> str:
        """Return what :meth:`written` does, of the last row of each id."""
        keys = self.engine.keys(part, _all(columns, value))
        return self.engine.define(texts.picked(keys, columns, value, self.last(part)))

    def replaced(self, part: WrittenType | None) -> str:
        """Return the ids of stored rows that do not survive as they are."""
        # Ids that must not be there yet have been looked for already.
        if part is None or part.strict or part.has_fresh_ids:
            return self.engine.define(texts.NO_IDS)
        return self.ids(part)

    def nodes_after(self, node: NodeType, edges: str, ends: Sequence[str]) -> str:
        """Return nodes that are there after the change, among them all that ``ends`` of ``edges`` name."""
        part = self.part(node)
        if part is None:
            wanted = " UNION ".join(bind(texts.NAMED, edges=edges, end=end) for end in ends)
            return self._stored_ids(node, wanted) or self.engine.define(texts.NO_IDS)
        written = self.ids(part)
        if part.replaces_all:
            return written
        wanted = " UNION ".join(bind(texts.NAMED_AND_UNWRITTEN, edges=edges, end=end, written=written) for end in ends)
        stored = self._stored_ids(node, wanted)
        return written if stored is None else self.engine.define(bind(texts.BOTH_IDS, written=written, stored=stored))

    def gone(self, node: NodeType) -> str | None:
        """Return the nodes that the change removes, or None when there are none."""
        part = self.part(node)
        if part is None or not part.replaces_all:
            return None
        if node.table_key not in self._gone:
            self._gone[node.table_key] = self._find_gone(part)
        return self._gone[node.table_key]

    def _find_gone(self, part: WrittenType) -> str | None:
        stored = self.engine.stored(StoredRows(type=part.type))
        if stored is None:
            return None
        gone = self.engine.define(bind(texts.GONE, stored=stored, written=self.ids(part)), is_reused=True)
        return None if self.is_empty(bind(texts.ALL_IDS, ids=gone), "gone") else gone

    def _stored_ids(self, node: NodeType, wanted: str) -> str | None:
        return self.engine.stored(StoredRows(type=node, wanted=wanted))


def _all(columns: Sequence[str], value: str | None) -> tuple[str, ...]:
    return (*columns, *(() if value is None else (value,)))
