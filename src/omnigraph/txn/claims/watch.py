"""What is known of claims without reading one: where they are, and for how long they have been silent."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnigraph.txn.claims.store import Holding

RECOVERY_PREFIX = "__recovery"
# The folder of offers in that of a branch.
OFFERS = "offers"
OFFER_SUFFIX = ".offer"


def recovery_folder(branch: str, incarnation: str) -> str:
    """Return where the claims of a branch lie, and its offers in a folder of their own.

    >>> recovery_folder("team/x", "01abc")
    '__recovery/team,x~01abc'
    """
    # A comma cannot occur in a branch name, so two branches never share a folder.
    return f"{RECOVERY_PREFIX}/{branch.replace('/', ',')}~{incarnation}"


def branch_of_key(key: str) -> tuple[str, str]:
    """Return the branch name and incarnation whose claims lie where ``key`` does.

    >>> branch_of_key("__recovery/team,x~01abc/7.json")
    ('team/x', '01abc')
    """
    folder = key.removeprefix(f"{RECOVERY_PREFIX}/").partition("/")[0]
    name, _, incarnation = folder.rpartition("~")
    return name.replace(",", "/"), incarnation


class ClaimWatch:
    """How long claims have been silent, by this process's own monotonic clock.

    What a claim says about the time is not looked at: clocks of different machines tell nothing about each other.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[str, tuple[tuple[int, str], float]] = {}

    def silent_s(self, key: str, holding: Holding, now_s: float) -> float:
        """Return for how long a claim was seen with this sign of life; 0 at the first look."""
        sign = holding.turn, holding.sign
        with self._lock:
            known, since_s = self._seen.get(key, (None, now_s))
            if known != sign:
                self._seen[key] = sign, now_s
                return 0.0
            return now_s - since_s

    def forget(self, key: str) -> None:
        """Stop watching a claim that is gone."""
        with self._lock:
            self._seen.pop(key, None)
