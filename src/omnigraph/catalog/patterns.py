"""The regular expressions of ``@check``: of linear time, without look-around and back-references, and of bounded size.

Linear means that the time for a value is its length times the size of the pattern, so both have bounds: a pattern that
is too large is refused by the schema, and a value that is too long for its pattern breaks the rule.
"""

from __future__ import annotations

import re

# Steps that the engine may have to take for each byte of a value, at the most.
MAX_PATTERN_SIZE = 4_000
# Steps for one value: some seconds if the two are made for each other, next to nothing for the usual pattern.
_MAX_STEPS = 1 << 28

_PREFIX = "Invalid regular expression: "
# What counts as one: a quoted text character by character, an escape, a class, the opening of a group with its flags or
# its name. Possessive, so that the pattern of a pattern costs no more than its length.
_TOKEN = re.compile(
    r"""\\Q(?P<quoted>.*?)(?:\\E|\Z)
      | \\(?:[pPx]\{[^}]*+\}|.)
      | \[\^?+\]?+(?:\\.|\[:\^?\w++:\]|[^\]\\])*+\]
      | (?P<open>\((?:\?(?:P?<\w++>|[imsU-]*+:?))?+)
      | (?P<close>\))
      | \{(?P<least>\d{1,9}+)(?:,(?P<most>\d{0,9}+))?+\}
      | .""",
    re.VERBOSE | re.DOTALL,
)


def pattern_problem(pattern: str) -> str | None:
    """Say what is wrong with a pattern, or return None if rows can be checked against it.

    >>> pattern_problem("^[A-Z]{3}-[0-9]+$") is None
    True
    """
    if len(pattern.encode()) > MAX_PATTERN_SIZE:
        return f"it has more than {MAX_PATTERN_SIZE} bytes"
    # The engine that checks rows judges the pattern, so that a schema cannot be accepted whose writes then fail.
    # Imported here because only schemas with a @check need it, and reading a schema should stay cheap.
    import pyarrow as pa  # noqa: PLC0415 - see above
    import pyarrow.compute as pc  # noqa: PLC0415 - see above

    try:
        pc.match_substring_regex(pa.array([""], pa.string()), pattern)
    except pa.ArrowInvalid as error:
        return str(error).removeprefix(_PREFIX)
    size = pattern_size(pattern)
    if size > MAX_PATTERN_SIZE:
        return f"its repetitions make it {size} steps long, and {MAX_PATTERN_SIZE} is the most"
    return None


def pattern_size(pattern: str) -> int:
    """Return the size of a pattern that the engine takes: its parts, with counted repetitions written out.

    >>> pattern_size("^[A-Z]{3}-[0-9]+$"), pattern_size("(ab){10}c{2,5}")
    (8, 45)
    """
    # For each open group: the size before its last part, and that part, which a repetition multiplies.
    sizes, parts = [0], [0]
    for token in _TOKEN.finditer(pattern):
        if token["least"] is not None:
            parts[-1] *= max(int(token["least"]), int(token["most"] or 0), 1)
            continue
        sizes[-1] += parts[-1]
        parts[-1] = 1 if token["quoted"] is None else len(token["quoted"])
        if token["open"]:
            sizes.append(0)
            parts.append(0)
        elif token["close"] and len(sizes) > 1:
            # The group as a whole is the last part of what is around it.
            group = sizes.pop() + parts.pop()
            parts[-1] += group
    return sum(sizes) + sum(parts)


def longest_value(pattern: str) -> int:
    """Return how many bytes a value may have that is matched with a pattern."""
    return _MAX_STEPS // max(pattern_size(pattern), 1)
