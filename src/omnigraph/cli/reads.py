"""What the commands that read by a query share: their options, and the request that these make."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.files import refuse_second_stdin
from omnigraph.cli.mutate import read_query
from omnigraph.cli.parameters import read_params
from omnigraph.errors import BadValue, UsageError
from omnigraph.records import record
from omnigraph.values import size_of

if TYPE_CHECKING:
    from omnigraph.engine.query.options import QueryOptions


class Traversal(Enum):
    """How edges are walked."""

    AUTO = "auto"
    INDEXED = "indexed"
    CSR = "csr"


QueryName = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="Which query of the source, if it holds several.")
]
ReadBranch = Annotated[str | None, typer.Option("--branch", metavar="NAME", help="The branch to read; main if none.")]
AtSnapshot = Annotated[
    str | None,
    typer.Option("--snapshot", metavar="REF", help="Read an earlier state: a commit id, main~3, tag:v1 or @TIME."),
]
RowLimit = Annotated[
    int | None, typer.Option("--limit-rows", metavar="N", min=0, help="Fail if there are more rows than this.")
]
Timeout = Annotated[float | None, typer.Option("--timeout", metavar="SECONDS", help="Fail if it takes longer.")]
Memory = Annotated[
    str | None, typer.Option("--memory", metavar="SIZE", help="Fail if it needs more memory, such as 256M or 2G.")
]
TraversalMode = Annotated[
    Traversal, typer.Option("--mode", help="Walk edges through indexes, through memory, or by what seems cheaper.")
]


@record
class ReadRequest:
    """A read as the session takes it."""

    text: bytes
    params: Any
    name: str | None
    branch: str
    at: str | None
    options: QueryOptions
    source_name: str

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the session's ``query`` and ``explain``, the text and what may follow it."""
        return {
            "text": self.text,
            "params": self.params,
            "name": self.name,
            "params_form": "strict",
            "branch": self.branch,
            "at": self.at,
            "options": self.options,
            "source_name": self.source_name,
        }


def read_request(
    *,
    name: str | None,
    query_path: str | None,
    query_text: str | None,
    params: str | None,
    params_path: str | None,
    param: Sequence[str] | None,
    branch: str | None,
    snapshot: str | None,
    options: QueryOptions,
) -> ReadRequest:
    """Return what the options of a command ask for.

    Raises:
        UsageError: they do not go together, or one is not of its form.
        FileMissingError, FileAccessError: a file that they name cannot be read.
        QueryParameterError: the parameters are not JSON.
    """
    if branch is not None and snapshot is not None:
        raise _usage("--branch and --snapshot exclude each other", "", "one of them")
    refuse_second_stdin([path for path in (query_path, params_path) if path is not None])
    source = read_query(query_path, query_text, name)
    return ReadRequest(
        text=source.data,
        params=read_params(params, params_path, param or ()),
        name=name,
        branch="main" if branch is None else branch,
        at=snapshot,
        options=options,
        source_name=source.name,
    )


def read_options(limit_rows: int | None, timeout_s: float | None, memory: str | None, mode: Traversal) -> QueryOptions:
    """Return the limits of a read.

    Raises:
        UsageError: a time or a size that is none.
    """
    from omnigraph.engine.query.options import QueryOptions  # noqa: PLC0415 - for arguments that make sense

    return QueryOptions(
        mode=mode.value,
        memory_bytes=None if memory is None else _size(memory),
        timeout_ms=None if timeout_s is None else _milliseconds(timeout_s),
        max_rows=limit_rows,
    )


def _milliseconds(timeout_s: float) -> int:
    timeout_ms = timeout_s * 1000
    if not (math.isfinite(timeout_ms) and timeout_ms >= 0):
        raise _usage(f"--timeout is no time value={timeout_s}", str(timeout_s), "seconds, such as 2.5")
    return math.ceil(timeout_ms)


def _size(text: str) -> int:
    size = size_of(text)
    if size is None:
        raise _usage(f"--memory is no size value={text}", text, "a size, such as 256M or 2G")
    return size


def _usage(message: str, value: str, expected: str) -> UsageError:
    return UsageError(
        message, details=BadValue(what="arguments", value=value, expected=expected), hint=f"give {expected}"
    )
