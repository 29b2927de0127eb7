"""The one place where errors become exit codes.

Every outcome of a command passes through :func:`run`. An error of ours exits with the code of its kind, a mistake in
the arguments is one of them (``invalid``, 2), an interrupt is 130 and a reader that went away is 141. What is none of
these is a bug of ours: it is reported as an internal error in one line, with the traceback only on request.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import UnsupportedOperation
from pathlib import Path
from typing import Protocol, cast

import typer

from omnigraph.cli.output import Output, choose_output
from omnigraph.errors import BadValue, FileAccessError, InternalError, OmnigraphError, UsageError

INTERRUPTED = 130
BROKEN_PIPE = 141
DEBUG_VARIABLE = "OMNIGRAPH_DEBUG"

# The parent of this class is what all argument errors share; it has a public name of its own only here.
_ARGUMENT_ERROR: type[Exception] = typer.BadParameter.__bases__[0]
# Phrases of the library that people should not have to read, with what they mean.
_PHRASES = {
    r": Value error, ": ": ",
    r": Input should": ": it should",
    r"got unexpected extra arguments?(?:\(s\))? \((.*)\)": r"unexpected argument \1",
}
# What whoever takes our output may run into; the troubles of storage are errors of ours before they come here.
_OF_OUTPUT = frozenset({errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def run(command: Callable[[], int], argv: Sequence[str]) -> int:
    """Run ``command`` and return the exit code of the process; ``argv`` tells in which form errors are wanted."""
    output = choose_output(as_json=wants_json(argv))
    _replace_closed_streams()
    try:
        code = _attempt(command, output)
        # What is buffered must meet a closed pipe here, not while the interpreter shuts down.
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        # A reader that is slow enough to be interrupted must not be waited for.
        _forget_stdout()
        return INTERRUPTED
    except OSError as problem:
        _forget_stdout()
        if isinstance(problem, BrokenPipeError):
            return BROKEN_PIPE
        return _fail(_output_error(problem), choose_output(as_json=False))
    return code


def wants_json(argv: Sequence[str]) -> bool:
    """Whether the arguments ask for JSON, even if they cannot be understood otherwise.

    >>> wants_json(["fmt", "--json", "a.pg"]), wants_json(["fmt", "--", "--json"])
    (True, False)
    """
    options = argv[: argv.index("--")] if "--" in argv else argv
    return "--json" in options


def _attempt(command: Callable[[], int], output: Output) -> int:
    try:
        return command()
    except OmnigraphError as error:
        return _fail(error, output)
    except _ARGUMENT_ERROR as mistake:
        return _fail(_usage_error(cast("_ArgumentError", mistake)), output)
    except Exception as bug:
        # Nothing may leave the outermost frame but what ends all output: trouble with it, and people.
        if isinstance(bug, typer.Abort) or (isinstance(bug, OSError) and bug.errno in _OF_OUTPUT):
            raise
        if os.environ.get(DEBUG_VARIABLE) == "1":
            traceback.print_exception(bug)
        return _fail(_internal_error(bug), output)


def _replace_closed_streams() -> None:
    # A stream that the caller has closed (``>&-``) is missing altogether, and every write would be a bug of ours.
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            nowhere = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - open as long as the process lives
            setattr(sys, name, nowhere)


def _forget_stdout() -> None:
    # Whatever the interpreter still wants to flush goes nowhere, instead of into another error. A program that runs
    # a command inside itself may have put something else in the stream's place.
    with suppress(UnsupportedOperation):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _output_error(problem: OSError) -> FileAccessError:
    why = (problem.strerror or str(problem)).lower()
    details = BadValue(what="file", value="<stdout>", expected="a place that can be written to")
    return FileAccessError(f"the output cannot be written: {why}", details=details, hint="make room and ask again")


def _fail(error: OmnigraphError, output: Output) -> int:
    output.show_error(error)
    return error.kind.exit_code


class _ArgumentError(Protocol):
    """What an argument error offers in every version of the library."""

    message: str

    def format_message(self) -> str: ...


def _usage_error(mistake: _ArgumentError) -> UsageError:
    context = getattr(mistake, "ctx", None)
    path = context.command_path if context is not None else "omnigraph"
    message = mistake.format_message().rstrip(".")
    told = message[:1].lower() + message[1:]
    for phrase, meaning in _PHRASES.items():
        told = re.sub(phrase, meaning, told)
    return UsageError(
        told,
        details=BadValue(what="arguments", value=message, expected="the arguments of the command"),
        hint=f"see `{path} --help`",
    )


def _internal_error(bug: Exception) -> InternalError:
    first_line = (str(bug).splitlines() or [""])[0]
    return InternalError(
        f"unexpected {type(bug).__name__}: {first_line}",
        hint=f"this is a bug in omnigraph; report it with the traceback that {DEBUG_VARIABLE}=1 shows",
    )
