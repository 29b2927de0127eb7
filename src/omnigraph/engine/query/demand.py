"""What reads keep fetching from storage, so that it is brought into memory when that begins to pay.

Costs are estimates in microseconds from row counts alone: the choice depends on what was asked, never on the clock.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

# What is walked a few times is walked many times, so memory is bought when a tenth of its price has been spent.
_SHARE = 10
# Versions of tables that are counted; a version that nobody reads any more leaves.
_REMEMBERED = 4096


class Demand:
    """Sums up what fetching has cost so far. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spent: OrderedDict[Hashable, int] = OrderedDict()

    def spend(self, what: Hashable, cost: int) -> None:
        """Add the cost of one more fetch."""
        with self._lock:
            self._spent[what] = self._spent.pop(what, 0) + cost
            while len(self._spent) > _REMEMBERED:
                self._spent.popitem(last=False)

    def is_worth(self, what: Hashable, price: int) -> bool:
        """Whether so much was spent on something that bringing it into memory at a price pays."""
        return self._spent.get(what, 0) * _SHARE > price


def rows_cost(row_count: int) -> int:
    """Return what fetching some rows by row id or id costs."""
    return 2_000 + 20 * row_count


def edges_cost(edge_count: int) -> int:
    """Return what fetching some edges by an end costs."""
    return 4_000 + 10 * edge_count


def column_price(row_count: int) -> int:
    """Return what bringing a whole column into memory costs."""
    return 5_000 + row_count // 8


def adjacency_price(edge_count: int, unknown_count: int) -> int:
    """Return what adjacency costs: all edges are copied, those that no other version has in memory are read as well."""
    return 10_000 + edge_count // 30 + unknown_count * 2 // 5
