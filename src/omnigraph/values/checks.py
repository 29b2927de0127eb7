"""Checks of what callers give as arguments and settings: one per kind of value, all of them strict.

A value of another type is refused, not converted: ``True`` is not a number of threads, and "Full" is not "full".
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath

from omnigraph.errors import BadValue, UsageError, ValueFormatError
from omnigraph.values.patterns import late_pattern

_SHOWN = 100
# What every counter and size of this package fits into.
LARGEST = (1 << 63) - 1


def check_whole(what: str, value: object, *, least: int = 0, most: int = LARGEST, optional: bool = False) -> None:
    """Refuse what is not a whole number within bounds; ``optional`` lets None pass.

    Raises:
        UsageError: it is another type, or out of bounds.
    """
    if optional and value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise unfit(what, value, f"a whole number from {least}" + ("" if most == LARGEST else f" to {most}"))


def check_number(
    what: str, value: object, *, least: float = 0.0, most: float = float(LARGEST), optional: bool = False
) -> None:
    """Refuse what is not a finite number within bounds; ``optional`` lets None pass.

    Raises:
        UsageError: it is another type, not finite, or out of bounds.
    """
    if optional and value is None:
        return
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # NaN is within no bounds.
    if not (is_number and isinstance(value, int | float) and least <= value <= most):
        raise unfit(what, value, f"a finite number from {least:g}" + ("" if most == LARGEST else f" to {most:g}"))


def check_choice(what: str, value: object, choices: Sequence[str]) -> None:
    """Refuse what is not one of a closed set of words; the nearest one is suggested.

    Raises:
        UsageError: it is none of them.
    """
    if isinstance(value, str) and value in choices:
        return
    raise unfit(what, value, " | ".join(choices), meant(value, choices))


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
        details = BadValue(what=what, value=shown_value(text), expected="text")
        raise ValueFormatError(f"{what} must be text, not {type(text).__name__}", details=details)
    try:
        text.encode()
    except UnicodeEncodeError as problem:
        details = BadValue(what=what, value=ascii(text)[:200], expected="valid Unicode")
        raise ValueFormatError(
            f"{what} is not valid Unicode at character {problem.start + 1}: {ascii(text)[:80]}", details=details
        ) from problem
    return text


def check_text(what: str, value: object) -> None:
    """Refuse what is not a text that can be encoded.

    Raises:
        UsageError: it is of another type.
        ValueFormatError: it holds half of a surrogate pair.
    """
    if checked_text(what, value) is None:
        raise unfit(what, value, "text")


def check_path(what: str, value: object) -> None:
    """Refuse what cannot be the path of a file of this machine.

    Raises:
        UsageError: it is of another type.
        ValueFormatError: no file can have such a name.
    """
    if not isinstance(value, str | PurePath) or not str(value):
        raise unfit(what, value, "a path")
    try:
        # Names that are no UTF-8 are in order here: systems have such files, and Python spells them its own way.
        is_name = b"\0" not in os.fsencode(value)
    except UnicodeEncodeError:
        is_name = False
    if not is_name:
        shown = ascii(str(value))[:_SHOWN]
        details = BadValue(what=what, value=shown, expected="a name that a file can have")
        raise ValueFormatError(f"{what} is not a valid file name: {shown}", details=details)


def check_flag(what: str, value: object) -> None:
    """Refuse what is neither True nor False.

    Raises:
        UsageError: it is another type.
    """
    if not isinstance(value, bool):
        raise unfit(what, value, "True or False")


def check_flags(**given: object) -> None:
    """Refuse each of several arguments that is neither True nor False, as :func:`check_flag` does."""
    for what, value in given.items():
        check_flag(what, value)


def check_callable(what: str, value: object) -> None:
    """Refuse what cannot be called; None passes, as it stands for the default.

    Raises:
        UsageError: it cannot be called.
    """
    if value is not None and not callable(value):
        raise unfit(what, value, "a function")


def checked_names(what: str, value: object) -> tuple[str, ...]:
    """Return several texts, from anything that holds them but a mapping, and but one text, which falls into letters.

    Raises:
        UsageError: it is of another type, or something in it is.
        ValueFormatError: one of them holds half of a surrogate pair.
    """
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise unfit(what, value, "several names")
    names = tuple(value)
    for name in names:
        check_text(what, name)
    return names


def check_instance(what: str, value: object, kind: type | tuple[type, ...], *, optional: bool = True) -> None:
    """Refuse what is not of a type; unless ``optional`` says otherwise None passes, as it stands for the default.

    Raises:
        UsageError: it is of another type.
    """
    if not (optional and value is None) and not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        raise unfit(what, value, " | ".join(one.__name__ for one in kinds))


def meant(value: object, choices: Iterable[str]) -> str | None:
    """Return the hint that names the nearest of the words that are known, if one is near."""
    import difflib  # noqa: PLC0415 - for mistakes

    near = difflib.get_close_matches(value[:_SHOWN].lower(), list(choices), n=1) if isinstance(value, str) else []
    return f"did you mean {near[0]!r}?" if near else None


def unfit(what: str, value: object, expected: str, hint: str | None = None) -> UsageError:
    """Return the error for a value that does not fit."""
    shown = shown_value(value)
    details = BadValue(what=what, value=shown, expected=expected)
    return UsageError(f"{what} must be {expected}, not {shown}", details=details, hint=hint)


def shown_value(value: object) -> str:
    """Return the beginning of a value as messages show it, whatever it is."""
    try:
        return ascii(value)[:_SHOWN]
    except (ValueError, RecursionError):
        # A number of thousands of digits, which Python does not write.
        return f"a very long {type(value).__name__}"


_SIZE = late_pattern(r"(?P<number>[0-9]{1,15}(?:\.[0-9]{1,6})?)(?P<unit>[kmgt]?)(?:i?b)?", re.IGNORECASE)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def size_of(text: str) -> int | None:
    """Return the bytes that a text says, None if it says no size.

    >>> size_of("1.5k"), size_of("2 GB")
    (1536, None)
    """
    match = _SIZE.fullmatch(text.strip())
    return None if match is None else int(float(match["number"]) * _UNITS[match["unit"].lower()])
