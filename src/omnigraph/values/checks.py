"""Checks of what callers give as arguments and settings: one per kind of value, all of them strict.

A value of another type is refused, not converted: ``True`` is not a number of threads, and "Full" is not "full".
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Sequence

from omnigraph.errors import BadValue, UsageError
from omnigraph.values.text import checked_text

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
    if not (is_number and isinstance(value, int | float) and math.isfinite(value) and least <= value <= most):
        raise unfit(what, value, f"a finite number from {least:g}" + ("" if most == LARGEST else f" to {most:g}"))


def check_choice(what: str, value: object, choices: Sequence[str]) -> None:
    """Refuse what is not one of a closed set of words; the nearest one is suggested.

    Raises:
        UsageError: it is none of them.
    """
    if isinstance(value, str) and value in choices:
        return
    near = difflib.get_close_matches(value.lower(), choices, n=1) if isinstance(value, str) else []
    hint = f"did you mean {near[0]!r}?" if near else None
    raise unfit(what, value, " | ".join(choices), hint)


def check_text(what: str, value: object) -> None:
    """Refuse what is not a text that can be encoded.

    Raises:
        UsageError: it is of another type.
        ValueFormatError: it holds half of a surrogate pair.
    """
    if checked_text(what, value) is None:
        raise unfit(what, value, "text")


def check_texts(what: str, values: object) -> None:
    """Refuse what is not a collection of texts; None passes, as it stands for all of them.

    Raises:
        UsageError: it is something else, a single text among them, whose characters would be taken for names.
        ValueFormatError: one of them is not a text that can be encoded.
    """
    if values is None:
        return
    if isinstance(values, str | bytes) or not isinstance(values, Collection):
        raise unfit(what, values, "a list of texts")
    for value in values:
        check_text(what, value)


def check_flag(what: str, value: object) -> None:
    """Refuse what is neither True nor False.

    Raises:
        UsageError: it is another type.
    """
    if not isinstance(value, bool):
        raise unfit(what, value, "True or False")


def check_instance(what: str, value: object, kind: type | tuple[type, ...]) -> None:
    """Refuse what is not of a type; None passes, as it stands for the default.

    Raises:
        UsageError: it is of another type.
    """
    if value is not None and not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        raise unfit(what, value, " | ".join(one.__name__ for one in kinds))


def unfit(what: str, value: object, expected: str, hint: str | None = None) -> UsageError:
    """Return the error for a value that does not fit."""
    shown = ascii(value)[:_SHOWN]
    details = BadValue(what=what, value=shown, expected=expected)
    return UsageError(f"{what} must be {expected}, not {shown}", details=details, hint=hint)
