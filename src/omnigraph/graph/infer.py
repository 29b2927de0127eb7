"""``infer_schema``: a schema proposed for data that has none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from omnigraph.engine.infer import DEFAULT_ROWS, SchemaProposal, propose_schema, sample_files, table_of_rows
from omnigraph.engine.load import Source
from omnigraph.graph.arguments.loads import SourceArgument, load_sources
from omnigraph.values.checks import check_whole


def infer_schema(
    sources: SourceArgument | Sequence[SourceArgument] | Mapping[str, Any], *, rows: int = DEFAULT_ROWS
) -> SchemaProposal:
    """Propose a schema for files or tables: types, nullability, keys and edges, each guess explained in a comment.

    Args:
        sources: a file, folder or glob of JSONL, CSV or Parquet, or several of them; or a mapping from names of types
            to files, DataFrames, Arrow tables or lists of dictionaries.
        rows: how many rows of each are looked at.

    Raises:
        FileMissingError, FileAccessError: a file is not there, or cannot be read.
        BadRowsError: a file breaks its own format.
        UsageError: something is neither a file nor a table.

    >>> print(infer_schema({"City": [{"name": "Rome"}, {"name": "Oslo", "size": 7}]}).catalog.nodes["City"].key)
    ('name',)
    """
    check_whole("rows", rows, least=1)
    if isinstance(sources, Mapping):
        tables = []
        for name, data in sources.items():
            if isinstance(data, str | Path | Source):
                file = data if isinstance(data, Source) else Source(path=str(data))
                tables += sample_files([replace(file, type_name=str(name))], rows=rows)
            else:
                tables.append(table_of_rows(str(name), data, rows=rows))
    else:
        tables = sample_files(load_sources(sources), rows=rows)
    return propose_schema(tables)
