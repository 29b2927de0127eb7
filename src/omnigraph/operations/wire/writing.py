"""``ResponseWriter``: a response as frames, written while it is made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraph.errors import Effect, InternalError, OmnigraphError
from omnigraph.operations.reads import PinnedState
from omnigraph.operations.wire.frames import FrameKind, encode_frame
from omnigraph.operations.wire.values import TAG, encode_value, to_bytes

# What is sent at once: large enough to be cheap, small enough that a slow reader holds up little memory.
PIECE_BYTES = 1 << 20
_ITEMS = 256

Write = Callable[[bytes], None]


class ResponseWriter:
    """Writes the frames of one response, in the thread that makes it.

    Args:
        write: takes bytes; it blocks while the reader is behind, which is what bounds memory.
    """

    def __init__(self, write: Write) -> None:
        self._write = write
        self._streams: list[Callable[[], None]] = []

    def progress(self, told: Any) -> None:
        """Write how far the operation is."""
        self._send(FrameKind.PROGRESS, to_bytes(encode_value(told)))

    def write(self, data: bytes) -> int:
        """Write bytes of an exported stream; what an operation gets as its sink."""
        self._send(FrameKind.BYTES, memoryview(data))
        return len(data)

    def file(self, name: str, path: Path) -> None:
        """Write a file of the operation under a name."""
        self._send(FrameKind.FILE, to_bytes({"name": name}))
        with path.open("rb") as stream:
            while data := stream.read(PIECE_BYTES):
                self.write(data)
        self._send(FrameKind.END, b"{}")

    def answer(self, response: Any) -> None:
        """Write a response, and then what it holds of rows and items, pulled as it is written."""
        document = encode_value(response, self._stand_in)
        self._send(FrameKind.RECORD, to_bytes({"response": document, "streams": len(self._streams)}))
        for stream in self._streams:
            stream()

    def fail(self, error: OmnigraphError) -> None:
        """Write the error that the operation ended with."""
        self._send(FrameKind.FAILURE, to_bytes(error.to_json()))

    def _send(self, kind: FrameKind, content: bytes | memoryview) -> None:
        self._write(encode_frame(kind, content))

    def _stand_in(self, value: Any) -> Any:
        """Return what stands for rows, a difference or items, and write them behind the document."""
        from omnigraph.engine.results.result import Result  # noqa: PLC0415 - loaded for responses that are not data
        from omnigraph.history.diff.compare import GraphDiff  # noqa: PLC0415 - see above

        number = len(self._streams)
        if isinstance(value, Result):
            self._streams.append(lambda: self._rows(value))
            schema = encode_value(_ipc(value.schema, []).to_pybytes())
            return {TAG: "Result", "stream": number, "schema": schema, "info": encode_value(value.info)}
        if isinstance(value, GraphDiff):
            self._streams.append(lambda: self._items(value))
            states = {"before": value.before, "after": value.after}
            shown = {name: encode_value(PinnedState(state=side.state)) for name, side in states.items()}
            return {TAG: "GraphDiff", "stream": number, **shown}
        if isinstance(value, Iterator):
            self._streams.append(lambda: self._items(value))
            return {TAG: "Iterator", "stream": number}
        return NotImplemented

    def _rows(self, result: Any) -> None:
        for batch in result.stream():
            for piece in _pieces(batch):
                self._send(FrameKind.ROWS, memoryview(_ipc(result.schema, [piece])))
        self._send(FrameKind.END, to_bytes({"cost": encode_value(result.cost)}))

    def _items(self, items: Iterable[Any]) -> None:
        waiting: list[bytes] = []
        size = 0
        for item in items:
            waiting.append(to_bytes(encode_value(item)))
            size += len(waiting[-1])
            if len(waiting) >= _ITEMS or size >= PIECE_BYTES:
                self._send(FrameKind.ITEMS, _array(waiting))
                waiting, size = [], 0
        if waiting:
            self._send(FrameKind.ITEMS, _array(waiting))
        self._send(FrameKind.END, b"{}")


def _array(items: list[bytes]) -> bytes:
    return b"[" + b",".join(items) + b"]"


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch in pieces of a bounded size, if its rows are of about the same one."""
    count = -(-batch.nbytes // PIECE_BYTES) if batch.num_rows else 1
    step = max(1, -(-batch.num_rows // max(1, count)))
    if count <= 1:
        yield batch
        return
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)


def _ipc(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


def as_error(error: Exception, *, is_write: bool) -> OmnigraphError:
    """Return what a caller elsewhere gets for an error: ours as it is, another one without what it may give away.

    An unexpected one may end a write before or after its commit was published.
    """
    if isinstance(error, OmnigraphError):
        return error
    effect = Effect.UNKNOWN if is_write else Effect.NONE
    hidden = InternalError("the server failed to execute the request", effect=effect)
    hidden.__cause__ = error
    return hidden
