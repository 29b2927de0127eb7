"""The graph that a command works on: how it is named, opened and echoed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from omnigraph.cli.lazy import quick_imports
from omnigraph.cli.operator.config import default_store
from omnigraph.cli.options import GraphOptions
from omnigraph.cli.output import write_line
from omnigraph.cli.usage import usage_error

if TYPE_CHECKING:
    from omnigraph.catalog import Catalog
    from omnigraph.operations import Backend
    from omnigraph.operations.local import LocalBackend
    from omnigraph.txn.graph_store import OpenMode


def graph_address(options: GraphOptions) -> str:
    """Return the storage of the graph that is meant: given on the command line, or else by profile or default.

    Raises:
        UsageError: it is given twice or not at all, or is the address of a server.
        ProfileMissingError, ConfigError: a profile is asked for that does not exist or is not valid.
    """
    given = options.given
    return _stored(default_store() if given is None else given)


def open_graph(address: str, *, mode: OpenMode = "read_write") -> LocalBackend:
    """Open the graph at a storage address.

    Raises:
        UsageError: it is the address of a server.
        ValueFormatError: a graph cannot live there.
        GraphMissingError: there is none.
    """
    address = _stored(address)
    with quick_imports():
        from omnigraph.engine.open_graph import OpenGraph  # noqa: PLC0415 - for arguments that make sense
        from omnigraph.operations.local import LocalBackend  # noqa: PLC0415 - see above
        from omnigraph.store.location import Storage  # noqa: PLC0415 - see above

    return LocalBackend(OpenGraph.open(Storage.open(address), mode=mode), mode)


def read_catalog(backend: Backend, branch: str = "main", at: str | None = None) -> Catalog:
    """Return the schema that a branch follows, or that an earlier state followed."""
    from omnigraph.engine.accepted import catalog_of  # noqa: PLC0415 - the graph is open, so that it is loaded
    from omnigraph.operations.reads import ReadStateRequest  # noqa: PLC0415 - see above

    return catalog_of(backend.execute(ReadStateRequest(branch=branch, at=at)).state.schema)


def _stored(address: str) -> str:
    if not address.lower().startswith(("http://", "https://")):
        return address
    raise usage_error(
        "the address of a server is not a graph",
        what="graph",
        value=address,
        expected="the storage of a graph",
        hint="give the graph's storage: a path, file:// or s3://bucket/prefix",
    )


_CONSENT = frozenset({"y", "yes"})


def echo_target(label: str, address: str, *, is_quiet: bool) -> None:
    """Say on standard error which graph a write goes to."""
    if not is_quiet:
        where = "local" if _is_local(address) else "remote"
        write_line(f"omnigraph {label} → {address} (direct, {where})", sys.stderr)


def ask_consent(label: str, address: str, *, is_given: bool, as_json: bool) -> None:
    """Return if a destructive write may go ahead: always on this machine, elsewhere with ``--yes`` or an answer.

    Raises:
        UsageError: it may not.
    """
    if is_given or _is_local(address):
        return
    is_asked = not as_json and sys.stdin.isatty()
    if is_asked and consents(f"{label} cannot be undone on {address}; continue? [y/N] "):
        return
    raise usage_error(
        f"{label} cannot be undone on a remote graph", what="consent", expected="--yes", hint="add --yes to continue"
    )


def consents(question: str) -> bool:
    """Ask on standard error, and return whether the answer is yes."""
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in _CONSENT


def _is_local(address: str) -> bool:
    from omnigraph.store.location import Storage  # noqa: PLC0415 - for commands that write

    return Storage.open(address).is_local
