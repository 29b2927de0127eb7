"""Reading all sources of a load: good rows into the spool, the others into the list of problems."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from typing import assert_never

import numpy as np
import pyarrow as pa

from omnigraph.catalog.model import Catalog
from omnigraph.engine.load.csv import read_csv
from omnigraph.engine.load.embedding import MissingVectors
from omnigraph.engine.load.fresh_ids import fill_ids
from omnigraph.engine.load.jsonl import ReadChunk, read_jsonl
from omnigraph.engine.load.options import LoadProgress, LoadSettings, Progress
from omnigraph.engine.load.parquet import read_parquet
from omnigraph.engine.load.problems import ProblemList
from omnigraph.engine.load.sources import Source
from omnigraph.engine.load.spool import Spool
from omnigraph.engine.rows import ChunkDecoder, TypeRows
from omnigraph.records import record
from omnigraph.runtime.ids import IdSource

# Names that no property can have, so that a spooled row keeps everything that is known about it in one table.
SOURCE, LINE, GIVEN = ":source", ":line", ":given "


@record
class Intake:
    """Reads sources against a catalog; with ``vectors`` that is theirs, and rows may lack what they will fill."""

    catalog: Catalog
    settings: LoadSettings
    ids: IdSource
    is_patch: bool = False
    vectors: MissingVectors | None = None

    def read(self, sources: Sequence[Source], spool: Spool, problems: ProblemList, progress: Progress | None) -> None:
        """Read everything. Once a problem is found rows are only looked at, because nothing will be written.

        After very many problems nothing more is read.

        Raises:
            FileAccessError, SourceTooLargeError, TypeMissingError, UsageError: a source cannot be read at all.
        """
        decoder = ChunkDecoder(self.catalog, is_patch=self.is_patch)
        sizes = [source.size_bytes for source in sources]
        total = None if None in sizes else sum(size or 0 for size in sizes)
        done = rows = 0
        for number, source in enumerate(sources):
            with closing(self._chunks(source, decoder)) as chunks:
                for chunk in chunks:
                    rows += self._take(chunk, number, source.name, spool, problems)
                    if progress is not None:
                        progress(
                            LoadProgress(phase="read", bytes_read=done + chunk.bytes_read, bytes_total=total, rows=rows)
                        )
                    if problems.is_full:
                        problems.is_cut = True
                        return
            done += sizes[number] or 0

    def _take(self, chunk: ReadChunk, number: int, name: str, spool: Spool, problems: ProblemList) -> int:
        """Take over what was read of a source, and return how many rows that is."""
        decoded = chunk.decoded if self.vectors is None else self.vectors.settle(chunk.decoded)
        problems.add(problem.violation(name) for problem in decoded.problems)
        rows = 0
        for part in decoded.types.values():
            rows += part.rows.num_rows
            if not problems.total and part.rows.num_rows:
                is_fresh = part.rows.column("id").null_count == part.rows.num_rows
                spool.add(part.owner, self._spooled(part, number), has_fresh_ids=is_fresh)
        if problems.total:
            spool.forget()
        return rows

    def _chunks(self, source: Source, decoder: ChunkDecoder) -> Generator[ReadChunk]:
        match source.kind:
            case "jsonl":
                return read_jsonl(source, decoder, self.settings)
            case "csv":
                return read_csv(source, self.catalog, self.settings, is_patch=self.is_patch)
            case "parquet":
                return read_parquet(source, self.catalog, self.settings, is_patch=self.is_patch)
            case _:
                assert_never(source.kind)

    def _spooled(self, part: TypeRows, source: int) -> pa.Table:
        rows = part.rows
        ids = rows.column("id").combine_chunks()
        rows = rows.set_column(0, rows.schema.field("id"), fill_ids(ids, self.ids))
        rows = rows.append_column(SOURCE, pa.array(np.full(len(ids), source, dtype=np.int32)))
        rows = rows.append_column(LINE, part.lines)
        if part.given is not None:
            for prop in part.owner.properties:
                rows = rows.append_column(f"{GIVEN}{prop.name}", part.given.column(prop.name))
        return rows
