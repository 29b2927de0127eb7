"""``omnigraph load``: rows from files into a graph."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Annotated, Any

import typer

from omnigraph.cli.counted import counted
from omnigraph.cli.engines import Choice, EngineName, Master, Remote, SparkConf, spark_request
from omnigraph.cli.graphs import commit_to_json, graph_address, open_graph
from omnigraph.cli.guards import ask_consent, echo_target
from omnigraph.cli.lazy import new_app
from omnigraph.cli.load_runs import ClusterBy, LoadOrder, run_load, spark_json, spark_lines
from omnigraph.cli.options import Actor, AsJson, Branch, Consent, Quiet, Store, Uri
from omnigraph.cli.output import choose_output
from omnigraph.engine.load import LoadResult, Source
from omnigraph.engine.session import GraphSession
from omnigraph.errors import BadValue, BranchExistsError, UsageError
from omnigraph.records import record
from omnigraph.runtime import Counters
from omnigraph.values import BranchName

app = new_app()


class Mode(Enum):
    """What happens to rows that exist."""

    APPEND = "append"
    MERGE = "merge"
    OVERWRITE = "overwrite"


@record
class LoadReport:
    """What a load did, and where."""

    uri: str
    actor: str | None
    base: str | None
    branch_created: bool
    result: LoadResult
    choice: Choice

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        done = self.result
        return {
            "uri": self.uri,
            "branch": done.branch,
            "base_branch": self.base,
            "branch_created": self.branch_created,
            "mode": done.mode,
            "nodes": _counts(done.nodes_loaded),
            "edges": _counts(done.edges_loaded),
            "total_entities": done.total,
            "actor_id": self.actor,
            "commit": commit_to_json(done.commit),
            "engine": self.choice.to_json() | spark_json(done),
        }

    def to_lines(self) -> Iterable[str]:
        """The counts in one line, and the branch if it was made for them."""
        done = self.result
        if self.branch_created:
            yield f"branch {done.branch} created from {self.base}"
        if done.commit is None:
            yield f"nothing to load into {self.uri} on branch {done.branch}: no rows, no commit"
            return
        across = f"{counted(len(done.nodes_loaded), 'node type')} and {counted(len(done.edges_loaded), 'edge type')}"
        entities = counted(done.total, "entity", "entities")
        yield f"loaded {self.uri} on branch {done.branch} with {done.mode}: {entities} across {across}"
        yield from spark_lines(done)

    def to_remarks(self) -> Iterable[str]:
        """Which engine did it and why, where that is worth a line."""
        return self.choice.to_remarks()


@app.command()
def load(  # noqa: PLR0913 - one parameter per option
    *,
    uri: Uri = None,
    mode: Annotated[
        Mode,
        typer.Option(
            "--mode",
            help="append refuses rows that exist, merge replaces them, overwrite replaces whole types.",
        ),
    ],
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data", metavar="FILE", help="A file, a folder, a glob, or - for standard input; may be repeated."
        ),
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option("--table", metavar="TYPE=FILE", help="A CSV or Parquet file of one type; may be repeated."),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="TYPE.PROPERTY=COLUMN",
            help="The column of a CSV or Parquet file that gives a property; may be repeated.",
        ),
    ] = None,
    patch: Annotated[
        bool, typer.Option("--patch", help="With merge: keep what a row does not mention, instead of making it null.")
    ] = False,
    errors_to: Annotated[
        str | None, typer.Option("--errors-to", metavar="FILE", help="Write every problem to this file, as JSONL.")
    ] = None,
    check_sums: Annotated[
        bool, typer.Option("--check-sums", help="Compare the files of an exported folder with their checksums first.")
    ] = False,
    cluster_by: Annotated[
        list[str] | None,
        typer.Option(
            "--cluster-by",
            metavar="TYPE=COLUMN",
            help="On Spark: order a type's rows by a column, or `key` for all types; may be repeated.",
        ),
    ] = None,
    engine: EngineName = None,
    master: Master = None,
    remote: Remote = None,
    spark_conf: SparkConf = None,
    store: Store = None,
    branch: Branch = "main",
    base: Annotated[
        str | None, typer.Option("--from", metavar="BRANCH", help="Create the branch from this one if it is missing.")
    ] = None,
    actor: Actor = None,
    yes: Consent = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Load rows from files as one commit, or not at all.

    JSONL files (.jsonl, .ndjson) name the type of each row; CSV and Parquet files hold rows of one type, which
    --table or else the file's name tells. gzip and zstd are recognised, and so are folders that export wrote. Exits
    with 2 if a row is bad or breaks a rule, with 3 if one exists already.
    """
    address = graph_address(uri, store)
    if mode is Mode.OVERWRITE:
        ask_consent("load --mode overwrite", address, is_given=yes, as_json=as_json)
    sources = read_sources(data or (), table or (), column or ())
    order = LoadOrder(
        sources=sources,
        mode=mode.value,
        branch=branch,
        actor=actor,
        errors_to=errors_to,
        patch=patch,
        check_sums=check_sums,
        cluster_by=read_clusters(cluster_by or ()),
        spark=spark_request(engine, master, remote, spark_conf),
    )
    echo_target("load", address, is_quiet=quiet)
    with open_graph(address) as session:
        is_created = base is not None and _create_branch(session, branch, base, actor)
        result, choice = run_load(session, order, shows_bar=not as_json and sys.stderr.isatty())
    report = LoadReport(uri=address, actor=actor, base=base, branch_created=is_created, result=result, choice=choice)
    choose_output(as_json=as_json).show(report)
    return 0


def read_sources(data: Sequence[str], tables: Sequence[str], columns: Sequence[str]) -> list[Source]:
    """Return what to load, from the options that name it.

    Raises:
        UsageError: nothing is named, or an option is not of its form.
    """
    if not data and not tables:
        raise _usage("nothing to load is named", "", "--data FILE or --table TYPE=FILE")
    mapped: dict[str, dict[str, str]] = {}
    for text in columns:
        target, equals, name = text.partition("=")
        owner, dot, prop = target.rpartition(".")
        if not (equals and dot and owner and prop and name):
            raise _usage(f"--column is not of its form value={text}", text, "TYPE.PROPERTY=COLUMN")
        mapped.setdefault(owner, {})[prop] = name
    sources = [_with_columns(Source(path=path), mapped) for path in data]
    for text in tables:
        owner, equals, path = text.partition("=")
        if not (equals and owner and path):
            raise _usage(f"--table is not of its form value={text}", text, "TYPE=FILE")
        sources.append(Source(path=path, type_name=owner, columns=mapped.get(owner, {})))
    return sources


def read_clusters(texts: Sequence[str]) -> ClusterBy | None:
    """Return by which column the rows of which type are ordered, None if nothing asks for it.

    Raises:
        UsageError: an option is not of its form.
    """
    if not texts:
        return None
    if list(texts) == ["key"]:
        return "key"
    chosen: dict[str, str] = {}
    for text in texts:
        owner, equals, name = text.partition("=")
        if not (owner and equals and name):
            raise _usage(f"--cluster-by is not of its form value={text}", text, "TYPE=COLUMN, or key alone")
        chosen[owner] = name
    return chosen


def _with_columns(source: Source, mapped: Mapping[str, Mapping[str, str]]) -> Source:
    return Source(path=source.path, columns=mapped.get(source.stem, {}))


def _create_branch(session: GraphSession, branch: str, base: str, actor: str | None) -> bool:
    name, counters = BranchName.parse(branch), Counters()
    if name in session.store.branch_names(counters):
        return False
    try:
        session.store.create_branch(name, source=BranchName.parse(base), actor=actor, counters=counters)
    except BranchExistsError:
        # Somebody else made it between the look and the attempt, which is just as good.
        return False
    return True


def _counts(loaded: Mapping[str, int]) -> list[dict[str, Any]]:
    return [{"type_name": name, "entities_loaded": count} for name, count in loaded.items()]


def _usage(message: str, value: str, expected: str) -> UsageError:
    return UsageError(
        message, details=BadValue(what="arguments", value=value, expected=expected), hint=f"give {expected}"
    )
