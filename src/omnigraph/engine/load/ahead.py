"""Reading one step ahead, so that one thread reads while another looks at what was read."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_Item = TypeVar("_Item")


def read_ahead(items: Iterator[_Item]) -> Generator[_Item]:
    """Yield the same items; while one of them is in use, the next is made on another thread.

    >>> list(read_ahead(iter("abc")))
    ['a', 'b', 'c']
    """
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="omnigraph-read") as pool:
        coming = pool.submit(_next, items)
        while (item := coming.result()) is not None:
            coming = pool.submit(_next, items)
            yield item[0]


def _next(items: Iterator[_Item]) -> tuple[_Item] | None:
    # A future would take the end of an iterator for the end of its own.
    for item in items:
        return (item,)
    return None
