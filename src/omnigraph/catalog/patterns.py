"""The regular expressions of ``@check``: a linear-time dialect without look-around and back-references."""

from __future__ import annotations

_PREFIX = "Invalid regular expression: "


def pattern_problem(pattern: str) -> str | None:
    """Say what is wrong with a pattern, or return None if rows can be checked against it.

    >>> pattern_problem("^[A-Z]{3}-[0-9]+$") is None
    True
    """
    # The engine that checks rows judges the pattern, so that a schema cannot be accepted whose writes then fail.
    # Imported here because only schemas with a @check need it, and reading a schema should stay cheap.
    import pyarrow as pa  # noqa: PLC0415 - see above
    import pyarrow.compute as pc  # noqa: PLC0415 - see above

    try:
        pc.match_substring_regex(pa.array([""], pa.string()), pattern)
    except pa.ArrowInvalid as error:
        return str(error).removeprefix(_PREFIX)
    return None
