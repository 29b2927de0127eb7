"""Rules about sets of rows, each written once as an SQL text that finds the violations.

The texts keep to what every engine reads alike: quoted names in back-ticks, ``NOT EXISTS`` for what is absent,
grouping, ``row_number``. Relations hold nothing but what the text asks for, so that another engine can put its own
tables in their place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType

from omnigraph.errors import ConstraintRule
from omnigraph.records import record


@record
class SetRule:
    """A query over a change and what it meets.

    Args:
        name: how the text is called.
        rule: the rule whose violations it finds; None for a text that prepares a relation.
        reads: the relations it needs, with their columns.
        returns: the columns of what it finds.
        sql: the text without its order; ``{minimum}`` and ``{maximum}`` stand for whole numbers.
        order: the columns of ``returns`` that what it finds is sorted by.
        bounds: the numbers it takes.
    """

    name: str
    rule: ConstraintRule | None
    reads: Mapping[str, tuple[str, ...]]
    returns: tuple[str, ...]
    sql: str
    order: str
    bounds: tuple[str, ...] = field(default=())

    def text(self, **bounds: int) -> str:
        """Return the text with its numbers, in order."""
        return f"{self.unordered(**bounds)}\nORDER BY {self.order}"

    def unordered(self, **bounds: int) -> str:
        """Return the text with its numbers, for whoever counts what it finds or sorts that together with more."""
        return self.sql.format(**{name: int(bounds[name]) for name in self.bounds}).strip()


FINAL_IMAGE = SetRule(
    name="final_image",
    rule=None,
    reads=MappingProxyType({"written": ("row", "id")}),
    returns=("row",),
    sql="""
SELECT w.`row` AS `row`
FROM (
    SELECT `row`, row_number() OVER (PARTITION BY `id` ORDER BY `row` DESC) AS `place`
    FROM `written`
) w
WHERE w.`place` = 1
""",
    order="`row`",
)

# Any two rows of a change, even two versions of one entity, must not hold the same tuple.
UNIQUE_IN_CHANGE = SetRule(
    name="unique_in_change",
    rule="unique",
    reads=MappingProxyType({"written": ("row", "id", "value")}),
    returns=("row", "other", "first_row"),
    sql="""
SELECT w.`row` AS `row`, f.`id` AS `other`, g.`first_row` AS `first_row`
FROM `written` w
JOIN (
    SELECT `value`, min(`row`) AS `first_row`
    FROM `written`
    GROUP BY `value`
    HAVING count(*) > 1
) g ON g.`value` = w.`value`
JOIN `written` f ON f.`row` = g.`first_row`
WHERE w.`row` > g.`first_row`
""",
    order="`row`",
)

UNIQUE_WITH_STORED = SetRule(
    name="unique_with_stored",
    rule="unique",
    reads=MappingProxyType(
        {"written": ("row", "id", "value"), "stored": ("id", "value"), "replaced": ("id",)},
    ),
    returns=("row", "other"),
    sql="""
SELECT w.`row` AS `row`, min(s.`id`) AS `other`
FROM `written` w
JOIN `stored` s ON s.`value` = w.`value`
WHERE NOT EXISTS (SELECT 1 FROM `replaced` r WHERE r.`id` = s.`id`)
GROUP BY w.`row`
""",
    order="`row`",
)

ENDPOINT_MISSING = SetRule(
    name="endpoint_missing",
    rule="endpoint",
    reads=MappingProxyType({"written": ("row", "src", "dst"), "sources": ("id",), "targets": ("id",)}),
    returns=("row", "side", "missing"),
    sql="""
SELECT m.`row` AS `row`, m.`side` AS `side`, m.`missing` AS `missing`
FROM (
    SELECT w.`row`, 'src' AS `side`, w.`src` AS `missing`
    FROM `written` w
    WHERE w.`src` IS NOT NULL AND NOT EXISTS (SELECT 1 FROM `sources` n WHERE n.`id` = w.`src`)
    UNION ALL
    SELECT w.`row`, 'dst' AS `side`, w.`dst` AS `missing`
    FROM `written` w
    WHERE w.`dst` IS NOT NULL AND NOT EXISTS (SELECT 1 FROM `targets` n WHERE n.`id` = w.`dst`)
) m
""",
    order="`row`, `side` DESC",
)

# Edges that stay as they are although a node they name goes.
ORPHANED_EDGE = SetRule(
    name="orphaned_edge",
    rule="orphan",
    reads=MappingProxyType({"kept": ("id", "side", "node"), "replaced": ("id",)}),
    returns=("id", "side", "node"),
    sql="""
SELECT k.`id` AS `id`, k.`side` AS `side`, k.`node` AS `node`
FROM `kept` k
WHERE NOT EXISTS (SELECT 1 FROM `replaced` r WHERE r.`id` = k.`id`)
""",
    order="`id`, `side` DESC",
)

CARDINALITY = SetRule(
    name="cardinality",
    rule="cardinality",
    reads=MappingProxyType(
        {
            "touched": ("id",),
            "gone": ("id",),
            "written": ("row", "id", "src"),
            "stored": ("id", "src"),
            "replaced": ("id",),
        }
    ),
    returns=("source", "edges", "row"),
    sql="""
SELECT t.`id` AS `source`, count(e.`id`) AS `edges`, min(e.`row`) AS `row`
FROM `touched` t
LEFT JOIN (
    SELECT w.`id`, w.`src`, w.`row`
    FROM `written` w
    UNION ALL
    SELECT s.`id`, s.`src`, CAST(NULL AS BIGINT) AS `row`
    FROM `stored` s
    WHERE NOT EXISTS (SELECT 1 FROM `replaced` r WHERE r.`id` = s.`id`)
) e ON e.`src` = t.`id`
WHERE NOT EXISTS (SELECT 1 FROM `gone` g WHERE g.`id` = t.`id`)
GROUP BY t.`id`
HAVING count(e.`id`) < {minimum} OR count(e.`id`) > {maximum}
""",
    order="`source`",
    bounds=("minimum", "maximum"),
)

# Ids that must not be there yet, asked where a write cannot look them up one by one.
ID_TAKEN = SetRule(
    name="id_taken",
    rule="id",
    reads=MappingProxyType({"written": ("row", "id"), "stored": ("id",)}),
    returns=("row", "id"),
    sql="""
SELECT w.`row` AS `row`, w.`id` AS `id`
FROM `written` w
WHERE EXISTS (SELECT 1 FROM `stored` s WHERE s.`id` = w.`id`)
""",
    order="`row`",
)

ID_REPEATED = SetRule(
    name="id_repeated",
    rule="id",
    reads=MappingProxyType({"written": ("row", "id")}),
    returns=("row", "id"),
    sql="""
SELECT min(w.`row`) AS `row`, w.`id` AS `id`
FROM `written` w
GROUP BY w.`id`
HAVING count(*) > 1
""",
    order="`row`",
)

SET_RULES: tuple[SetRule, ...] = (
    FINAL_IMAGE,
    UNIQUE_IN_CHANGE,
    UNIQUE_WITH_STORED,
    ENDPOINT_MISSING,
    ORPHANED_EDGE,
    CARDINALITY,
    ID_TAKEN,
    ID_REPEATED,
)
