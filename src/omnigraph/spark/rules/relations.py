"""The relations that the texts of the set rules read, built from keys files and the state that is stored."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field

from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.constraints.set_rules import SetRule
from omnigraph.records import record
from omnigraph.spark.rules.change import ChangeKeys, RuleEngine, StoredRelation, TypeKeys

NO_IDS = "SELECT '' AS `id` WHERE 1 = 0"
NO_EDGES = "SELECT '' AS `id`, '' AS `src` WHERE 1 = 0"
ALL_IDS = "SELECT a.`id` AS `id` FROM `ids` a"
BOTH_IDS = "SELECT w.`id` AS `id` FROM `written` w UNION ALL SELECT s.`id` AS `id` FROM `stored` s"
# An edge is in one bucket by its source and in another by its target.
BOTH_ENDS = """SELECT s.`row` AS `row`, s.`src` AS `src`, CAST(NULL AS VARCHAR) AS `dst` FROM `sources` s
UNION ALL SELECT t.`row` AS `row`, CAST(NULL AS VARCHAR) AS `src`, t.`dst` AS `dst` FROM `targets` t"""
EITHER = "SELECT a.`row` AS `row`, a.`id` AS `id` FROM `ones` a UNION SELECT b.`row`, b.`id` FROM `others` b"
GONE = "SELECT s.`id` AS `id` FROM `stored` s WHERE NOT EXISTS (SELECT 1 FROM `written` w WHERE w.`id` = s.`id`)"
NAMED = "SELECT e.`end` AS `id` FROM `edges` e WHERE e.`end` IS NOT NULL"
NAMED_AND_UNWRITTEN = """SELECT e.`end` AS `id` FROM `edges` e
WHERE e.`end` IS NOT NULL AND NOT EXISTS (SELECT 1 FROM `written` n WHERE n.`id` = e.`end`)"""
# The sources of stored edges that a row of the same id replaces.
LEFT = "SELECT s.`src` AS `id` FROM `left` s WHERE s.`src` IS NOT NULL"
VALUES = "SELECT w.`value` AS `id` FROM `written` w"
TOUCHED = "SELECT DISTINCT e.`src` AS `id` FROM `edges` e WHERE e.`src` IS NOT NULL"
KEPT = """SELECT s.`id` AS `id`, 'end' AS `side`, s.`end` AS `node`
FROM `stored` s WHERE EXISTS (SELECT 1 FROM `gone` g WHERE g.`id` = s.`end`)"""
SUPERSEDED = "SELECT k.`row` AS `row` FROM `keys` k WHERE NOT EXISTS (SELECT 1 FROM `last` l WHERE l.`row` = k.`row`)"
REPEATED = "SELECT k.`row` AS `row`, k.`id` AS `id` FROM `keys` k JOIN `repeated` r ON r.`id` = k.`id` ORDER BY `row`"
REPEATED_VALUE = "SELECT w.`value` AS `value` FROM `written` w GROUP BY w.`value` HAVING count(*) > 1"
_COUNTS_OUTSIDE = """SELECT w.`src` AS `src` FROM `written` w WHERE w.`src` IS NOT NULL
GROUP BY w.`src` HAVING count(*) < {minimum} OR count(*) > {maximum}"""
_PICKED = "SELECT k.`row` AS `row`, {columns} FROM `keys` k"
_WHOLE = "k.`value` IS NOT NULL"
_COUNTING = "NOT EXISTS (SELECT 1 FROM `superseded` l WHERE l.`row` = k.`row`)"
_COUNTED = "SELECT count(*) AS `total` FROM ({text}) f"
_PLACED = "SELECT {found}, {keys} FROM ({text}) f LEFT JOIN `keys` k ON k.`row` = f.`row` ORDER BY {order}"
_NAME = re.compile(r"`(\w+)`")


def bind(text: str, **names: str) -> str:
    """Return a text with other names in place of its own.

    >>> bind(ALL_IDS, ids="r7")
    'SELECT a.`id` AS `id` FROM `r7` a'
    """
    return _NAME.sub(lambda found: f"`{names.get(found[1], found[1])}`", text)


def over(rule: SetRule, relations: Mapping[str, str], **bounds: int) -> str:
    """Return the text of a rule, without its order, over relations of other names."""
    return bind(rule.unordered(**bounds), **relations)


def picked(keys: str, columns: Sequence[str], value: str | None, superseded: str | None) -> str:
    """Return a text for ``row`` and columns of keys.

    Args:
        keys: the relation.
        columns: which of its columns.
        value: one more, under the name ``value``; only rows that have it.
        superseded: a relation of the rows that do not count.
    """
    names = [*((name, name) for name in columns), *(() if value is None else ((value, "value"),))]
    text = _PICKED.replace("{columns}", ", ".join(f"k.`{name}` AS `{alias}`" for name, alias in names))
    conditions = []
    if value is not None:
        conditions.append(bind(_WHOLE, value=value))
    if superseded is not None:
        conditions.append(bind(_COUNTING, superseded=superseded))
    return bind(text, keys=keys) + (f" WHERE {' AND '.join(conditions)}" if conditions else "")


def kept(stored: str, gone: str, side: str) -> str:
    """Return a text for stored edges that name a node which goes."""
    return bind(KEPT, stored=stored, gone=gone, end=side).replace("'end'", f"'{side}'")


def counts_outside(written: str, minimum: int, maximum: int) -> str:
    """Return a text for the sources whose number of written edges is not within bounds."""
    text = bind(_COUNTS_OUTSIDE, written=written)
    return text.replace("{minimum}", str(minimum)).replace("{maximum}", str(maximum))


def counted(text: str) -> str:
    """Return a text that counts what another finds."""
    return _COUNTED.replace("{text}", text)


def placed(rule: SetRule, text: str, keys: str, columns: Sequence[str]) -> str:
    """Return a text for what a rule finds in its order, with columns of the keys of each row beside it."""
    found = ", ".join(f"f.`{name}` AS `{name}`" for name in rule.returns)
    beside = ", ".join(f"k.`{name}` AS `{name}_`" for name in columns)
    placed_text = bind(_PLACED.replace("{order}", rule.order), keys=keys)
    return placed_text.replace("{found}", found).replace("{keys}", beside).replace("{text}", text)


def ordered(rule: SetRule, text: str) -> str:
    """Return a text for what a rule finds in its order."""
    return f"{text}\nORDER BY {rule.order}"


@record
class RuleRelations:
    """What a change writes and what it meets, as relations of an engine; each is made when it is first asked for."""

    change: ChangeKeys
    engine: RuleEngine
    _gone: dict[str, str | None] = field(default_factory=dict)

    def keys_of(self, owner: NodeType | EdgeType) -> TypeKeys | None:
        """Return what happens to a type, if anything does."""
        return self.change.types.get(owner.table_key)

    def is_empty(self, text: str, asks: str) -> bool:
        """Whether a text finds nothing."""
        return next(self.engine.rows(text, asks=asks, limit=1), None) is None

    def ids(self, keys: TypeKeys, by: str = "id") -> str:
        """Return ``row`` and ``id`` of all rows."""
        return self.engine.written(keys, ("id",), by)

    def written(self, keys: TypeKeys, *columns: str, by: str, value: str | None = None) -> str:
        """Return ``row`` and columns of all rows; ``value`` under this name, and only rows that have it."""
        return self.engine.define(picked(self._columns(keys, columns, value, by), columns, value, None))

    def image(self, keys: TypeKeys, *columns: str, by: str, value: str | None = None) -> str:
        """Return what :meth:`written` does, of the last row of each id."""
        superseded = self.engine.superseded(keys, by)
        return self.engine.define(picked(self._columns(keys, columns, value, by), columns, value, superseded))

    def replaced(self, keys: TypeKeys | None, *by: str) -> str:
        """Return the ids of stored rows, in the bucket by one of several columns, that do not survive as they are."""
        found = [] if keys is None or not keys.replaces_some else [self.engine.replaced(keys, one) for one in by]
        texts = dict.fromkeys(bind(ALL_IDS, ids=one) for one in found if one is not None)
        return self.engine.define(" UNION ALL ".join(texts) or NO_IDS)

    def nodes_after(self, node: NodeType, edges: str, ends: Sequence[str]) -> str:
        """Return nodes that are there after the change, among them all that ``ends`` of ``edges`` name."""
        keys = self.keys_of(node)
        if keys is None:
            wanted = " UNION ".join(bind(NAMED, edges=edges, end=end) for end in ends)
            return self._stored_ids(node, wanted) or self.engine.define(NO_IDS)
        written = self.ids(keys)
        if keys.replaces_all:
            return written
        wanted = " UNION ".join(bind(NAMED_AND_UNWRITTEN, edges=edges, end=end, written=written) for end in ends)
        stored = self._stored_ids(node, wanted)
        return written if stored is None else self.engine.define(bind(BOTH_IDS, written=written, stored=stored))

    def gone(self, node: NodeType) -> str | None:
        """Return the nodes that the change removes, or None when there are none."""
        keys = self.keys_of(node)
        if keys is None or not keys.replaces_all:
            return None
        if node.table_key not in self._gone:
            self._gone[node.table_key] = self._find_gone(keys)
        return self._gone[node.table_key]

    def _find_gone(self, keys: TypeKeys) -> str | None:
        stored = self.engine.stored(StoredRelation(type=keys.type))
        if stored is None:
            return None
        gone = self.engine.define(bind(GONE, stored=stored, written=self.ids(keys)), is_reused=True)
        return None if self.is_empty(bind(ALL_IDS, ids=gone), "gone") else gone

    def _stored_ids(self, node: NodeType, wanted: str) -> str | None:
        return self.engine.stored(StoredRelation(type=node, wanted=wanted))

    def _columns(self, keys: TypeKeys, columns: Sequence[str], value: str | None, by: str) -> str:
        return self.engine.written(keys, (*columns, *(() if value is None else (value,))), by)
