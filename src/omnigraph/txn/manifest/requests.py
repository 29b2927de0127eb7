"""Which commits of a branch were asked for under an idempotency key.

The key stands in the commit, so that every process finds it, as long as history keeps the commit. A process reads the
keys of the last days when a branch is first written to under a key, and after that only what others have published:
its own commits are in memory, so that a key costs a steady writer no call.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable

from omnigraph.errors import IdempotencyKeyError, RepeatedRequest, RequestRepeatedError
from omnigraph.runtime import CallContext, Clock
from omnigraph.txn.manifest.file import LoadedManifest
from omnigraph.txn.manifest.lineage import CommitLine
from omnigraph.txn.manifest.rows import Commit, RequestMark

# The newest ones are kept; each takes some 200 bytes of memory.
MAX_KEYS = 100_000
_DIGEST_BYTES = 16


def request_mark(call: CallContext, actor: str | None) -> RequestMark | None:
    """Return what a commit says of the request that asks for it; the receipt is added when it is published.

    A key belongs to its actor: another one who uses the same key asks for something else.
    """
    if call.idempotency_key is None:
        return None if call.request_id is None else RequestMark(id=call.request_id)
    owner = "" if actor is None else f"{len(actor)}:{actor}"
    return RequestMark(
        id=call.request_id, key=_digest(f"{owner}/{call.idempotency_key}"), payload=_digest(call.payload_digest)
    )


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()


class KeyedCommits:
    """The commits of one branch that have a key. Threads may share it.

    Args:
        line_of: gives the history that a version of the manifest ends.
        clock: tells how old a commit is.
        keep_s: for how long a key is known.
    """

    def __init__(self, line_of: Callable[[LoadedManifest], CommitLine], clock: Clock, keep_s: float) -> None:
        self._line_of = line_of
        self._clock = clock
        self._keep_ms = int(keep_s * 1000)
        self._lock = threading.Lock()
        # Positions never change, so that what was read once stays true.
        self._positions: dict[str, int] = {}
        self._read_until = 0

    def refuse_repeated(self, loaded: LoadedManifest, mark: RequestMark | None) -> None:
        """Return if no commit of the branch, as ``loaded`` has it, was made under the key of a request.

        Raises:
            RequestRepeatedError: one was, for the same request.
            IdempotencyKeyError: one was, for another request.
        """
        if mark is None or mark.key is None or not self._keep_ms:
            return
        line = self._line_of(loaded)
        oldest_ms = self._clock.now_ms() - self._keep_ms
        with self._lock:
            self._read(line, oldest_ms)
            position = self._positions.get(mark.key)
        # A version older than what was read may lack the commit: it is not the newest, and the next attempt sees it.
        if position is None or position >= len(line):
            return
        first = line.at(position)
        if first.published_at_ms >= oldest_ms:
            raise already_done(first, mark)

    def _read(self, line: CommitLine, oldest_ms: int) -> None:
        if len(line) <= self._read_until:
            return
        found = {
            commit.request.key: position
            for position, commit in line.keyed_after(self._read_until, oldest_ms)
            if commit.request is not None and commit.request.key is not None
        }
        # They come newest first; the order of insertion is the order of age.
        for key, position in reversed(found.items()):
            self._positions[key] = position
        while len(self._positions) > MAX_KEYS:
            del self._positions[next(iter(self._positions))]
        self._read_until = len(line)


def already_done(first: Commit, mark: RequestMark) -> RequestRepeatedError | IdempotencyKeyError:
    """Return the error for a request whose key ``first`` was made under."""
    details = RepeatedRequest(branch=first.branch, commit_id=first.id, request_id=first.request_id)
    if first.request is not None and first.request.payload == mark.payload:
        return RequestRepeatedError(f"the write was published before, as commit '{first.id}'", details=details)
    return IdempotencyKeyError(
        f"the idempotency key was used before, for another write: commit '{first.id}'", details=details
    )
