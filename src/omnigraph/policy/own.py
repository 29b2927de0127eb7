"""The branches that belong to an actor: those below ``agents/<actor>/``."""

from __future__ import annotations

PREFIX = "agents/"
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-")


def own_branches(actor: str) -> str:
    """Return what the names of an actor's own branches begin with.

    What is neither a letter of ASCII, a digit nor a dash is written by its bytes, so that no two actors share a place.

    >>> own_branches("planner"), own_branches("ada@example.com")
    ('agents/planner/', 'agents/ada_40example_2ecom/')
    """
    signs = (char if char in _PLAIN else "".join(f"_{byte:02x}" for byte in char.encode()) for char in actor)
    return f"{PREFIX}{''.join(signs)}/"


def is_own(actor: str, branch: str | None) -> bool:
    """Whether a branch belongs to an actor.

    >>> is_own("planner", "agents/planner/fix"), is_own("planner", "agents/planner2/fix"), is_own("planner", None)
    (True, False, False)
    """
    prefix = own_branches(actor)
    return branch is not None and branch.startswith(prefix) and len(branch) > len(prefix)
