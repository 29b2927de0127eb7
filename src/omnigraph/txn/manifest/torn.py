"""Versions of the manifest that a power failure tore, and versions that are missing although they were there.

A writer syncs a version before it acknowledges it, and its claim stays until then. So a torn version whose claim is
there, and which no writer has noted as acknowledged, is one that nobody was told of: it is stepped over, and whoever
resolves the claim puts it aside and publishes its number anew. Without that proof it is damage, which is told and
never decided about here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from omnigraph.errors import OmnigraphError, StorageCorruptError, StorageFault
from omnigraph.runtime import Counters
from omnigraph.store.pins import TablePin
from omnigraph.store.versions import VersionFiles, version_file
from omnigraph.txn.lines import BranchLine

_log = logging.getLogger(__name__)

IsAcknowledged = Callable[[int, Counters], bool]


class TornVersions:
    """The manifest versions of one line that are not as they should be.

    Args:
        files: the version files of the graph.
        location: where manifests are.
        line: the line.
        is_acknowledged: whether a version may have been acknowledged; False is proof that it was not.
    """

    def __init__(self, files: VersionFiles, location: str, line: BranchLine, is_acknowledged: IsAcknowledged) -> None:
        self._files = files
        self._location = location
        self._line = line
        self._is_acknowledged = is_acknowledged
        # What was read or written by this process is whole, so that steady state looks at nothing.
        self._whole = 0
        self._told = 0

    def knows_whole(self, version: int) -> None:
        """Remember that a version could be read."""
        self._whole = max(self._whole, version)

    def newest_after(self, error: OmnigraphError) -> int:
        """Return the newest version by its file's name, when opening it ended with ``error``.

        Raises:
            OmnigraphError: that error, when there is nothing that could be stepped over.
        """
        newest = self._files.newest(self._location, self._line.line)
        if newest is None or not self._files.is_torn(self._pin(newest)):
            raise error
        return newest

    def step_over(self, latest: int, counters: Counters) -> int:
        """Return the newest version that counts: ``latest``, or the one before when that is torn and unacknowledged.

        Raises:
            StorageCorruptError: it is torn and may have been acknowledged.
        """
        pin = self._pin(latest)
        if latest <= self._whole or not self._files.is_torn(pin):
            return latest
        if self._is_acknowledged(latest, counters):
            raise self._damaged(pin, "the newest version of a branch is torn")
        if self._told < latest:
            self._told = latest
            _log.warning(
                "a torn version that was never acknowledged is stepped over branch=%s version=%s",
                self._line.name,
                latest,
            )
        return latest - 1

    def put_aside(self, version: int, counters: Counters) -> None:
        """Move a version away if it is torn and was never acknowledged; the caller holds its claim.

        Raises:
            StorageCorruptError: it is torn and may have been acknowledged.
        """
        pin = self._pin(version)
        if version <= self._whole or not self._files.is_torn(pin):
            return
        if self._is_acknowledged(version, counters):
            raise self._damaged(pin, "the newest version of a branch is torn")
        aside = self._files.put_aside(pin)
        _log.warning(
            "a torn version that was never acknowledged was put aside branch=%s version=%s kept=%s",
            self._line.name,
            version,
            aside,
        )

    def refuse_loss(self, newest: int, counters: Counters) -> None:
        """Refuse to take ``newest`` for the newest version when Lance has noted a later one that is gone.

        Raises:
            StorageCorruptError: a version is missing that may have been acknowledged.
        """
        hinted = self._files.hinted(self._location, self._line.line) or 0
        if hinted <= newest or self._files.exists(self._pin(hinted)):
            return
        if hinted == newest + 1 and not self._is_acknowledged(hinted, counters):
            return
        raise self._damaged(self._pin(hinted), "the newest version of a branch is missing")

    def gone_back(self, version: int) -> StorageCorruptError:
        """Return the error for a version that this process has seen and that is gone."""
        return self._damaged(self._pin(version), "a version of a branch is missing")

    def _pin(self, version: int) -> TablePin:
        return TablePin(location=self._location, branch=self._line.line, version=version)

    def _damaged(self, pin: TablePin, what: str) -> StorageCorruptError:
        details = StorageFault(
            doing="read the manifest",
            location=version_file(pin),
            reason="nothing proves that it was never acknowledged, so that going back could lose a write",
        )
        return StorageCorruptError(
            f"{what} branch={self._line.name} version={pin.version} object={version_file(pin)}", details=details
        )
