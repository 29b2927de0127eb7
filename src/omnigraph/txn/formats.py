"""Storage formats: the stamp on every manifest, the range this version serves, and the way up from older ones.

An upgrade step is a pure function from the rows of one format to the rows of the next. Reading an older format
applies the steps in memory; the first publish upon it writes the newest format. So an upgrade is a publish like any
other: atomic, recoverable, and decided once when two processes open the graph at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

import pyarrow as pa

from omnigraph.errors import FormatMismatch, FormatRange, FormatUnsupportedError, ManifestCorruptError
from omnigraph.records import record
from omnigraph.txn.manifest.codec import FORMAT_KEY
from omnigraph.values.formats import STORAGE_FORMAT

OLDEST_FORMAT = 1

UpgradeStep = Callable[[pa.Table], pa.Table]


@record
class FormatChain:
    """The formats served, with the step that leads from each older one to the next."""

    oldest: int = OLDEST_FORMAT
    newest: int = STORAGE_FORMAT
    steps: Mapping[int, UpgradeStep] = field(default_factory=dict)

    def stamp_of(self, schema: pa.Schema) -> int:
        """Return the format a manifest was written in.

        Raises:
            FormatUnsupportedError: outside the range that this version serves.
            ManifestCorruptError: there is no stamp.
        """
        text = (schema.metadata or {}).get(FORMAT_KEY.encode(), b"").decode()
        if not text.isdigit():
            details = FormatMismatch(what="manifest", expected=FORMAT_KEY, found=repr(text))
            raise ManifestCorruptError("the manifest carries no format stamp", details=details)
        stamp = int(text)
        if stamp < self.oldest or stamp > self.newest:
            hint = (
                "upgrade omnigraph"
                if stamp > self.newest
                else "export the graph with the version that wrote it and load it with this one"
            )
            raise FormatUnsupportedError(
                f"the graph has storage format {stamp}; this version serves {self.oldest} to {self.newest}",
                details=FormatRange(found=stamp, oldest=self.oldest, newest=self.newest),
                hint=hint,
            )
        return stamp

    def upgrade_rows(self, stamp: int, rows: pa.Table) -> pa.Table:
        """Return rows of format ``stamp`` as the newest format would hold them."""
        for source in range(stamp, self.newest):
            rows = self.steps[source](rows)
        return rows
