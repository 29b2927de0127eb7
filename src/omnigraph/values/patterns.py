"""Regular expressions that cost nothing until they are used."""

from __future__ import annotations

import re
from typing import Any, cast


def late_pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Return a regular expression that is compiled when it is first used.

    Compiling takes a fraction of a millisecond, and most of the expressions that a module defines are for input that a
    process never sees.

    >>> digits = late_pattern(r"[0-9]+")
    >>> digits.findall("1 and 22")
    ['1', '22']
    """
    return cast("re.Pattern[str]", _Late(text, flags))


class _Late:
    """Stands for an expression; what was asked of it once is at hand from then on."""

    def __init__(self, text: str, flags: int) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, found)
        return found
