"""``counted``: numbers with their nouns."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun, which ends in ``s`` for all numbers but one unless told otherwise.

    >>> counted(1, "row"), counted(0, "row"), counted(2, "index", "indexes")
    ('1 row', '0 rows', '2 indexes')
    """
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"
