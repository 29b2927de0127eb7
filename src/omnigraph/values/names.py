"""Names of branches, tags and tables, valid by construction."""

from __future__ import annotations

from functools import lru_cache
from typing import Self

from omnigraph.errors import BadValue, ValueFormatError
from omnigraph.values.checks import check_text
from omnigraph.values.ids import is_ulid
from omnigraph.values.patterns import late_pattern

MAIN = "main"
# A ref of this name serialised schema changes in older stores; it stays out of reach of people.
INTERNAL_REFS = frozenset({"__schema_apply_lock__"})
_SEGMENT = late_pattern(r"[\w.\-]+")
MAX_NAME_BYTES = 200


class BranchName(str):
    """The name of a branch: segments of letters, digits, ``.``, ``-`` and ``_``, separated by single slashes."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return ``text`` as a branch name, surrounding white space trimmed.

        Raises:
            ValueFormatError: the name breaks a rule; the message says which.

        >>> BranchName.parse(" review/2026-07 ")
        'review/2026-07'
        """
        if type(text) is str and text == MAIN:
            # What nearly every call names.
            return cls(text)
        check_text("branch name", text)
        name = text.strip()
        _check_ref_name("branch", name)
        return cls(name)

    @property
    def is_main(self) -> bool:
        """Whether this is the branch every graph has."""
        return self == MAIN

    def overlaps(self, other: BranchName) -> bool:
        """Whether one name is a path prefix of the other, so that both cannot be live at once.

        >>> BranchName("review").overlaps(BranchName("review/x")), BranchName("review").overlaps(BranchName("reviews"))
        (True, False)
        """
        return self == other or self.startswith(f"{other}/") or other.startswith(f"{self}/")


class ActorName(str):
    """The name of an actor, as policies compare it and commits record it."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return ``text`` as the name of an actor, surrounding white space trimmed.

        Raises:
            ValueFormatError: it is blank, or cannot be compared character by character.

        >>> ActorName.parse(" act-mira ")
        'act-mira'
        """
        check_text("actor", text)
        name = text.strip()
        if not is_comparable(name):
            details = BadValue(what="actor", value=name[:128], expected="printable characters in normal form (NFC)")
            raise ValueFormatError(f"invalid actor {name[:128]!r}", details=details)
        return cls(name)


class TagName(str):
    """The name of a tag; it follows the rules of branch names."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return ``text`` as a tag name, surrounding white space trimmed.

        Raises:
            ValueFormatError: the name breaks a rule; the message says which.
        """
        check_text("tag name", text)
        name = text.strip()
        _check_ref_name("tag", name)
        return cls(name)


def is_comparable(name: str) -> bool:
    """Return True if a name is not blank, can be printed, and has the one spelling (NFC) in which names are compared.

    >>> is_comparable("act-mira"), is_comparable(" "), is_comparable("e\u0301")
    (True, False, False)
    """
    if not name.strip() or not name.isprintable():
        return False
    if name.isascii():
        return True
    from unicodedata import is_normalized  # noqa: PLC0415 - nearly every name is ASCII

    return is_normalized("NFC", name)


def _check_ref_name(what: str, name: str) -> None:
    problem = _ref_name_problem(name)
    if problem is not None:
        expected = "letters, digits, '.', '-' and '_' in segments separated by single '/'"
        details = BadValue(what=f"{what} name", value=name[:128], expected=expected)
        raise ValueFormatError(f"invalid {what} name {name[:128]!r}: {problem}", details=details)


@lru_cache(maxsize=1024)
def _ref_name_problem(name: str) -> str | None:
    if not name:
        return "it is empty"
    if len(name.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
        return f"it is longer than {MAX_NAME_BYTES} bytes"
    if any(not _SEGMENT.fullmatch(segment) for segment in name.split("/")):
        return "a segment is empty or holds a character that is not allowed"
    if not is_comparable(name):
        # Two spellings that look the same would be two branches.
        return "it is not in Unicode normal form C"
    if ".." in name or name.endswith(".lock") or any(segment == "." for segment in name.split("/")):
        return "it holds '..', a segment '.', or ends in '.lock'"
    if name in INTERNAL_REFS:
        return "it does not allow internal system ref names"
    if name != MAIN and name.lower() == MAIN:
        return "the main branch is spelled 'main'"
    if is_ulid(name):
        # Otherwise a reference could mean a branch or a commit.
        return "it has the form of a commit id"
    return None


_ENUM_WORD = late_pattern(r"[A-Za-z0-9_-]+")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def enum_word(value: str) -> str:
    """Return a value of an enum as a schema holds it: bare if it can be, else in quotes.

    >>> enum_word("data-eng"), enum_word("in progress")
    ('data-eng', '"in progress"')
    """
    if _ENUM_WORD.fullmatch(value):
        return value
    return f'"{"".join(_ESCAPES.get(sign, sign) for sign in value)}"'
