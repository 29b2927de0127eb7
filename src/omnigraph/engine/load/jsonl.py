"""JSONL sources: chunks decoded side by side, handed on in the order of the file."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor

from omnigraph.engine.load.chunks import iter_chunks
from omnigraph.engine.load.options import LoadSettings
from omnigraph.engine.load.sources import Source, open_source
from omnigraph.engine.rows import ChunkDecoder, DecodedChunk
from omnigraph.records import record


@record
class ReadChunk:
    """Decoded rows, and how many stored bytes of the source were read for them and everything before."""

    decoded: DecodedChunk
    bytes_read: int


def read_jsonl(source: Source, decoder: ChunkDecoder, settings: LoadSettings) -> Generator[ReadChunk]:
    """Yield the rows of a JSONL source, a chunk at a time.

    Raises:
        FileAccessError: it cannot be read.
        SourceTooLargeError: a line is too long.
    """
    waiting: deque[tuple[Future[DecodedChunk], int]] = deque()
    with (
        open_source(source) as stream,
        ThreadPoolExecutor(max_workers=settings.threads, thread_name_prefix="omnigraph-decode") as pool,
    ):
        chunks = iter_chunks(
            stream,
            source.name,
            chunk_bytes=settings.chunk_bytes,
            max_line_bytes=max(settings.max_line_bytes, source.longest_bytes),
        )
        for chunk in chunks:
            waiting.append((pool.submit(decoder.decode, chunk.data, chunk.first_line), chunk.bytes_read))
            # One more than there are threads: nobody idles, and memory stays bounded.
            while len(waiting) > settings.threads:
                yield _next(waiting)
        while waiting:
            yield _next(waiting)


def _next(waiting: deque[tuple[Future[DecodedChunk], int]]) -> ReadChunk:
    future, bytes_read = waiting.popleft()
    return ReadChunk(decoded=future.result(), bytes_read=bytes_read)
