"""Version numbers of what is stored, sent and written, each declared here and nowhere else."""

from __future__ import annotations

# Stamped on every manifest. It moves with everything that the version before would not read or would not keep.
STORAGE_FORMAT = 2
# Graphs of older formats are read and written as they are until somebody migrates them.
OLDEST_STORAGE_FORMAT = 1
# Versions that know no later format take an offer for a sidecar that outlived its claim, and remove it.
OFFERS_FORMAT = 2
# They read no commit that names its rows, and commits that do not must not share a version.
NAMED_ROWS_FORMAT = 2
# What client and server send each other under `/operations`. It moves when one of them would misread the other.
WIRE_VERSION = 1
# They move when a text that was accepted is refused, or means something else; what is added moves neither.
SCHEMA_LANGUAGE = 1
QUERY_LANGUAGE = 1
