"""Sizes in bytes as people write them: ``4096``, ``256M``, ``1.5GiB``."""

from __future__ import annotations

import re

_SIZE = re.compile(r"(?P<number>[0-9]{1,15}(?:\.[0-9]{1,6})?)(?P<unit>[kmgt]?)(?:i?b)?", re.IGNORECASE)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def size_of(text: str) -> int | None:
    """Return the bytes that a text says, None if it says no size.

    >>> size_of("1.5k"), size_of("2 GB")
    (1536, None)
    """
    match = _SIZE.fullmatch(text.strip())
    return None if match is None else int(float(match["number"]) * _UNITS[match["unit"].lower()])
