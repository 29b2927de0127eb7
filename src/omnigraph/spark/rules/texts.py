"""Texts around those of the set rules, and how a text gets the relations that it is run over."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from omnigraph.engine.constraints.set_rules import SetRule

NO_IDS = "SELECT '' AS `id` WHERE 1 = 0"
NO_EDGES = "SELECT '' AS `id`, '' AS `src` WHERE 1 = 0"
ALL_IDS = "SELECT a.`id` AS `id` FROM `ids` a"
BOTH_IDS = "SELECT w.`id` AS `id` FROM `written` w UNION ALL SELECT s.`id` AS `id` FROM `stored` s"
GONE = "SELECT s.`id` AS `id` FROM `stored` s WHERE NOT EXISTS (SELECT 1 FROM `written` w WHERE w.`id` = s.`id`)"
NAMED = "SELECT e.`end` AS `id` FROM `edges` e WHERE e.`end` IS NOT NULL"
NAMED_AND_UNWRITTEN = """SELECT e.`end` AS `id` FROM `edges` e
WHERE e.`end` IS NOT NULL AND NOT EXISTS (SELECT 1 FROM `written` n WHERE n.`id` = e.`end`)"""
# The sources of stored edges that a row of the same id replaces.
LEFT = """SELECT s.`src` AS `id` FROM `stored` s
WHERE s.`src` IS NOT NULL AND EXISTS (SELECT 1 FROM `written` w WHERE w.`id` = s.`id`)"""
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
_AMONG = " JOIN `last` l ON l.`row` = k.`row`"
_WHOLE = " WHERE k.`value` IS NOT NULL"
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


def picked(keys: str, columns: Sequence[str], value: str | None, last: str | None) -> str:
    """Return a text for ``row`` and columns of keys.

    Args:
        keys: the relation.
        columns: which of its columns.
        value: one more, under the name ``value``; only rows that have it.
        last: a relation of the only rows that count.
    """
    names = [*((name, name) for name in columns), *(() if value is None else ((value, "value"),))]
    text = _PICKED.replace("{columns}", ", ".join(f"k.`{name}` AS `{alias}`" for name, alias in names))
    text = bind(text, keys=keys)
    if last is not None:
        text += bind(_AMONG, last=last)
    return text if value is None else text + bind(_WHOLE, value=value)


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
