"""The one place where errors of Lance, Arrow and the object store become ours.

Types and fields decide first. Where Lance gives only text, the patterns are in :func:`fault_of`, and a surface guard
in the test-suite fails when a release changes one of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto

import pyarrow as pa
from lance.commit import CommitConflictError
from obstore import exceptions as obstore_errors

from omnigraph.errors import (
    AlreadyExistsError,
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
)

_REASON_LENGTH = 300
# The text ends in the place of the failing line in Lance's own source, which tells a user nothing.
_RUST_PLACE = re.compile(r",? ?/[^ ,]*\.rs:\d+:\d+")
_ADDRESS = re.compile(r"https?://\S+")
# Lance looks for signals while it waits, and a stream of its batches can hand one on as text only.
_INTERRUPTED = re.compile(r"\A(?:\w+ error: )*KeyboardInterrupt\b")


# A store that does not know whoever asks says so in the code of its refusal.
_UNKNOWN_CALLER = re.compile(
    r"\b(401 Unauthorized|Unauthenticated|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|InvalidToken)"
)


class Fault(Enum):
    """What a foreign error says happened."""

    CONFLICT = auto()
    MISSING = auto()
    EXISTS = auto()
    OUTCOME_UNKNOWN = auto()
    BRANCH_TREE_EXISTS = auto()
    DENIED = auto()
    UNAVAILABLE = auto()
    INVALID = auto()
    OTHER = auto()


# First match wins: a text that says the outcome is unknown also quotes the transport error that led to it.
_TEXTS: tuple[tuple[re.Pattern[str], Fault], ...] = (
    (re.compile(r"Commit result for version \d+ is unknown"), Fault.OUTCOME_UNKNOWN),
    (re.compile(r"Clone operation should not enter build_manifest"), Fault.BRANCH_TREE_EXISTS),
    (re.compile(r"Ref conflict error: .* already exists|Dataset already exists"), Fault.EXISTS),
    (re.compile(r"Invalid user input"), Fault.INVALID),
    (re.compile(r"Commit conflict for version|Retryable commit conflict|Incompatible transaction"), Fault.CONFLICT),
    (
        re.compile(r"\b(403 Forbidden|401 Unauthorized|PermissionDenied|Unauthenticated|Permission denied)"),
        Fault.DENIED,
    ),
    (re.compile(r"was not found|Not found:|NotFound|No such file or directory|Ref not found"), Fault.MISSING),
    (
        re.compile(
            r"error sending request|Generic \w+ error|HTTP error|status code: (?:5\d\d|429)|timed? ?out|No space left"
            r"|Connection (?:refused|reset)"
        ),
        Fault.UNAVAILABLE,
    ),
)


def fault_of(error: BaseException) -> Fault:
    """Classify a foreign error."""
    match error:
        case CommitConflictError():
            return Fault.CONFLICT
        case obstore_errors.AlreadyExistsError() | FileExistsError():
            return Fault.EXISTS
        case obstore_errors.PermissionDeniedError() | obstore_errors.UnauthenticatedError() | PermissionError():
            return Fault.DENIED
        case FileNotFoundError():
            return Fault.MISSING
        case _:
            return next((fault for pattern, fault in _TEXTS if pattern.search(str(error))), _fault_of_type(error))


def _fault_of_type(error: BaseException) -> Fault:
    match error:
        case obstore_errors.BaseError() | OSError():
            return Fault.UNAVAILABLE
        case _:
            return Fault.OTHER


def to_omnigraph_error(error: Exception, *, doing: str, location: str, effect: Effect = Effect.NONE) -> OmnigraphError:
    """Return our error for a foreign one; ``effect`` is what the failed call may have left behind."""
    if isinstance(error, OmnigraphError):
        return error
    details = StorageFault(doing=doing, location=location, reason=_reason(error))
    match fault_of(error):
        case Fault.DENIED if _is_caller_unknown(error):
            return StorageUnauthenticatedError(
                f"storage does not know who asks to {doing} location={location}",
                details=details,
                effect=effect,
            )
        case Fault.DENIED:
            return StorageDeniedError(f"storage refused to {doing} location={location}", details=details, effect=effect)
        case Fault.UNAVAILABLE | Fault.OUTCOME_UNKNOWN:
            return StorageUnavailableError(
                f"storage could not {doing} location={location}", details=details, effect=effect
            )
        case Fault.EXISTS:
            return AlreadyExistsError(
                f"a dataset exists there already location={location}",
                details=TableRef(location=location),
                effect=effect,
            )
        case Fault.MISSING if isinstance(error, pa.ArrowInvalid):
            return StorageCorruptError(f"a stored file is missing location={location}", details=details, effect=effect)
        case Fault.MISSING:
            return TableMissingError(
                f"nothing is stored there location={location}", details=TableRef(location=location), effect=effect
            )
        case _:
            return InternalError(f"could not {doing}: {details.reason} location={location}", effect=effect)


@contextmanager
def translating(doing: str, location: str, *, effect: Effect = Effect.NONE) -> Iterator[None]:
    """Let only errors of ours out of the block, and Ctrl-C."""
    try:
        yield
    except (
        OSError,
        ValueError,
        RuntimeError,
        TypeError,
        KeyError,
        pa.ArrowException,
        obstore_errors.BaseError,
    ) as error:
        if isinstance(error, OmnigraphError):
            raise
        if _INTERRUPTED.match(str(error)):
            raise KeyboardInterrupt from error
        raise to_omnigraph_error(error, doing=doing, location=location, effect=effect) from error


def _is_caller_unknown(error: Exception) -> bool:
    is_told = isinstance(error, obstore_errors.UnauthenticatedError)
    return is_told or _UNKNOWN_CALLER.search(str(error)) is not None


def _reason(error: Exception) -> str:
    # Addresses may carry signatures in their query; the location in the details says enough.
    first_line = str(error).partition("\n")[0]
    return _ADDRESS.sub("<address>", _RUST_PLACE.sub("", first_line))[:_REASON_LENGTH]
