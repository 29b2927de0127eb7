"""Documents and lines that reach a stream whole, however they were made."""

from __future__ import annotations

import io
import signal

import pytest

from omnigraph.cli import output as whole
from omnigraph.cli.output import LineBuffer, whole_document, write_whole


class Recorder(io.BytesIO):
    """Keeps what each write was given."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[bytes] = []

    def write(self, piece) -> int:
        self.pieces.append(bytes(piece))
        return super().write(piece)


class Interrupting(io.StringIO):
    """Is interrupted in the middle of the first write, ``times`` times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def write(self, text: str) -> int:
        half = super().write(text[:2])
        for _ in range(self.times):
            signal.raise_signal(signal.SIGINT)
        return half + super().write(text[2:])


def test_lines_that_come_in_pieces_of_any_size_reach_the_stream_line_by_line(monkeypatch):
    monkeypatch.setattr(whole, "_PIECE", 8)
    stream, text = Recorder(), b"one\ntwo\nand a long one\nx\ny\nno newline at the end"
    with LineBuffer(stream, b"\n") as lines:
        for start in range(0, len(text), 3):
            lines.write(memoryview(text)[start : start + 3])
    assert stream.getvalue() == text
    assert len(stream.pieces) > 2
    assert all(piece.endswith(b"\n") for piece in stream.pieces[:-1])


@pytest.mark.parametrize("spool_bytes", [1, 1 << 20], ids=["on disk", "in memory"])
def test_a_document_is_written_when_it_is_done_and_not_at_all_when_it_fails(monkeypatch, spool_bytes):
    monkeypatch.setattr(whole, "_SPOOL_BYTES", spool_bytes)
    stream, pieces = io.StringIO(newline=""), ["{\r\n", "\ud800 → ", "x" * 100_000, "\n}\n"]
    with whole_document(stream) as sink:
        for piece in pieces:
            sink.write(piece)
        assert stream.getvalue() == ""
    assert stream.getvalue() == "".join(pieces)
    with pytest.raises(TypeError), whole_document(stream) as sink:
        sink.write(None)
    assert stream.getvalue() == "".join(pieces)


@pytest.fixture
def interruptible():
    """What a command has; other tests of this process may have left a handler of their own."""
    found = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, found)


@pytest.mark.parametrize(("times", "written"), [(1, "whole"), (2, "wh")])
@pytest.mark.usefixtures("interruptible")
def test_the_first_interrupt_waits_for_the_end_and_the_second_does_not(times, written):
    stream = Interrupting(times)
    with pytest.raises(KeyboardInterrupt):
        write_whole("whole", stream)
    assert stream.getvalue() == written
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
