"""Files across the wire: sources of loads travel with the request, exported folders with the response.

Neither side ever opens a path that the other one names. A source is the name that its file was sent under, and where
that file lies is known to the :class:`UploadFolder` alone. What a request says of a path is only what messages call it.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from omnigraph.errors import (
    BadValue,
    BodyTooLargeError,
    FormatMismatch,
    LimitExceeded,
    OmnigraphError,
    RemoteUnsupportedError,
    ServerIncompatibleError,
    UsageError,
    error_from_json,
)
from omnigraph.operations.reads import ExportRequest
from omnigraph.operations.request import Request
from omnigraph.operations.transactions import CallInTransactionRequest
from omnigraph.operations.wire.writing import ResponseWriter
from omnigraph.operations.writes import LoadRequest, SentSource
from omnigraph.records import record

if TYPE_CHECKING:
    from omnigraph.engine.load import Source

_ERRORS = "errors"
_OUT = "out"
_LONGEST_NAME = 255
# More of them cost a server far more than the bytes that they take to send.
MOST_FILES = 4096


@record
class SentFile:
    """A file that travels with a request: its name there, and where its bytes come from."""

    name: str
    source: Source


class UploadFolder:
    """The files that came with one request, and what it makes: a folder of its own, made when it is first needed.

    Files get numbers for names, so that nothing that a sender says is part of a path.
    """

    def __init__(self) -> None:
        self._path: Path | None = None
        self._files: dict[str, Path] = {}

    @property
    def path(self) -> Path:
        """Where it is; only its owner may look into it."""
        if self._path is None:
            self._path = Path(tempfile.mkdtemp(prefix="omnigraph-request-"))
        return self._path

    def add(self, name: str) -> BinaryIO:
        """Create the file that is sent under a name, and return it open for writing.

        Raises:
            UsageError: another one has the name, or it is none that a file can be sent under.
            BodyTooLargeError: there are too many.
        """
        _check_count(len(self._files) + 1)
        if not name.isprintable() or not 0 < len(name) <= _LONGEST_NAME or name in self._files:
            expected = f"a unique name with 1 to {_LONGEST_NAME} printable characters"
            details = BadValue(what="file", value=ascii(name)[:100], expected=expected)
            raise UsageError("a file of the request cannot have its name", details=details)
        path = self.path / str(len(self._files))
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self._files[name] = path
        return os.fdopen(file, "wb")

    def find(self, name: str) -> Path | None:
        """Return where the file lies that was sent under a name; None if there is none, or something else is there."""
        path = self._files.get(name)
        return path if path is not None and stat.S_ISREG(path.lstat().st_mode) else None

    def close(self) -> None:
        """Remove it with everything in it."""
        if self._path is not None:
            shutil.rmtree(self._path, ignore_errors=True)


def files_of(request: Request[Any]) -> tuple[Request[Any], tuple[SentFile, ...]]:
    """Return a request as it is sent, and the files that travel with it.

    Raises:
        FileMissingError, FileAccessError: a source is not there, or cannot be read.
        UsageError: an argument makes no sense, or the format of a source is not known.
    """
    if isinstance(request, CallInTransactionRequest):
        call, files = files_of(request.call)
        return replace(request, call=call), files
    if isinstance(request, ExportRequest):
        return replace(request, to=str(request.to)), ()
    if not isinstance(request, LoadRequest):
        return request, ()
    from omnigraph.engine.load.options import LoadSettings, check_load  # noqa: PLC0415 - few requests need it
    from omnigraph.engine.load.sources.expand import expand_sources  # noqa: PLC0415 - see above

    check_load(request.mode, errors_to=request.errors_to, progress=None, limit=request.limit)
    settings = request.settings or LoadSettings()
    found = expand_sources(request.sources, check_sums=settings.check_sums)
    files = tuple(SentFile(name=str(number), source=one) for number, one in enumerate(found))
    sent: list[Any] = [_described(file) for file in files]
    errors_to = None if request.errors_to is None else str(request.errors_to)
    # Checksums were compared where the files are.
    return replace(request, sources=sent, errors_to=errors_to, settings=replace(settings, check_sums=False)), files


def _described(file: SentFile) -> SentSource:
    """Return what is sent of a source in place of its path; a mapping was applied where the files are."""
    known = {name: getattr(file.source, name) for name in _SHARED}
    return SentSource(**{**known, "file": file.name, "format": file.source.kind, "called": file.source.name})


_SHARED = tuple(one.name for one in fields(cast("Any", SentSource)) if one.name != "file")


@record
class PlacedFiles:
    """A request whose files lie in a folder of this process, and what messages call the paths in it."""

    request: Request[Any]
    folder: Path | None = None
    called: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, request: Request[Any], folder: UploadFolder) -> PlacedFiles:
        """Let a request that was received use a folder, instead of the paths that it names.

        Most requests have no files, and for them no folder is made.

        Raises:
            RemoteUnsupportedError: it names a source that did not travel with it.
            BodyTooLargeError: it names more sources than files may travel with it.
        """
        if isinstance(request, CallInTransactionRequest):
            inner = cls.of(request.call, folder)
            return replace(inner, request=replace(request, call=inner.request))
        if isinstance(request, ExportRequest):
            out = folder.path / _OUT
            called = {str(out): str(request.to)}
            return cls(request=replace(request, to=str(out)), folder=folder.path, called=called)
        if not isinstance(request, LoadRequest):
            return cls(request=request)
        _check_count(len(request.sources))
        called = {}
        errors_to = None
        if request.errors_to is not None:
            errors_to = str(folder.path / _ERRORS)
            called[errors_to] = str(request.errors_to)
        sources = [_placed(one, folder) for one in request.sources]
        called |= {one.path: one.name for one in sources}
        return cls(request=replace(request, sources=sources, errors_to=errors_to), folder=folder.path, called=called)

    def send(self, writer: ResponseWriter) -> None:
        """Write the files that the operation made."""
        if self.folder is None:
            return
        errors = self.folder / _ERRORS
        if errors.is_file():
            writer.file(_ERRORS, errors)
        out = self.folder / _OUT
        if out.is_dir():
            files = [path for path in out.rglob("*") if path.is_file() and not path.is_symlink()]
            # The manifest says that an export is complete, so it comes last.
            for path in sorted(files, key=lambda path: (len(path.relative_to(out).parts) == 1, str(path))):
                writer.file(path.relative_to(out).as_posix(), path)

    def relabel(self, error: OmnigraphError) -> OmnigraphError:
        """Return an error that calls paths as the caller does."""
        return error_from_json(_renamed(error.to_json(), self.called)) if self.called else error


def _check_count(count: int) -> None:
    if count > MOST_FILES:
        details = LimitExceeded(resource="request_files", limit=MOST_FILES, actual=count)
        raise BodyTooLargeError(f"the request has more than {MOST_FILES} files", details=details)


def _placed(sent: object, folder: UploadFolder) -> Source:
    from omnigraph.engine.load.sources.dialect import USUAL  # noqa: PLC0415 - few requests need it
    from omnigraph.engine.load.sources.source import Source  # noqa: PLC0415 - see above

    path = folder.find(sent.file) if isinstance(sent, SentSource) else None
    if not isinstance(sent, SentSource) or path is None:
        shown = sent.file if isinstance(sent, SentSource) else type(sent).__name__
        details = BadValue(what="source", value=ascii(shown)[:100], expected="a file that is sent with the request")
        raise RemoteUnsupportedError("a server reads no files but those that are sent to it", details=details)
    known = {name: getattr(sent, name) for name in _SHARED}
    return Source(**{**known, "path": str(path), "dialect": sent.dialect or USUAL, "called": sent.called or sent.file})


def _renamed(value: Any, called: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for path, name in called.items():
            value = value.replace(path, name)
        return value
    if isinstance(value, dict):
        return {key: _renamed(item, called) for key, item in value.items()}
    return [_renamed(item, called) for item in value] if isinstance(value, list) else value


class ReceivedFiles:
    """Takes the files of a response: an exported folder, or the rows that a load refused."""

    def __init__(self, request: Request[Any], held: ExitStack) -> None:
        self._request = request.call if isinstance(request, CallInTransactionRequest) else request
        self._held = held
        self._folder: Any = None
        self._open: ExitStack | None = None
        self._sink: Any = None
        self._is_claimed = False
        if isinstance(self._request, ExportRequest):
            self._folder = _empty_folder(self._request)

    @property
    def target(self) -> str | None:
        """The folder of an export."""
        return None if self._folder is None else str(self._folder.storage.root)

    def begin(self, name: str) -> None:
        """Create a file."""
        self._open = ExitStack()
        if self._folder is not None and not self._is_claimed:
            # Not before there is something to write: a request that is refused leaves no folder behind.
            self._held.enter_context(claim(self._folder))
            self._is_claimed = True
        if self._folder is not None and _is_inner(name):
            self._sink = self._open.enter_context(self._folder.create(name))
        elif isinstance(self._request, LoadRequest) and self._request.errors_to is not None and name == _ERRORS:
            self._sink = self._open.enter_context(Path(self._request.errors_to).open("wb"))  # noqa: SIM115 - end closes it
        else:
            details = FormatMismatch(what="response", expected="files that were requested", found=name[:64])
            raise ServerIncompatibleError("the response contains a file that was not requested", details=details)

    def write(self, data: bytes) -> None:
        """Take bytes of the file."""
        self._sink.write(data)

    def end(self) -> None:
        """Close the file."""
        if self._open is not None:
            self._open.close()


def claim(folder: Any) -> AbstractContextManager[None]:
    """Hold a folder for an export; raises what :func:`~omnigraph.engine.export.folder.claimed_folder` does."""
    from omnigraph.engine.export.folder import claimed_folder  # noqa: PLC0415 - few requests need it
    from omnigraph.runtime import Runtime  # noqa: PLC0415 - see above

    return claimed_folder(folder, Runtime.system())


def _is_inner(name: str) -> bool:
    """Whether a name that a server sends is one of a file below the folder of an export."""
    parts = name.split("/")
    return all(parts) and not {".", ".."} & set(parts) and "\\" not in name and "\0" not in name


def _empty_folder(request: ExportRequest) -> Any:
    from omnigraph.engine.export.folder import refuse_filled  # noqa: PLC0415 - few requests need it
    from omnigraph.engine.export.options import ExportSettings, check_export  # noqa: PLC0415 - see above
    from omnigraph.store.files import FileFolder  # noqa: PLC0415 - see above
    from omnigraph.store.location import Storage  # noqa: PLC0415 - see above

    check_export(request.format, None, request.settings)
    settings = request.settings or ExportSettings()
    to = cast("Any", request.to)
    storage = to if isinstance(to, Storage) else Storage.open(to)
    folder = FileFolder(storage=storage, is_durable=settings.is_durable)
    refuse_filled(folder)
    return folder


@contextmanager
def receiving(request: Request[Any]) -> Iterator[ReceivedFiles]:
    """Take the files of a response; if the block fails, an exported folder is empty again.

    Raises:
        ExportTargetError: there is something in the folder.
    """
    with ExitStack() as held:
        yield ReceivedFiles(request, held)
