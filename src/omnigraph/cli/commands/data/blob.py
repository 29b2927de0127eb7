"""``omnigraph blob``: the content of one Blob, and what is known of it."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from omnigraph.cli.files import STDIN, unusable_file
from omnigraph.cli.graphs import CommandBackend, graph_address, open_graph
from omnigraph.cli.lazy import Entry, new_app, new_group
from omnigraph.cli.options import AsJson, AtSnapshot, GraphOptions, ReadBranch, expand_options, refuse_two_states
from omnigraph.cli.output import PlainReport, choose_output, write_whole
from omnigraph.cli.usage import usage_error
from omnigraph.errors import BlobRangeError, ByteRange, OmnigraphError
from omnigraph.operations.reads import ReadBlobRequest, ReadStateRequest, content_of, found_blob
from omnigraph.records import record
from omnigraph.values import MAIN

if TYPE_CHECKING:
    from omnigraph.store.tables.pinned import BlobPart

# How much of a Blob is in memory at one time.
_PIECE_BYTES = 4 << 20
_FARTHEST = (1 << 63) - 1

app = new_group(
    "Read the content of Blobs.",
    {
        "get": Entry(app=f"{__name__}:get_app", summary="Write the bytes of a Blob to a file or a pipe."),
        "stat": Entry(app=f"{__name__}:stat_app", summary="Show the size of a Blob, or where its content is."),
    },
)


class EntityKind(StrEnum):
    """What the Blob belongs to."""

    NODE = "node"
    EDGE = "edge"


@record
class BlobOptions:
    """Which Blob is meant, and in which state."""

    entity: Annotated[EntityKind, typer.Argument(metavar="ENTITY", help="node or edge.")]
    type_name: Annotated[str, typer.Argument(metavar="TYPE", help="The type of the node or edge.")]
    entity_id: Annotated[str, typer.Argument(metavar="ID", help="The id of the node or edge.")]
    name: Annotated[str, typer.Argument(metavar="PROPERTY", help="The Blob property.")]
    branch: ReadBranch = None
    snapshot: AtSnapshot = None

    def find(self, backend: CommandBackend) -> ReadBlobRequest:
        """Return the request that reads it, of the one state that is newest now; no byte of it yet."""
        branch = MAIN if self.branch is None else self.branch
        state = backend.execute(ReadStateRequest(branch=branch, at=self.snapshot)).state
        return ReadBlobRequest(
            type_name=f"{self.entity.value}:{self.type_name}",
            entity_id=self.entity_id,
            property=self.name,
            length=0,
            branch=branch,
            at=str(state.head.commit),
        )


get_app = new_app()


@get_app.command("get")
@expand_options
def get_blob(
    *,
    graph: GraphOptions,
    blob: BlobOptions,
    offset: Annotated[int, typer.Option("--offset", metavar="N", min=0, help="Begin at this byte.")] = 0,
    length: Annotated[
        int | None, typer.Option("--length", metavar="N", min=1, help="Write at most N bytes; all by default.")
    ] = None,
    out: Annotated[
        str | None,
        typer.Option("--out", metavar="PATH", help="Write to this file; - is standard output, a terminal too."),
    ] = None,
) -> int:
    """Write the bytes of a Blob to standard output or to a file.

    Bytes are streamed, so a Blob of any size needs little memory. A file is replaced only after all bytes have arrived.
    Nothing is written to a terminal without --out -. Content of which the graph stores only the address is not fetched;
    the error names the address.
    """
    refuse_two_states(blob.branch, blob.snapshot)
    if offset + (length or 0) > _FARTHEST:
        raise usage_error("--offset and --length are too large", value=str(offset), expected=f"at most {_FARTHEST}")
    if out is None and sys.stdout.isatty():
        raise usage_error(
            "bytes are not written to a terminal",
            expected="--out PATH",
            hint="name a file with --out PATH, redirect the output, or write them anyway with --out -",
        )
    with open_graph(graph_address(graph), mode="read_only") as backend:
        request = blob.find(backend)
        size = content_of(request, backend.execute(request)).size
        end = size if length is None else min(size, offset + length)
        # An empty Blob has no byte to begin at, and can be read all the same.
        if offset >= size and (offset or size):
            details = ByteRange(start=offset, end=max(offset, end), length=size)
            raise BlobRangeError(f"--offset {offset} is past the end: the blob has {size} bytes", details=details)
        pieces = _pieces(backend, request, offset, end)
        # The first bytes are here before a file is touched.
        first = next(pieces, b"")
        with _opened(out) as stream:
            _write(first, stream)
            for piece in pieces:
                _write(piece, stream)
    return 0


def _pieces(backend: CommandBackend, request: ReadBlobRequest, start: int, end: int) -> Iterator[bytes]:
    while start < end:
        asked = replace(request, start=start, length=min(_PIECE_BYTES, end - start))
        data = content_of(asked, backend.execute(asked)).data
        start += len(data)
        yield data


def _write(data: bytes, stream: BinaryIO) -> None:
    if stream is sys.stdout.buffer:
        write_whole(data, stream)
    else:
        stream.write(data)


@contextmanager
def _opened(path: str | None) -> Iterator[BinaryIO]:
    """Give what is written to; a file is there, or replaced, when the block has ended well.

    Raises:
        FileAccessError: it cannot be written.
    """
    if path is None or path == STDIN:
        yield sys.stdout.buffer
        return
    from omnigraph.store.files import file_mode_mask  # noqa: PLC0415 - for those who name a file

    # Through a symbolic link the file behind it is meant.
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file():
            # A pipe or a device is written to as it is; a directory refuses.
            with target.open("wb") as stream:
                yield stream
            return
        mode = target.stat().st_mode & 0o7777 if target.exists() else None
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
        try:
            with os.fdopen(handle, "wb") as stream:
                yield stream
                os.fchmod(stream.fileno(), 0o666 & ~file_mode_mask() if mode is None else mode)
            Path(temporary).replace(target)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
            raise
    except OmnigraphError:
        # What the graph or its server fails with may be an error of the system, too.
        raise
    except (OSError, ValueError) as problem:
        raise unusable_file(path, problem, "writable") from problem


stat_app = new_app()


@stat_app.command("stat")
@expand_options
def stat_blob(*, graph: GraphOptions, blob: BlobOptions, as_json: AsJson = False) -> int:
    """Show the size and the tag of a Blob, or the address of its content, without reading it."""
    refuse_two_states(blob.branch, blob.snapshot)
    with open_graph(graph_address(graph), mode="read_only") as backend:
        request = blob.find(backend)
        found = found_blob(request, backend.execute(request))
    choose_output(as_json=as_json).show(
        PlainReport(document=_document(blob, request, found), lines=list(_lines(blob, request, found)))
    )
    return 0


def _document(blob: BlobOptions, request: ReadBlobRequest, found: BlobPart) -> dict[str, Any]:
    is_managed = found.uri is None
    target = {} if blob.snapshot is not None else {"branch": request.branch}
    return {
        "selector": {
            "entity": blob.entity.value,
            "type": blob.type_name,
            "id": blob.entity_id,
            "property": blob.name,
        },
        "kind": "managed" if is_managed else "external",
        **({"size": found.size, "etag": found.tag} if is_managed else {"uri": found.uri}),
        "target": {
            **target,
            **({} if blob.snapshot is None else {"snapshot": blob.snapshot}),
            "resolved_snapshot": request.at,
        },
    }


def _lines(blob: BlobOptions, request: ReadBlobRequest, found: BlobPart) -> Iterator[str]:
    yield f"{blob.name} of {blob.type_name} '{blob.entity_id}'"
    if found.uri is None:
        yield f"  size {found.size} bytes"
        yield f"  tag {found.tag}"
    else:
        yield f"  stored at {found.uri}"
    yield f"  commit {request.at}"
