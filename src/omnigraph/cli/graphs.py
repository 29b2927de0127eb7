"""The graph that a command works on: how it is named, opened and echoed, and the options that all commands share."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.operator.config import choose_profile, default_actor, default_scope
from omnigraph.cli.output import write_line
from omnigraph.errors import BadValue, UsageError
from omnigraph.store.location import Storage

if TYPE_CHECKING:
    from omnigraph.engine.session import GraphSession
    from omnigraph.txn.graph_store import OpenMode
    from omnigraph.txn.manifest.rows import Commit


@contextmanager
def quick_imports() -> Iterator[None]:
    """Import what is imported inside as quickly as possible.

    pyarrow finds out whether pandas is installed by importing it, at the first value that it makes; that takes as long
    as pyarrow and Lance together. Inside, it finds none; :func:`show_pandas` tells it otherwise.
    """
    hiding = _HidesPandas()
    sys.meta_path.insert(0, hiding)
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        sys.meta_path.remove(hiding)
        if was_collecting:
            # Modules stay to the end: going through all of them once more would cost what was saved.
            gc.freeze()
            gc.enable()


def show_pandas() -> None:
    """Let pyarrow find pandas, for libraries that hand its frames over."""
    import pyarrow as pa  # noqa: PLC0415 - for those who have loaded it already

    with suppress(ImportError):
        pa.nulls(0).to_pandas()


class _HidesPandas:
    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if name == "pandas":
            msg = f"{name} is left alone while a command starts"
            raise ModuleNotFoundError(msg, name=name)
        return None


def graph_address(uri: str | None, store: str | None) -> str:
    """Return the storage of the graph that is meant: given by position or by ``--store``, or by profile or default.

    Raises:
        UsageError: it is given twice or not at all, or is the address of a server.
        ProfileMissingError, ConfigError: a profile is asked for that does not exist or is not valid.
        ScopeUnsupportedError: the profile or the defaults lead to a server or a cluster.
    """
    if uri is not None and store is not None:
        raise UsageError(
            "the graph is named twice",
            details=BadValue(what="arguments", value=uri, expected="URI or --store"),
            hint="give its address once",
        )
    address = store if uri is None else uri
    return _stored(default_scope().storage() if address is None else address)


def open_graph(store: str | None, *, mode: OpenMode = "read_write") -> GraphSession:
    """Open the graph at a storage address, or the one that :func:`graph_address` finds where none is given.

    Raises:
        UsageError: no graph is named, or a server.
        ValueFormatError: a graph cannot live there.
        GraphMissingError: there is none.
    """
    address = graph_address(None, store)
    with quick_imports():
        from omnigraph.engine.session import GraphSession  # noqa: PLC0415 - for arguments that make sense
        from omnigraph.store.location import Storage  # noqa: PLC0415 - see above

    return GraphSession.open(Storage.open(address), mode=mode)


def commit_to_json(commit: Commit | None) -> dict[str, Any] | None:
    """Return a commit as every result shows it."""
    if commit is None:
        return None
    return {
        "graph_commit_id": commit.id,
        "graph_branch": commit.branch,
        "graph_manifest_version": commit.manifest_version,
        "parent_commit_id": commit.parent,
        "merged_parent_commit_id": commit.merged_parent,
        "actor_id": commit.actor,
        "created_at": commit.created_at_ms * 1000,
    }


def _stored(address: str) -> str:
    if not address.lower().startswith(("http://", "https://")):
        return address
    raise UsageError(
        "the address of a server is no graph",
        details=BadValue(what="graph", value=address, expected="the storage of a graph"),
        hint="give the graph's storage: a path, file:// or s3://bucket/prefix",
    )


_CONSENT = frozenset({"y", "yes"})


def echo_target(label: str, address: str, *, is_quiet: bool) -> None:
    """Say on standard error which graph a write goes to."""
    if not is_quiet:
        where = "local" if Storage.open(address).is_local else "remote"
        write_line(f"omnigraph {label} → {address} (direct, {where})", sys.stderr)


def ask_consent(label: str, address: str, *, is_given: bool, as_json: bool) -> None:
    """Return if a destructive write may go ahead: always on this machine, elsewhere with ``--yes`` or an answer.

    Raises:
        UsageError: it may not.
    """
    if is_given or Storage.open(address).is_local:
        return
    if not as_json and sys.stdin.isatty():
        sys.stderr.write(f"{label} cannot be undone on {address}; go on? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() in _CONSENT:
            return
    details = BadValue(what="consent", value="", expected="--yes")
    raise UsageError(f"{label} cannot be undone on a remote graph", details=details, hint="give --yes to go ahead")


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Store = Annotated[
    str | None,
    typer.Option("--store", metavar="URI", help="The graph's storage: a path, file:// or s3://bucket/prefix."),
]
Uri = Annotated[str | None, typer.Argument(metavar="[URI]", help="The graph: a path, file:// or s3://bucket/prefix.")]
Branch = Annotated[str, typer.Option("--branch", metavar="NAME", help="The branch to work on.")]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME",
        help="The graph that the operator config gives this name.",
        callback=choose_profile,
        expose_value=False,
    ),
]
Actor = Annotated[
    str | None,
    typer.Option(
        "--as",
        metavar="ACTOR",
        help="Who asks for it, kept with the commit; the operator by default.",
        callback=default_actor,
    ),
]
DesiredSchema = Annotated[
    str, typer.Option("--schema", metavar="FILE", help="The schema to move to; - reads standard input.")
]
AllowDataLoss = Annotated[
    bool, typer.Option("--allow-data-loss", help="Make every drop a hard one, which cannot be undone.")
]
QueryFile = Annotated[
    str | None, typer.Option("--query", metavar="FILE", help="The file that holds the query; - reads standard input.")
]
QueryText = Annotated[str | None, typer.Option("--query-string", "-e", metavar="GQ", help="The query itself.")]
Params = Annotated[str | None, typer.Option("--params", metavar="JSON", help="Parameters, as a JSON object.")]
ParamsFile = Annotated[
    str | None,
    typer.Option("--params-file", metavar="FILE", help="Parameters, as a JSON file; - reads standard input."),
]
Param = Annotated[
    list[str] | None,
    typer.Option("--param", metavar="NAME=VALUE", help="One parameter: JSON, or else text; may be repeated."),
]
UriOption = Annotated[
    str | None, typer.Option("--uri", metavar="URI", help="The graph: a path, file:// or s3://bucket/prefix.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Do not say which graph the command works on.")]
Consent = Annotated[bool, typer.Option("--yes", help="Go ahead with what cannot be undone, on a remote graph too.")]
Limit = Annotated[int, typer.Option("--limit", "-n", metavar="N", help="How many at most.")]
IfCommit = Annotated[
    str | None, typer.Option("--if-commit", metavar="ID", help="Change nothing unless the branch is at this commit.")
]
Message = Annotated[str | None, typer.Option("--message", "-m", metavar="TEXT", help="What the commit says.")]
Kinds = Annotated[list[str] | None, typer.Option("--kind", metavar="KIND", help="Only node or edge; may repeat.")]
Types = Annotated[list[str] | None, typer.Option("--type", metavar="TYPE", help="Only this type; may repeat.")]
Ops = Annotated[list[str] | None, typer.Option("--op", metavar="OP", help="Only insert, update or delete; may repeat.")]
Resolve = Annotated[
    str | None,
    typer.Option("--resolve", metavar="WAY", help="Decide rows changed on both sides: ours, theirs or properties."),
]
