"""The error of a call whose arguments make no sense."""

from __future__ import annotations

from omnigraph.errors import BadValue, UsageError


def usage_error(
    message: str, *, expected: str, value: str = "", hint: str | None = None, what: str = "arguments"
) -> UsageError:
    """Return the error of a wrong call.

    Args:
        message: what is wrong.
        expected: what should have been given.
        value: what was.
        hint: what to do; to give what is expected, unless told otherwise.
        what: what the value is.

    >>> usage_error("nothing to load is named", expected="--data FILE").hint
    'give --data FILE'
    """
    details = BadValue(what=what, value=value, expected=expected)
    return UsageError(message, details=details, hint=f"give {expected}" if hint is None else hint)
