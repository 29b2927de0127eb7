"""Branches as storage knows them: which line of the manifest is whose, and whether it still is anybody's."""

from __future__ import annotations

import string
from collections.abc import Callable
from contextlib import AbstractContextManager

from omnigraph.errors import (
    BranchMissingError,
    MissingThing,
    StorageCorruptError,
    TableMissingError,
    VersionMissingError,
)
from omnigraph.records import record
from omnigraph.store.tables.pins import TablePin
from omnigraph.values import MAIN, BranchName

# What Lance leaves as it is; every byte of anything else is encoded twice.
_PLAIN = frozenset(string.ascii_letters + string.digits + "-._~")
_ENCODED_BYTES = len("%25XX")
# A file name may have 255 bytes, of which the ref of a fork needs 9 for its own name, 5 for its ending and 39 while it
# is being written.
_MAX_LINE_BYTES = 255 - 9 - 5 - 39
_LONG_NAME = "long-name"
# What those meet who read a branch whose files are being removed.
_MISSING = (StorageCorruptError, TableMissingError, VersionMissingError)


@record
class BranchIncarnation:
    """A branch as storage knows it: ``lance_branch`` is the Lance branch of the manifest, unique to this incarnation.

    Because a deleted and re-created branch gets another one, a late writer of the old one cannot reach the new one.
    """

    name: BranchName
    incarnation: str
    lance_branch: str | None

    @property
    def born_as(self) -> str | None:
        """What tells this life of a branch from all others; None for main, which has one."""
        return None if self.lance_branch is None else self.incarnation

    def owns(self, pin: TablePin) -> bool:
        """Whether a table at this pin is written by this branch alone; any other pin is inherited and must fork."""
        if self.lance_branch is None:
            return pin.branch is None
        return pin.branch is not None and pin.branch.startswith(f"{self.lance_branch}.")


def lance_branch_name(name: str, incarnation: str) -> str:
    """Return the Lance branch of the manifest that one life of a branch name is.

    Lance writes the name of a branch, encoded, into the name of one file, so a name that would not fit there is left
    out: the incarnation alone says which branch it is.

    >>> lance_branch_name("draft", "01abc"), lance_branch_name("ä" * 100, "01abc")
    ('draft.01abc', 'long-name.01abc')
    """
    plain = f"{name}.{incarnation}"
    letters = sum(1 if letter in _PLAIN else _ENCODED_BYTES * len(letter.encode()) for letter in plain)
    return plain if letters <= _MAX_LINE_BYTES else f"{_LONG_NAME}.{incarnation}"


MAIN_INCARNATION = BranchIncarnation(name=BranchName(MAIN), incarnation=MAIN, lance_branch=None)


class BranchLife:
    """Tells those who find something of a branch missing whether the branch is there at all.

    The files of a deleted branch go in any order, so that what a reader misses first may look like anything.
    """

    def __init__(self, line: BranchIncarnation, is_live: Callable[[BranchIncarnation], bool]) -> None:
        self.line = line
        self._is_live = is_live

    def reading(self) -> AbstractContextManager[None]:
        """Let the block read what belongs to the branch, and say so when the branch was deleted.

        Raises:
            BranchMissingError: something is missing because the branch was deleted.
        """
        return Explaining(self.explain)

    def explain(self, error: BaseException) -> None:
        """Raise that the branch was deleted, if that is why something of it is missing.

        Raises:
            BranchMissingError: the branch was deleted.
        """
        # Main is the graph itself.
        if self.line.lance_branch is None or not isinstance(error, _MISSING) or self._is_live(self.line):
            return
        raise branch_missing(self.line.name) from error


class Explaining:
    """A block whose errors go to a function, which may raise a clearer one; every read enters several of them."""

    __slots__ = ("_explain",)

    def __init__(self, explain: Callable[[BaseException], None]) -> None:
        self._explain = explain

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self._explain(error)


MAIN_LIFE = BranchLife(MAIN_INCARNATION, lambda *_: True)


def branch_missing(name: BranchName, near: tuple[str, ...] = ()) -> BranchMissingError:
    """Return the error for a branch that is not there."""
    return BranchMissingError(f"branch '{name}' not found", details=MissingThing(what="branch", name=name, near=near))
