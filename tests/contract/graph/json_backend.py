"""A backend that knows nothing but the wire form of requests and responses, as one that sends them to a server does."""

from __future__ import annotations

import json

from omnigraph.errors import OmnigraphError
from omnigraph.operations import request_from_json, request_to_json
from omnigraph.operations.local import LocalBackend
from omnigraph.operations.request import NOTHING
from omnigraph.operations.wire import FrameBuffer, ResponseReader, ResponseWriter, attached_there, check_attached

# Bytes of the wire are cut here, wherever that is: a frame may arrive in any number of pieces.
CUT = 1000


def over_the_wire(execute, request, attached=NOTHING):
    """Return what a call returns, or raise what it raises, after it went through bytes and back."""
    check_attached(request, attached)
    sent = bytearray()
    writer = ResponseWriter(sent.extend)
    there = attached_there(request, writer, wants_progress=attached.progress is not None, cancel=attached.cancel)
    try:
        writer.answer(execute(there))
    except OmnigraphError as error:
        writer.fail(error)
    reader, buffer = ResponseReader(attached), FrameBuffer()
    for start in range(0, len(sent), CUT):
        for frame in buffer.feed(bytes(sent[start : start + CUT])):
            reader.take(frame)
    assert buffer.is_empty
    assert reader.is_complete
    return reader.response()


class JsonBackend(LocalBackend):
    """Records each request, and hands it on, and its response back, the way they come back from their bytes."""

    def __init__(self, engine, mode):
        super().__init__(engine, mode)
        self.requests = []

    def execute(self, request, attached=NOTHING):
        text = json.dumps(request_to_json(request))
        self.requests.append(json.loads(text))
        run, received = super().execute, request_from_json(json.loads(text))
        return over_the_wire(lambda there: run(received, there), request, attached)
