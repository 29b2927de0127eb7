"""The one place where errors of Lance, Arrow and the object store become ours.

Types, error numbers and HTTP statuses decide first. Where Lance gives only text, its form decides: patterns are
anchored at its beginning, behind the wrappers, or at its end, so that no word inside a path is ever taken for the
message. A surface guard in the test-suite fails when a release changes one of the forms.

Lance often says what is wrong with a file and not which file it is. So whoever meets damage looks: first into what
Lance says, then at the files of the version that it was reading. Only the road of an error pays for that.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from enum import Enum, auto
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from lance import LanceDataset
from lance.commit import CommitConflictError
from obstore import exceptions as obstore_errors

from omnigraph.errors import (
    AlreadyExistsError,
    BadValue,
    Effect,
    InternalError,
    OmnigraphError,
    StorageCorruptError,
    StorageDeniedError,
    StorageFault,
    StorageUnauthenticatedError,
    StorageUnavailableError,
    TableMissingError,
    TableRef,
    ValueFormatError,
)
from omnigraph.values.patterns import late_pattern

_MAGIC = {".lance": b"LANC", ".manifest": b"LANC", ".arrow": b"ARROW1"}
_TREE = "/tree/"
_FILES = 10_000


def damaged_object(location: str, told: str, handle: LanceDataset | None) -> str:
    """Return the key of the object that is damaged, or ``location`` when that cannot be told.

    Args:
        location: what was read, below the graph's root.
        told: what Lance said.
        handle: the version that was read.
    """
    named = re.search(rf"{re.escape(location)}(?:/[\w.\-~,]+)+\.\w+", unquote(told))
    if named is not None:
        return named.group()
    if handle is None:
        return location
    try:
        found = next((name for name, path, size in _files(handle) if _is_damaged(path, size)), None)
    except Exception:  # noqa: BLE001 - this is the road of another error, which must not be lost
        return location
    return location if found is None else f"{location}/{found}"


def _files(handle: LanceDataset) -> Iterator[tuple[str, Path, int | None]]:
    """Yield the files of a version on a local disk: the name below its dataset, the path, and the recorded size."""
    root = Path(str(handle.uri).removeprefix("file://"))
    if not root.is_dir():
        return
    # A branch lists files of the line that it came from under the same names.
    text, tree, branch = str(root).partition(_TREE)
    places = [(root, f"tree/{branch}/" if tree else ""), *([(Path(text), "")] if tree else [])]
    for number, fragment in enumerate(handle.get_fragments()):
        if number > _FILES:
            return
        metadata: Any = fragment.metadata
        for file in metadata.files:
            yield from _placed(places, f"data/{file.path}", getattr(file, "file_size_bytes", None))
        if metadata.deletion_file is not None:
            yield from _placed(places, metadata.deletion_file.path(metadata.id), None)
    for index in handle.describe_indices():
        for segment in index.segments:
            for place, prefix in places:
                folder = place / "_indices" / str(segment.uuid)
                for path in sorted(folder.glob("*.lance")):
                    yield f"{prefix}_indices/{segment.uuid}/{path.name}", path, None


def _placed(places: list[tuple[Path, str]], name: str, size: int | None) -> Iterator[tuple[str, Path, int | None]]:
    for place, prefix in places:
        if (place / name).exists():
            yield f"{prefix}{name}", place / name, size
            return
    place, prefix = places[0]
    yield f"{prefix}{name}", place / name, size


def _is_damaged(path: Path, size: int | None) -> bool:
    """Whether a file is missing, is not as long as it was, or does not end as files of its kind do."""
    if not path.is_file():
        return True
    found = path.stat().st_size
    magic = _MAGIC.get(path.suffix, b"")
    if found < len(magic) or (size is not None and found != size):
        return True
    with path.open("rb") as file:
        file.seek(found - len(magic))
        return file.read() != magic


_REASON_LENGTH = 300
# The text ends in the place of the failing line in Lance's own source, which tells a user nothing.
_RUST_PLACE = late_pattern(r",? ?(?:location: )?/[^ ,]*\.rs:\d+:\d+")
_DEBUG = "\n\nDebug source:"
_ADDRESS = late_pattern(r"https?://\S+")
# No path holds this character, so what stands in for an address is never mistaken for a part of one.
_PLACE = "\x00"
# Lance looks for signals while it waits, and a stream of its batches can hand one on as text only.
_INTERRUPTED = late_pattern(r"\A(?:\w+ error: )*KeyboardInterrupt\b")
# Each layer puts its name in front of what the one below says.
_WRAPPERS = late_pattern(r"\A(?:(?:External|Execution|Arrow|Wrapped|Generic N/A) error: |LanceError\([\w ()]+\): )*")
_STREAM = "External error: "
_ANSWER = late_pattern(
    rf"Error performing [A-Z]+ {_PLACE} in [^\n]*? - (?:Server returned non-2xx status code: (?P<status>\d{{3}})|)"
)
_STATUS_FIRST = late_pattern(r"(?:Generic \w+ error: )?(?P<status>[45]\d\d) [A-Z]")
# An error number stands in front of the path or at the very end, whatever is in between.
_NUMBER_FIRST = late_pattern(r"\A[A-Z][\w' -]* \(os error (\d+)\)")
_NUMBER_LAST = late_pattern(r"(?:\A|: )[A-Z][\w' -]* \(os error (\d+)\)\s*\Z")
# A store that does not know whoever asks says so in the code of its refusal.
_UNKNOWN_CALLER = late_pattern(r"<Code>(InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|InvalidToken)</Code>")


class FaultKind(Enum):
    """What a foreign error says happened."""

    CONFLICT = auto()
    MISSING = auto()
    REPLACED = auto()
    EXISTS = auto()
    OUTCOME_UNKNOWN = auto()
    BRANCH_TREE_EXISTS = auto()
    DENIED = auto()
    UNAUTHENTICATED = auto()
    UNAVAILABLE = auto()
    DAMAGED = auto()
    BAD_ADDRESS = auto()
    INVALID = auto()
    OTHER = auto()


# What the message says once its wrappers are off; the first form that it begins with counts.
_FORMS: tuple[tuple[re.Pattern[str], FaultKind], ...] = (
    (late_pattern(r"Commit result for version \d+ is unknown"), FaultKind.OUTCOME_UNKNOWN),
    (
        late_pattern(r"Encountered internal error\. [^/]*Clone operation should not enter build_manifest"),
        FaultKind.BRANCH_TREE_EXISTS,
    ),
    (late_pattern(r"Dataset already exists|Ref conflict error: .* already exists"), FaultKind.EXISTS),
    (late_pattern(r"Dataset at path .* was not found|Not found: |Ref not found"), FaultKind.MISSING),
    (
        late_pattern(r"Commit conflict for version|Retryable commit conflict|Incompatible transaction"),
        FaultKind.CONFLICT,
    ),
    (
        late_pattern(r"Object at location .* not found: (?!.* (?:not found|already exists): )", re.DOTALL),
        FaultKind.MISSING,
    ),
    (late_pattern(r"Object at location .* already exists: ", re.DOTALL), FaultKind.EXISTS),
    (late_pattern(r"(?:Generic \w+ error: )?Request precondition failure for path "), FaultKind.REPLACED),
    (late_pattern(r"The operation lacked the necessary privileges"), FaultKind.DENIED),
    (late_pattern(r"The operation lacked valid authentication credentials"), FaultKind.UNAUTHENTICATED),
    # A version says another number than its name, or its text cannot be what was written.
    (
        late_pattern(
            r"Version not found error: |Generic memory error: |file size is too small|failed to decode Protobuf"
            r"|Encountered corrupt file|Schema error: Field "
            r"|Invalid user input: (?:file does not appear to be|Dataset snapshot mixes)"
            r"|(?:Generic LocalFileSystem error: )?failed to fill whole buffer"
        ),
        FaultKind.DAMAGED,
    ),
    (late_pattern(r"Invalid user input"), FaultKind.INVALID),
)
_NUMBERS = {
    errno.ENOENT: FaultKind.MISSING,
    errno.EEXIST: FaultKind.EXISTS,
    errno.EACCES: FaultKind.DENIED,
    errno.EPERM: FaultKind.DENIED,
    errno.EROFS: FaultKind.DENIED,
    errno.ENAMETOOLONG: FaultKind.BAD_ADDRESS,
    errno.ENOTDIR: FaultKind.BAD_ADDRESS,
    errno.ELOOP: FaultKind.BAD_ADDRESS,
}
_STATUSES = {401: FaultKind.UNAUTHENTICATED, 403: FaultKind.DENIED, 404: FaultKind.MISSING, 416: FaultKind.DAMAGED}


def fault_of(error: BaseException) -> FaultKind:
    """Classify a foreign error."""
    if is_panic(error):
        return FaultKind.DAMAGED
    match error:
        case CommitConflictError():
            return FaultKind.CONFLICT
        case obstore_errors.AlreadyExistsError() | FileExistsError():
            return FaultKind.EXISTS
        case obstore_errors.UnauthenticatedError():
            return FaultKind.UNAUTHENTICATED
        case obstore_errors.PermissionDeniedError() if _UNKNOWN_CALLER.search(str(error)):
            return FaultKind.UNAUTHENTICATED
        case obstore_errors.PermissionDeniedError() | PermissionError():
            return FaultKind.DENIED
        case FileNotFoundError():
            return FaultKind.MISSING
        case OSError() if error.errno is not None:
            return _NUMBERS.get(error.errno, FaultKind.UNAVAILABLE)
        case _:
            return _fault_of_text(error)


def is_panic(error: BaseException) -> bool:
    """Whether Lance gave up in the middle of a call, which is no ``Exception``, and whose class cannot be imported."""
    return type(error).__name__ == "PanicException" and not isinstance(error, Exception)


def _fault_of_text(error: BaseException) -> FaultKind:
    told = _told(error)
    start = _wrappers_end(told)
    core = told[start:]
    by_form = next((fault for pattern, fault in _FORMS if pattern.match(core)), None)
    if by_form is FaultKind.INVALID and told.startswith(_STREAM):
        # What a caller gives is looked at before rows are read; from there on only they can be wrong.
        return FaultKind.DAMAGED
    if by_form is not None:
        is_stranger = by_form is FaultKind.DENIED and _UNKNOWN_CALLER.search(told)
        return FaultKind.UNAUTHENTICATED if is_stranger else by_form
    answer = _STATUS_FIRST.match(core) or _ANSWER.search(core)
    if answer is not None:
        if answer["status"] == "403" and _UNKNOWN_CALLER.search(told):
            return FaultKind.UNAUTHENTICATED
        return _STATUSES.get(int(answer["status"] or 0), FaultKind.UNAVAILABLE)
    number = _NUMBER_FIRST.match(core) or _NUMBER_LAST.search(core)
    if number is not None:
        return _NUMBERS.get(int(number[1]), FaultKind.UNAVAILABLE)
    if start and not core.startswith("Generic "):
        # Storage has answered, and what it holds was written whole and cannot be read.
        return FaultKind.DAMAGED
    is_storage = isinstance(error, obstore_errors.BaseError | OSError) or core.startswith("Generic ")
    return FaultKind.UNAVAILABLE if is_storage else FaultKind.OTHER


def to_omnigraph_error(
    error: BaseException,
    *,
    doing: str,
    location: str,
    effect: Effect = Effect.NONE,
    handle: LanceDataset | None = None,
) -> OmnigraphError:
    """Return our error for a foreign one.

    Args:
        error: what was raised.
        doing: what the call was to do.
        location: what it was about, below the graph's root.
        effect: what the failed call may have left behind.
        handle: the version that was read; a look at its files names the one that is damaged.
    """
    if isinstance(error, OmnigraphError):
        return error
    details = StorageFault(doing=doing, location=location, reason=_reason(error))
    match fault_of(error):
        case FaultKind.UNAUTHENTICATED:
            return StorageUnauthenticatedError(
                f"storage rejected the credentials: could not {doing} at '{location}'",
                details=details,
                effect=effect,
            )
        case FaultKind.DENIED:
            return StorageDeniedError(
                f"storage denied permission to {doing} at '{location}'", details=details, effect=effect
            )
        case FaultKind.UNAVAILABLE | FaultKind.OUTCOME_UNKNOWN | FaultKind.REPLACED:
            return StorageUnavailableError(f"storage could not {doing} at '{location}'", details=details, effect=effect)
        case FaultKind.EXISTS:
            return AlreadyExistsError(
                f"dataset '{location}' already exists",
                details=TableRef(location=location),
                effect=effect,
            )
        case FaultKind.MISSING if isinstance(error, pa.ArrowInvalid):
            return corrupt(error, "a stored object is missing", doing, location, effect=effect, handle=handle)
        case FaultKind.MISSING:
            return TableMissingError(
                f"nothing is stored at '{location}'", details=TableRef(location=location), effect=effect
            )
        case FaultKind.DAMAGED:
            return corrupt(error, "a stored object is damaged", doing, location, effect=effect, handle=handle)
        case FaultKind.BAD_ADDRESS:
            expected = "a folder with names that the file system allows"
            return ValueFormatError(
                f"the file system rejects this path: {details.reason}",
                details=BadValue(what="address", value=location, expected=expected),
                effect=effect,
            )
        case _:
            return InternalError(f"could not {doing} at '{location}': {details.reason}", effect=effect)


def corrupt(
    error: BaseException,
    message: str,
    doing: str,
    location: str,
    *,
    effect: Effect = Effect.NONE,
    handle: LanceDataset | None = None,
) -> StorageCorruptError:
    """Return the error for damage, with the name of the damaged object, or of the dataset when that cannot be told."""
    name = damaged_object(location, str(error), handle)
    details = StorageFault(doing=doing, location=name, reason=_reason(error))
    return StorageCorruptError(f"{message}: '{name}'", details=details, effect=effect)


def translating(
    doing: str, location: str, *, effect: Effect = Effect.NONE, handle: LanceDataset | None = None
) -> AbstractContextManager[None]:
    """Let only errors of ours out of the block, and Ctrl-C; ``handle`` is what the block reads, if it does."""
    return _Translating(doing, location, effect, handle)


class _Translating:
    """A block that lets only errors of ours out; a class of its own, as every call to storage enters one."""

    __slots__ = ("_doing", "_effect", "_handle", "_location")

    def __init__(self, doing: str, location: str, effect: Effect, handle: LanceDataset | None) -> None:
        self._doing, self._location, self._effect, self._handle = doing, location, effect, handle

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, OmnigraphError) or not is_foreign(error):
            return
        if _INTERRUPTED.match(str(error)):
            raise KeyboardInterrupt from error
        raise to_omnigraph_error(
            error, doing=self._doing, location=self._location, effect=self._effect, handle=self._handle
        ) from error


def is_foreign(error: BaseException) -> bool:
    """Whether an error is of a kind that Lance, Arrow and the object store raise."""
    kinds = (OSError, ValueError, RuntimeError, TypeError, KeyError, pa.ArrowException, obstore_errors.BaseError)
    return isinstance(error, kinds) or is_panic(error)


def _told(error: BaseException) -> str:
    """What an error says, without the parts that are for those who wrote the library, and without addresses."""
    return _ADDRESS.sub(_PLACE, _RUST_PLACE.sub("", str(error).partition(_DEBUG)[0]))


def _wrappers_end(told: str) -> int:
    found = _WRAPPERS.match(told)
    return 0 if found is None else found.end()


def _reason(error: BaseException) -> str:
    # Addresses may carry signatures in their query; the location in the details says enough.
    first_line = _told(error).partition("\n")[0]
    return first_line.replace(_PLACE, "<address>")[:_REASON_LENGTH]
