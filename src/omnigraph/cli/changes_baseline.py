"""``omnigraph changes baseline``: exports the state that a feed goes on from."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from omnigraph.cli.graphs import graph_address, open_graph
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import AsJson, Branch, Kinds, Ops, Store, Types, UriOption
from omnigraph.cli.output import choose_output
from omnigraph.cli.reports import PlainReport
from omnigraph.errors import BadValue, FileAccessError
from omnigraph.history.diff.change import ChangeFilter
from omnigraph.history.feed.baseline import capture_baseline

app = new_app()


@app.command()
def baseline(
    *,
    out: Annotated[str, typer.Option("--out", metavar="FILE", help="Where to write it, as JSON lines.")],
    branch: Branch = "main",
    kinds: Kinds = None,
    types: Types = None,
    ops: Ops = None,
    uri: UriOption = None,
    store: Store = None,
    as_json: AsJson = False,
) -> int:
    """Export one state of a branch together with the cursor that a feed goes on from.

    The file appears whole or not at all; a failure leaves the one that was there.
    """
    wanted = ChangeFilter.of(kinds=kinds or (), type_names=types or (), ops=ops or ())
    with open_graph(graph_address(uri, store), mode="read_only") as session:
        last = _write(Path(out), capture_baseline(session.store, branch, wanted=wanted))
    document = last["baseline"]
    lines = [f"{key}: {value}" for key, value in document.items()]
    choose_output(as_json=as_json).show(PlainReport(document=document, lines=lines))
    return 0


def _write(path: Path, records: Iterator[dict[str, Any]]) -> dict[str, Any]:
    """Write the records beside the file and put them in its place; return the last one."""
    partial, last = path.with_name(f"{path.name}.partial"), dict[str, Any]()
    with _writing(path), _locked(path.with_name(f"{path.name}.lock")):
        with partial.open("w", encoding="utf-8") as file:
            for last in records:
                file.write(json.dumps(last, ensure_ascii=False, separators=(",", ":")) + "\n")
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    return last


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        details = BadValue(what="file", value=str(path), expected="a file that can be written")
        why = (error.strerror or str(error)).lower()
        raise FileAccessError(f"the file cannot be written: {why}: path={path}", details=details) from error
