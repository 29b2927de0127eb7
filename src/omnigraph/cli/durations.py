"""How long something lasts, as people write it."""

from __future__ import annotations

import re

from omnigraph.errors import BadValue, UsageError

_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION = re.compile(r"(?P<count>[0-9]{1,9})(?P<unit>[smhdw]?)")


def parse_duration(text: str) -> int:
    """Return how many seconds a number with a unit is; without one it is seconds.

    >>> parse_duration("90"), parse_duration("2h")
    (90, 7200)

    Raises:
        UsageError: the text is no duration.
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        expected = "a number with s, m, h, d or w behind it"
        details = BadValue(what="duration", value=text, expected=expected)
        raise UsageError(f"not a duration: {text!r}", details=details, hint=f"give {expected}, such as 30d")
    return int(found["count"]) * _SECONDS[found["unit"]]
