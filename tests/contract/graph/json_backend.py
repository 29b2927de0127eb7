"""A backend that knows nothing but the wire form of requests and responses, as one that sends them to a server does."""

from __future__ import annotations

import json
import shutil

from omnigraph.errors import OmnigraphError
from omnigraph.operations.json_form import request_from_json, request_to_json
from omnigraph.operations.local import LocalBackend
from omnigraph.operations.reads import ExportRequest
from omnigraph.operations.request import NOTHING, check_request
from omnigraph.operations.wire import (
    FrameBuffer,
    ResponseReader,
    ResponseWriter,
    UploadFolder,
    answer_request,
    attached_there,
    check_attached,
    files_of,
    receiving,
)

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
    return received(bytes(sent), attached)


def received(sent, attached, files=None):
    """Return what bytes of a response stand for, or raise it."""
    reader, buffer = ResponseReader(attached, files), FrameBuffer()
    for start in range(0, len(sent), CUT):
        for frame in buffer.feed(sent[start : start + CUT]):
            reader.take(frame)
    assert buffer.is_empty
    assert reader.is_complete
    return reader.response()


class _Engine:
    """The local backend below one that goes through bytes."""

    def __init__(self, execute):
        self.execute = execute


class JsonBackend(LocalBackend):
    """Records each request, and hands it on, and its response back, the way they come back from their bytes."""

    def __init__(self, engine, mode):
        super().__init__(engine, mode)
        self.requests = []

    def execute(self, request, attached=NOTHING):
        check_request(request)
        check_attached(request, attached)
        sent, files = files_of(request)
        text = json.dumps(request_to_json(sent))
        self.requests.append(json.loads(text))
        folder, answer = UploadFolder(), bytearray()
        try:
            for file in files:
                with file.source.open() as stream, folder.add(file.name) as copy:
                    shutil.copyfileobj(stream, copy)
            decoded = request_from_json(json.loads(text))
            wants_progress = attached.progress is not None
            answer_request(
                _Engine(super().execute),
                decoded,
                ResponseWriter(answer.extend),
                folder,
                wants_progress=wants_progress,
                cancel=attached.cancel,
            )
            with receiving(request) as taken:
                found = received(bytes(answer), attached, taken)
        finally:
            folder.close()
        if isinstance(request, ExportRequest):
            return type(found)(**{**{name: getattr(found, name) for name in found.__slots__}, "target": taken.target})
        return found
