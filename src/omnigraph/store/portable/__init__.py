"""Work on one version of a table that any process can do: what goes out and what comes back is plain data."""

from omnigraph.store.portable.maintenance import (
    IndexWork,
    build_segment,
    index_work,
    merge_segments,
    run_compaction_task,
)
from omnigraph.store.portable.rows import (
    carried_fragments,
    discard_fragments,
    fragment_rows,
    fragment_sizes,
    read_fragments,
    shrink_fragment,
    write_fragments_for,
)
from omnigraph.store.portable.ticket import TableTicket

__all__ = [
    "IndexWork",
    "TableTicket",
    "build_segment",
    "carried_fragments",
    "discard_fragments",
    "fragment_rows",
    "fragment_sizes",
    "index_work",
    "merge_segments",
    "read_fragments",
    "run_compaction_task",
    "shrink_fragment",
    "write_fragments_for",
]
