"""Reads the source files that commands are given, and writes them back without ever leaving half a file."""

from __future__ import annotations

import contextlib
import difflib
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from omnigraph.cli.usage import usage_error
from omnigraph.errors import BadValue, FileAccessError, FileMissingError, MissingThing
from omnigraph.lang.source import MAX_SOURCE_BYTES
from omnigraph.records import record

STDIN = "-"
STDIN_NAME = "<stdin>"
_MAX_SIBLINGS = 200


@record
class InputFile:
    """What was read, under the name that messages use."""

    name: str
    data: bytes


def read_input(path: str, *, most: int = MAX_SOURCE_BYTES) -> InputFile:
    """Read a file, or standard input for ``-``; of one that is longer than ``most`` bytes, one byte more.

    Raises:
        FileMissingError: there is no such file.
        FileAccessError: it is a directory, may not be read, or the system failed to read it.
    """
    # One byte past the limit is enough for the parser to refuse it, and an endless device still ends.
    if path == STDIN:
        return InputFile(name=STDIN_NAME, data=sys.stdin.buffer.read(most + 1))
    try:
        with Path(path).open("rb") as stream:
            return InputFile(name=path, data=stream.read(most + 1))
    except FileNotFoundError as problem:
        raise _missing(path) from problem
    except (OSError, ValueError) as problem:
        raise unusable_file(path, problem, "readable") from problem


@contextlib.contextmanager
def open_lines(path: str) -> Iterator[Iterator[bytes]]:
    """Open a file of any length to be read line by line as it grows, or standard input for ``-``; blank lines are none.

    Raises:
        FileMissingError, FileAccessError: as for :func:`read_input`.
    """
    if path == STDIN:
        yield filter(bytes.strip, sys.stdin.buffer)
        return
    try:
        stream = Path(path).open("rb")  # noqa: SIM115 - errors of the block are not those of the file
    except FileNotFoundError as problem:
        raise _missing(path) from problem
    except (OSError, ValueError) as problem:
        raise unusable_file(path, problem, "readable") from problem
    with stream:
        yield filter(bytes.strip, stream)


def refuse_second_stdin(paths: Sequence[str]) -> None:
    """Refuse arguments that would read standard input twice: the second reader would find it empty.

    Raises:
        UsageError: ``-`` stands among the paths more than once.
    """
    if paths.count(STDIN) > 1:
        raise usage_error(
            "standard input can be read only once",
            what="path",
            value=STDIN,
            expected="- at most once",
            hint="put one of the inputs in a file",
        )


def write_new_file(path: str, text: str | None) -> None:
    """Write a file that does not exist yet; without a text, only see that it does not.

    Raises:
        FileAccessError: it exists, or its directory cannot be written to.
    """
    try:
        if Path(path).exists():
            details = BadValue(what="file", value=path, expected="a file that does not exist")
            hint = "choose another name, or delete the file"
            raise FileAccessError(f"file '{path}' exists already", details=details, hint=hint)
        if text is not None:
            with Path(path).open("x", encoding="utf-8", newline="") as stream:
                stream.write(text)
    except (OSError, ValueError) as problem:
        raise unusable_file(path, problem, "writable") from problem


def replace_file(path: str, text: str) -> None:
    """Put ``text`` in the place of the file's content, in one step: readers see the old file or the new one.

    Raises:
        FileAccessError: the file or its directory cannot be written; the file is as it was.
    """
    # Through a symbolic link the file behind it is meant; replacing the link would detach the two.
    target = Path(os.path.realpath(path))
    try:
        mode = target.stat().st_mode
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    except OSError as problem:
        raise unusable_file(path, problem, "writable") from problem
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(text.encode())
            stream.flush()
            os.fsync(stream.fileno())
            os.fchmod(stream.fileno(), mode & 0o7777)
        Path(temporary).replace(target)
    except BaseException as problem:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        if isinstance(problem, OSError):
            raise unusable_file(path, problem, "writable") from problem
        raise


def _missing(path: str) -> FileMissingError:
    near = _near_names(Path(path))
    check = "check the path; it is relative to the working directory"
    if "{" in path:
        check = "this looks like the text itself: save it to a file, and pass the name of the file"
    return FileMissingError(
        f"file '{path}' was not found",
        details=MissingThing(what="file", name=path, near=near),
        hint=f"did you mean {near[0]}?" if near else check,
    )


def _near_names(path: Path) -> tuple[str, ...]:
    try:
        siblings = [entry.name for entry in islice(path.parent.iterdir(), _MAX_SIBLINGS)]
    except (OSError, ValueError):
        return ()
    close = difflib.get_close_matches(path.name, sorted(siblings), n=3)
    return tuple(str(path.parent / name) for name in close)


def unusable_file(path: str, problem: Exception, expected: str) -> FileAccessError:
    """Return the error of a file that is not what it was expected to be, ``readable`` or ``writable``."""
    if isinstance(problem, IsADirectoryError):
        reason, hint = "it is a directory", "name the files in it"
    elif isinstance(problem, PermissionError):
        reason, hint = "permission denied", f"make it {expected} for this user"
    else:
        reason = (getattr(problem, "strerror", None) or str(problem)).lower()
        hint = f"check that the path names a {expected} file"
    return FileAccessError(
        f"file '{path}' is not {expected}: {reason}",
        details=BadValue(what="file", value=path, expected=f"a {expected} file"),
        hint=hint,
    )
