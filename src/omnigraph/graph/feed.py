"""``Feed``: the changes of a branch, batch after batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NoReturn

from omnigraph.errors import BadValue, UsageError
from omnigraph.graph.waiting import manner
from omnigraph.history.feed.batch import FeedBatch
from omnigraph.operations.history import FeedRequest
from omnigraph.operations.request import Backend
from omnigraph.values import check_flag, check_number
from omnigraph.values.printable import Printable

# A start that is not a token yet: it must be pinned, or seen to exist, when the feed is made.
_NOW = "now"


class Feed(Printable):
    """The changes of a branch behind a place, oldest first. Iterating gives batches.

    Without ``follow`` the feed ends when it is caught up, and iterating again gives what was committed since. With it,
    iterating waits for further commits until :meth:`stop` is called or the thread is interrupted. A feed keeps nothing
    in the graph: :attr:`token` is all there is to it.
    """

    def __init__(self, backend: Backend, request: FeedRequest, *, follow: bool, interval_s: float) -> None:
        check_flag("follow", follow)
        check_number("interval_s", interval_s, least=0.001)
        self._backend = backend
        self._request = request
        self._follow = follow
        self._interval_s = interval_s
        self._stopped = manner.get().stop()
        self._source: str | None = None

    def pin(self) -> None:
        """Begin at this moment if the feed begins at ``now``: all later commits belong to it."""
        if self._request.start == _NOW:
            self._take(self._backend.execute(self._request))

    @property
    def token(self) -> str:
        """Where the feed goes on; a valid ``start``, also before the first batch."""
        return self._request.start

    @property
    def source(self) -> str:
        """What tells this feed from every other: its graph, branch and filter."""
        return self.identify()

    def identify(self) -> str:
        """Return what :attr:`source` is."""
        if self._source is None:
            self._source = self._backend.execute(replace(self._request, start=_NOW)).source
        return self._source

    def seek(self, token: str) -> None:
        """Go on behind another place, such as the token that an applied feed has reached."""
        self._request = replace(self._request, start=token)

    def stop(self) -> None:
        """End a feed that waits for commits; it may be called from another thread."""
        self._stopped.set()

    def groups(self) -> Iterator[list[FeedBatch]]:
        """Yield batches that belong together: each group ends behind a commit."""
        waiting: list[FeedBatch] = []
        for batch in self:
            waiting.append(batch)
            if not batch.end.part:
                yield waiting
                waiting = []
        if waiting:
            yield waiting

    def __iter__(self) -> Iterator[FeedBatch]:
        while not self._stopped.is_set():
            batch = self._take(self._backend.execute(self._request))
            if batch.blocks:
                yield batch
            if not batch.is_caught_up:
                continue
            if not self._follow:
                return
            self._stopped.wait(self._interval_s)

    def __reduce__(self) -> NoReturn:
        details = BadValue(what="feed", value=repr(self), expected="the token of the feed")
        raise UsageError(
            "a feed cannot be sent to another process", details=details, hint="send its token and make the feed there"
        )

    def lines(self) -> Iterator[str]:
        """Yield the branch, and where the feed goes on."""
        yield f"of {self._request.branch} from {self.token}"

    def _take(self, batch: FeedBatch) -> FeedBatch:
        self._source = batch.source
        self._request = replace(self._request, start=batch.token)
        return batch
