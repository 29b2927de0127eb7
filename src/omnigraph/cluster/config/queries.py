"""Stored queries of a graph of a config: where they are, and whether they fit the schema that it declares."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from omnigraph.catalog import Catalog
from omnigraph.cluster.config.files import read_named
from omnigraph.cluster.config.section import ConfigSection
from omnigraph.cluster.declaration import DeclaredQuery
from omnigraph.cluster.digests import file_digest
from omnigraph.ir.stored_queries import QueryProblem, QuerySource, examine_queries
from omnigraph.records import record
from omnigraph.values.counts import counted

_SUFFIX = ".gq"
_CODES = {
    "parse": "query_parse_error",
    "undeclared": "query_key_mismatch",
    "duplicate": "duplicate_query_name",
    "type": "query_typecheck_error",
}


@record
class _QueryFile:
    """A file of queries: as the config names it, where that stands, and which of its declarations are meant."""

    path: str
    file: Path
    place: str
    data: bytes
    only: frozenset[str] | None = None


def read_queries(graph: ConfigSection, graph_id: str, catalog: Catalog | None) -> dict[str, DeclaredQuery]:
    """Return the stored queries of a graph by name, without those that cannot be used.

    Args:
        graph: what the config says of the graph.
        graph_id: its id.
        catalog: its schema; None if that is broken, so that queries are parsed and not checked.
    """
    files = list(_files(graph, graph_id))
    examined = examine_queries(
        [QuerySource(name=one.path, text=one.data.decode(errors="surrogateescape"), only=one.only) for one in files],
        catalog,
    )
    for problem in examined.problems:
        _tell(graph, files, problem)
    if catalog is None and len(examined.queries):
        what = counted(len(examined.queries), "query", "queries")
        message = f"{what} of graph '{graph_id}' not checked: its schema cannot be used"
        graph.add("query_typecheck_skipped", message, "queries")
    by_path = {one.path: one for one in files}
    found = {}
    for query in examined.queries:
        source = by_path[query.source_name]
        found[query.name] = DeclaredQuery(
            name=query.name, path=source.path, file=source.file, data=source.data, digest=file_digest(source.data)
        )
    return found


def _tell(graph: ConfigSection, files: list[_QueryFile], problem: QueryProblem) -> None:
    if problem.is_warning:
        return
    where = problem.source_name if problem.place is None else f"{problem.source_name}:{problem.place.line}"
    if problem.kind == "undeclared":
        # It is the config that names what is not there.
        where = next(
            (one.place for one in files if one.path == problem.source_name and problem.query in (one.only or ())),
            where,
        )
    graph.folder.findings.add(_CODES[problem.kind], where, problem.message)


def _files(graph: ConfigSection, graph_id: str) -> Iterator[_QueryFile]:
    node = graph.get("queries")
    if node is None:
        return
    if isinstance(node.value, dict):
        for name, section in graph.sections("queries", ("file",)).items():
            path = section.text("file")
            if path is not None:
                yield from _file(graph, path, section.place_of("file"), frozenset({name}))
            elif section.get("file") is None:
                section.add("invalid_cluster_yaml", f"query '{name}' of graph '{graph_id}' has no file")
        return
    written = graph.texts("queries") if isinstance(node.value, tuple) else _only(graph)
    for path, place in written:
        if graph.folder.resolve(path).is_dir():
            yield from _directory(graph, path, place)
        else:
            yield from _file(graph, path, place, None)


def _only(graph: ConfigSection) -> tuple[tuple[str, str], ...]:
    text = graph.text("queries")
    return () if text is None else ((text, graph.place_of("queries")),)


def _directory(graph: ConfigSection, path: str, place: str) -> Iterator[_QueryFile]:
    findings, folder = graph.folder.findings, graph.folder.resolve(path)
    try:
        listed = sorted(one.name for one in folder.iterdir() if one.name.endswith(_SUFFIX) and not one.is_dir())
    except OSError as problem:
        why = (problem.strerror or "unreadable").lower()
        findings.add("query_dir_unreadable", place, f"cannot list directory '{path}': {why}")
        return
    if not listed:
        findings.add("query_dir_empty", place, f"directory '{path}' has no {_SUFFIX} files")
    for name in listed:
        yield from _file(graph, f"{path.rstrip('/')}/{name}", place, None)


def _file(graph: ConfigSection, path: str, place: str, only: frozenset[str] | None) -> Iterator[_QueryFile]:
    file = graph.folder.resolve(path)
    data = read_named(file)
    if isinstance(data, str):
        code = "query_dir_unreadable" if path.endswith("/") else "query_file_missing"
        graph.folder.findings.add(code, place, f"cannot read '{path}': {data}")
        return
    yield _QueryFile(path=path, file=file, place=place, data=data, only=only)
