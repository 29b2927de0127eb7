"""Texts that people give: whatever is stored or sent can be encoded."""

from __future__ import annotations

from omnigraph.errors import BadValue, ValueFormatError


def checked_text(what: str, text: object) -> str | None:
    """Return ``text`` if it is one that can be stored, or None if there is none.

    Args:
        what: what the text is, for the error.
        text: the text.

    Raises:
        ValueFormatError: it is not a text, or holds half of a surrogate pair, which no encoding can hold.

    >>> checked_text("actor", "Mira")
    'Mira'
    """
    if text is None:
        return None
    if not isinstance(text, str):
        details = BadValue(what=what, value=repr(text)[:200], expected="text")
        raise ValueFormatError(f"{what} must be text, not {type(text).__name__}", details=details)
    try:
        text.encode()
    except UnicodeEncodeError as problem:
        details = BadValue(what=what, value=ascii(text)[:200], expected="valid Unicode")
        raise ValueFormatError(
            f"{what} is not valid Unicode at character {problem.start + 1}: {ascii(text)[:80]}", details=details
        ) from problem
    return text
