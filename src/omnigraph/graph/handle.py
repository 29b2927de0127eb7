"""``Handle``: the open session that all nouns of one graph share, and the check of who uses it."""

from __future__ import annotations

import os
from typing import NoReturn

from omnigraph.engine.session import GraphSession
from omnigraph.errors import BadValue, ForkedProcessError, UsageError
from omnigraph.history.feed.reader import ChangeReader
from omnigraph.txn.graph_store import OpenMode


class Handle:
    """An open session. It stays with the process that opened it."""

    def __init__(self, session: GraphSession, mode: OpenMode) -> None:
        self.uri = session.store.storage.root
        self.mode = mode
        self._session = session
        self._reader = ChangeReader(session.store)
        self._process_id = os.getpid()

    @property
    def is_foreign(self) -> bool:
        """Whether this is a process that was forked off after the graph was opened."""
        return os.getpid() != self._process_id

    @property
    def session(self) -> GraphSession:
        """The session.

        Raises:
            ForkedProcessError: it was opened before this process was forked off.
        """
        # Looked at before any lock is taken: one that another thread held at the fork is never released here.
        if self.is_foreign:
            raise ForkedProcessError("this graph was opened before the process was forked")
        return self._session

    @property
    def reader(self) -> ChangeReader:
        """What reads changes; pages of one large commit share its work.

        Raises:
            ForkedProcessError: it was opened before this process was forked off.
        """
        if self.is_foreign:
            raise ForkedProcessError("this graph was opened before the process was forked")
        return self._reader

    def close(self) -> None:
        """Let go of everything; in a forked process there is nothing to let go of."""
        if not self.is_foreign:
            self._session.close()

    def __reduce__(self) -> NoReturn:
        details = BadValue(what="graph", value=self.uri, expected="an address, which can be sent")
        raise UsageError(
            f"an open graph cannot be sent or copied uri={self.uri}", details=details, hint="open it again over there"
        )
