"""Both ends of one exchange: a request executed into frames, and frames received as its response."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from omnigraph.errors import OmnigraphError
from omnigraph.operations.history import BaselineRequest, DiffRequest
from omnigraph.operations.reads import ExportRequest, QueryRequest
from omnigraph.operations.request import Backend, Request
from omnigraph.operations.stored import InvokeReadRequest
from omnigraph.operations.wire.attached import attached_there
from omnigraph.operations.wire.files import PlacedFiles, UploadFolder
from omnigraph.operations.wire.writing import ResponseWriter, as_error


def answer_request(
    backend: Backend,
    request: Request[Any],
    writer: ResponseWriter,
    folder: UploadFolder,
    *,
    shown: Callable[[OmnigraphError], OmnigraphError] = lambda error: error,
    wants_progress: bool = False,
    cancel: threading.Event | None = None,
) -> OmnigraphError | None:
    """Execute a request that was received and write its response, be it an error.

    Args:
        backend: what executes it.
        request: the request.
        writer: takes the response.
        folder: has the files that came with the request, and gets those that the operation makes.
        shown: what the caller gets to see of an error.
        wants_progress: whether the caller is told how far it is.
        cancel: stops a read.

    Returns:
        The error that was written.
    """
    placed: PlacedFiles | None = None
    try:
        placed = PlacedFiles.of(request, folder)
        attached = attached_there(request, writer, wants_progress=wants_progress, cancel=cancel)
        response = backend.execute(placed.request, attached)
        placed.send(writer)
        writer.answer(replace(response, target=None) if isinstance(request, ExportRequest) else response)
    except ReaderGoneError:
        return None
    except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets an error of ours
        seen = shown(as_error(error, is_write=request.operation.writes))
        if placed is not None:
            placed.send(writer)
            seen = placed.relabel(seen)
        writer.fail(seen)
        return seen
    return None


class ReaderGoneError(Exception):
    """Raised by what writes when the caller has gone away and what is left of a read has no reader."""


def is_lazy(request: Request[Any]) -> bool:
    """Whether the caller gets the response before all of it has arrived."""
    if isinstance(request, QueryRequest | InvokeReadRequest):
        return request.options is not None and request.options.streams
    return isinstance(request, DiffRequest | BaselineRequest)
