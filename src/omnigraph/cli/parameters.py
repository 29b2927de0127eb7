"""The parameters of a query, from everything that may give them: one JSON object, a file of it, and single values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from omnigraph.cli.files import read_input
from omnigraph.errors import BadValue, QueryParameterError, UsageError


def read_params(text: str | None, path: str | None, each: Sequence[str] = ()) -> Any:
    """Return the parameters as JSON values, None when there are none; single ones win over those given together.

    Raises:
        UsageError: they are given twice, or a single one is not of its form.
        FileMissingError, FileAccessError: the file cannot be read.
        QueryParameterError: they are not JSON.
    """
    if text is not None and path is not None:
        raise _usage("--params and --params-file exclude each other", "", "one of the two")
    if text is None and path is None:
        return _with_each(None, each)
    from omnigraph.ir import decode_parameter_text  # noqa: PLC0415 - for calls with parameters

    data = (text or "").encode(errors="surrogateescape") if path is None else read_input(path).data
    return _with_each(decode_parameter_text(data), each)


def parameter_value(text: str, origin: str) -> Any:
    """Return the value that a text of the command line means: JSON if it is that, else the text itself.

    Raises:
        UsageError: it is neither; ``origin`` says where it stands.
    """
    from omnigraph.ir import decode_parameter_text  # noqa: PLC0415 - for calls with parameters

    try:
        return decode_parameter_text(text.encode())
    except QueryParameterError:
        return text
    except UnicodeEncodeError as problem:
        raise _usage(f"{origin} holds bytes that are no text", ascii(text), "UTF-8 text") from problem


def _with_each(given: Any, each: Sequence[str]) -> Any:
    """Put single parameters over those that were given together; what is no object is refused later, as always."""
    if not each or not (given is None or isinstance(given, dict)):
        return given
    single: dict[str, Any] = {}
    for text in each:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise _usage(f"--param is not of its form value={text}", text, "NAME=VALUE")
        if name in single:
            raise _usage(f"--param names a parameter twice name={name}", text, "each name once")
        single[name] = parameter_value(value, "--param")
    return {**(given or {}), **single}


def _usage(message: str, value: str, expected: str) -> UsageError:
    details = BadValue(what="arguments", value=value, expected=expected)
    return UsageError(message, details=details, hint=f"give {expected}")
