"""``ResponseReader``: the response that frames stand for, which behaves as it does where it was made."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import pyarrow as pa

from omnigraph.errors import FormatMismatch, OmnigraphError, ServerIncompatibleError, error_from_json
from omnigraph.operations.request import NOTHING, Attachments
from omnigraph.operations.wire.diffs import ReceivedDiff
from omnigraph.operations.wire.frames import Frame, FrameKind
from omnigraph.operations.wire.values import MALFORMED, decode_value, from_bytes

# No response has as many; a document of a few bytes must not make more.
_MOST_STREAMS = 1000


class FileSink(Protocol):
    """What takes the files of a response."""

    def begin(self, name: str) -> None:
        """A file begins."""

    def write(self, data: bytes) -> None:
        """Bytes of the file."""

    def end(self) -> None:
        """The file is complete."""


class Stream:
    """What follows a document, piece by piece: what has arrived, and what brings the next piece.

    ``pull`` takes the next frame; it is called when something is asked for that has not arrived. Streams of one
    response share a lock, because the next frame may belong to any of them.
    """

    def __init__(self, pull: Callable[[], None], lock: threading.Lock) -> None:
        self._pull = pull
        self._waiting: deque[Any] = deque()
        self._lock = lock
        self.facts: Mapping[str, Any] = {}
        self.has_ended = False
        self.failure: OmnigraphError | None = None

    def put(self, piece: Any) -> None:
        """Take a piece."""
        self._waiting.append(piece)

    def __iter__(self) -> Iterator[Any]:
        while True:
            with self._lock:
                while not self._waiting and not self.has_ended and self.failure is None:
                    self._pull()
                if not self._waiting:
                    break
                piece = self._waiting.popleft()
            yield piece
        if self.failure is not None:
            raise self.failure


class ResponseReader:
    """Puts the frames of one response together.

    Args:
        attached: what accompanies the request: it is told how far the operation is, and gets exported bytes.
        files: what takes files.

    ``has_answer`` says that the response itself has arrived, ``has_delivered`` that bytes went where they cannot be
    taken back from.
    """

    def __init__(self, attached: Attachments = NOTHING, files: FileSink | None = None) -> None:
        self._attached = attached
        self._files = files
        self._is_in_file = False
        self._lock = threading.Lock()
        self._streams: list[Stream] = []
        self._current = 0
        self._pull: Callable[[], None] | None = None
        self._document: Any = None
        self._failure: OmnigraphError | None = None
        self.has_answer = False
        self.has_delivered = False
        self._takers: Mapping[FrameKind, Callable[[bytes], None]] = {
            FrameKind.RECORD: self._take_record,
            FrameKind.ROWS: lambda content: self._stream().put(content),
            FrameKind.ITEMS: self._take_items,
            FrameKind.END: self._take_end,
            FrameKind.FILE: self._take_file,
            FrameKind.BYTES: self._take_bytes,
            FrameKind.PROGRESS: self._take_progress,
            FrameKind.FAILURE: lambda content: self.fail(received_error(from_bytes(content))),
            FrameKind.WAIT: lambda _: None,
        }

    @property
    def is_complete(self) -> bool:
        """Whether no further frame belongs to the response."""
        return self._failure is not None or (self.has_answer and self._current == len(self._streams))

    @property
    def failure(self) -> OmnigraphError | None:
        """The error that it ended with."""
        return self._failure

    def take(self, frame: Frame) -> None:
        """Take the next frame.

        Raises:
            ServerIncompatibleError: it cannot come at this place.
        """
        self._takers[frame.kind](frame.content)

    def fail(self, error: OmnigraphError) -> None:
        """End the response with an error: the whole of it, or what has not arrived of its streams."""
        self._failure = error
        for stream in self._streams[self._current :]:
            stream.failure = error
        self._current = len(self._streams)

    def response(self, pull: Callable[[], None] | None = None) -> Any:
        """Return the response.

        Args:
            pull: takes the next frame of what has not arrived yet; None when everything has.

        Raises:
            OmnigraphError: what the operation failed with.
            ServerIncompatibleError: it holds what this version does not know.
        """
        if not self.has_answer:
            raise self._failure if self._failure is not None else _misplaced("the end")
        self._pull = pull
        hooks = {"Result": self._result, "GraphDiff": self._diff, "Iterator": self._iterator}
        try:
            return decode_value(self._document, hooks)
        except RecursionError as problem:
            raise _misplaced("a value that is nested too deeply") from problem

    def _pull_more(self) -> None:
        if self._pull is None:
            self.fail(_misplaced("the end"))
        else:
            self._pull()

    def _stream(self) -> Stream:
        if self._current >= len(self._streams):
            raise _misplaced("a piece of no stream")
        return self._streams[self._current]

    def _take_record(self, content: bytes) -> None:
        envelope = from_bytes(content)
        count = envelope.get("streams") if isinstance(envelope, dict) and "response" in envelope else None
        if type(count) is not int or not 0 <= count <= _MOST_STREAMS or self.has_answer:
            raise _misplaced("a document")
        self._document = envelope["response"]
        self._streams = [Stream(self._pull_more, self._lock) for _ in range(count)]
        self.has_answer = True

    def _take_items(self, content: bytes) -> None:
        stream, items = self._stream(), from_bytes(content)
        if not isinstance(items, list):
            raise _misplaced("items")
        for item in items:
            stream.put(item)

    def _take_end(self, content: bytes) -> None:
        if not self._is_in_file:
            stream, facts = self._stream(), from_bytes(content)
            if not isinstance(facts, dict):
                raise _misplaced("an end")
            stream.facts, stream.has_ended = facts, True
            self._current += 1
            return
        self._is_in_file = False
        if self._files is not None:
            self._files.end()

    def _take_file(self, content: bytes) -> None:
        told = from_bytes(content)
        name = told.get("name") if isinstance(told, dict) else None
        if not isinstance(name, str) or self._is_in_file:
            raise _misplaced("a file")
        self._is_in_file = True
        if self._files is not None:
            self._files.begin(name)

    def _take_bytes(self, content: bytes) -> None:
        self.has_delivered = True
        if not self._is_in_file:
            if self._attached.sink is not None:
                self._attached.sink.write(content)
        elif self._files is not None:
            self._files.write(content)

    def _take_progress(self, content: bytes) -> None:
        if self._attached.progress is not None:
            self._attached.progress(decode_value(from_bytes(content)))

    def _result(self, document: Mapping[str, Any]) -> Any:
        from omnigraph.engine.results.result import Result  # noqa: PLC0415 - loaded for responses that hold rows
        from omnigraph.runtime import Counters  # noqa: PLC0415 - see above

        stream, counters = self._streams[document["stream"]], Counters()

        def batches() -> Iterator[pa.RecordBatch]:
            for content in stream:
                yield from _batches(content)
            if "cost" in stream.facts:
                counters.add(decode_value(stream.facts["cost"]))

        schema = pa.ipc.open_stream(decode_value(document["schema"])).schema
        given: Any = batches()
        if stream.has_ended:
            given = list(given)
        return Result(schema, given, decode_value(document["info"]), counters)

    def _diff(self, document: Mapping[str, Any]) -> Any:
        changes = map(decode_value, self._streams[document["stream"]])
        return ReceivedDiff(decode_value(document["before"]), decode_value(document["after"]), changes)

    def _iterator(self, document: Mapping[str, Any]) -> Iterator[Any]:
        return map(decode_value, self._streams[document["stream"]])


def received_error(document: Any) -> OmnigraphError:
    """Return the error that a document of the other side stands for.

    Raises:
        ServerIncompatibleError: it stands for none.
    """
    try:
        return error_from_json(document)
    except MALFORMED as problem:
        raise _misplaced("an error that cannot be read") from problem


def _batches(content: bytes) -> list[pa.RecordBatch]:
    try:
        return list(pa.ipc.open_stream(content))
    except (pa.ArrowException, OSError) as problem:
        raise _misplaced("rows that cannot be read") from problem


def _misplaced(what: str) -> ServerIncompatibleError:
    details = FormatMismatch(what="response", expected="frames in their order", found=what)
    return ServerIncompatibleError(f"the response has {what} where it cannot be", details=details)
