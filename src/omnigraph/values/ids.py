"""Ids that name things across renames, processes and machines, one type each so that they cannot be mixed up."""

from __future__ import annotations

from typing import NewType, Self

from omnigraph.errors import BadValue, ValueFormatError

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_LETTERS = frozenset(_ALPHABET)
# The letters that Python writes the same numbers with.
_DIGITS = str.maketrans(_ALPHABET, "0123456789abcdefghijklmnopqrstuv")
_LENGTH = 26
ENTROPY_BITS = 80
MAX_TIMESTAMP_MS = (1 << 48) - 1


class Ulid(str):
    """A validated ULID; being text, it compares, sorts, hashes and serialises as what it prints as."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return ``text`` as a ULID.

        Raises:
            ValueFormatError: wrong length, a character outside the alphabet, or more than 128 bits.

        >>> Ulid.parse("01ARZ3NDEKTSV4RRFFQ69G5FAV").timestamp_ms
        1469922850259
        """
        if not is_ulid(text):
            expected = "26 upper-case Crockford base-32 characters"
            shown = str(text)[:64]
            details = BadValue(what="ulid", value=shown, expected=expected)
            raise ValueFormatError(f"invalid ULID {shown!r}", details=details)
        return cls(text)

    @classmethod
    def from_parts(cls, timestamp_ms: int, entropy: int) -> Self:
        """Return the ULID of a millisecond and 80 bits of entropy."""
        if not 0 <= timestamp_ms <= MAX_TIMESTAMP_MS or not 0 <= entropy < 1 << ENTROPY_BITS:
            details = BadValue(what="ulid", value=f"{timestamp_ms}, {entropy}", expected="48 and 80 bits")
            raise ValueFormatError("the parts do not fit a ULID", details=details)
        number = timestamp_ms << ENTROPY_BITS | entropy
        # Two letters at a time; the first pair has 8 of its 10 bits.
        return cls("".join([_PAIRS[number >> shift & 1023] for shift in range(120, -1, -10)]))

    @property
    def timestamp_ms(self) -> int:
        """The millisecond since the epoch in which it was made."""
        return self.number >> ENTROPY_BITS

    @property
    def entropy(self) -> int:
        """The 80 bits that tell ULIDs of one millisecond apart."""
        return self.number & ((1 << ENTROPY_BITS) - 1)

    @property
    def number(self) -> int:
        """All 128 bits."""
        return int(self.translate(_DIGITS), 32)


def is_ulid(text: object) -> bool:
    """Tell whether ``text`` is a ULID in its one canonical spelling.

    >>> is_ulid("01ARZ3NDEKTSV4RRFFQ69G5FAV"), is_ulid("81ARZ3NDEKTSV4RRFFQ69G5FAV")
    (True, False)
    """
    # 26 characters hold 130 bits; the first may only use three of its five.
    return isinstance(text, str) and len(text) == _LENGTH and text[0] in "01234567" and _LETTERS.issuperset(text)


TypeId = NewType("TypeId", int)
PropertyId = NewType("PropertyId", int)
IncarnationId = NewType("IncarnationId", int)
CommitId = NewType("CommitId", Ulid)
OperationId = NewType("OperationId", Ulid)
EntityId = NewType("EntityId", str)
