"""Attachments across the wire: what stays with the caller, and what the other side gets in its place."""

from __future__ import annotations

import threading
from typing import Any

from omnigraph.errors import BadValue, RemoteUnsupportedError
from omnigraph.operations.reads import ExportStreamRequest
from omnigraph.operations.request import Attachments, Request
from omnigraph.operations.wire.writing import ResponseWriter
from omnigraph.values import check_callable


def check_attached(request: Request[Any], attached: Attachments) -> None:
    """Refuse attachments that could not take what a response brings, before anything is sent.

    Raises:
        UsageError: the progress is not a function, or the sink takes no bytes.
        RemoteUnsupportedError: one of them has no meaning elsewhere.
    """
    check_callable("progress", attached.progress)
    if isinstance(request, ExportStreamRequest):
        from omnigraph.engine.export import check_sink  # noqa: PLC0415 - few requests need it

        check_sink(attached.sink)
    if attached.runner is not None:
        details = BadValue(what="runner", value=type(attached.runner).__name__, expected="none")
        raise RemoteUnsupportedError(
            "tables of a served graph are optimized by the server",
            details=details,
            hint="open the graph itself to optimize it with Spark",
        )


def attached_there(
    request: Request[Any], writer: ResponseWriter, *, wants_progress: bool, cancel: threading.Event | None = None
) -> Attachments:
    """Return what accompanies a request where it is executed: progress and bytes go to the writer."""
    return Attachments(
        progress=writer.progress if wants_progress else None,
        sink=writer if isinstance(request, ExportStreamRequest) else None,
        cancel=cancel,
    )
