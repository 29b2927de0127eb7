"""The options of the data source, read strictly: Spark gives nothing but texts, in any case."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal, NoReturn, cast, get_args

from omnigraph.errors import BadValue, SparkUnsupportedError, UsageError
from omnigraph.records import record
from omnigraph.store.location import Storage
from omnigraph.values import MAIN, check_choice, check_text

WriteMode = Literal["append", "overwrite", "merge", "apply"]
DeleteRule = Literal["cascade", "refuse"]

_KNOWN = frozenset(
    {
        "graph",
        "type",
        "branch",
        "snapshot",
        "columns",
        "query",
        "name",
        "params",
        "storage_options",
        "partitions",
        "pushdown",
        "mode",
        "actor",
        "message",
        "expected_head",
        "changes",
        "start",
        "max_commits",
        "app",
        "truncate",
        "on_delete",
        "wait_for_ends",
    }
)
# What Spark itself puts beside the options of a source.
_SPARKS_OWN = frozenset({"path", "checkpointlocation", "queryname"})
# What only the tables of a catalog have.
_TABLES_OWN = frozenset({"provider", "owner", "location", "external", "is_managed_location"})
_MOST = 100_000
_TRUTHS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


@record
class SourceOptions:
    """What a read or a write of the data source is about.

    Args:
        storage: where the graph lives; its options may hold credentials and are never shown.
        type_name: the type to read, write or follow.
        branch: the branch to read, write or follow.
        at: the state to read, as a query takes it; the newest of the branch when None.
        columns: which columns to read, all when None.
        query: the text of a read in the query language.
        name: which query of the text.
        params: the parameters of the query.
        partitions: how many partitions a read should have at least; chosen by the machine when None.
        pushdown: whether storage may decide filters; the frame must then be used by one query with one set of filters.
        mode: how a write meets rows that exist, when the option says so.
        actor: who writes.
        message: what the commit of a write says.
        expected_head: the commit that the branch must be at for a write.
        changes: whether the change feed is wanted.
        start: where a feed begins.
        max_commits: how many commits a micro-batch takes at most.
        app: what names a stream that writes.
        truncate: whether a write cuts instants that are finer than a millisecond, instead of refusing them.
        on_delete: what a write of a change log does with the edges of deleted nodes.
        wait_for_ends: how many seconds a write waits for nodes that its edges name, and that others are about to write.
        checkpoint: where Spark keeps the progress of a stream.
    """

    storage: Storage
    type_name: str | None = None
    branch: str = MAIN
    at: str | None = None
    columns: tuple[str, ...] | None = None
    query: str | None = None
    name: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    partitions: int | None = None
    pushdown: bool = False
    mode: WriteMode | None = None
    actor: str | None = None
    message: str | None = None
    expected_head: str | None = None
    changes: bool = False
    start: str = "now"
    max_commits: int = 128
    app: str | None = None
    truncate: bool = False
    on_delete: DeleteRule = "cascade"
    wait_for_ends: int = 0
    checkpoint: str | None = None

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> SourceOptions:
        """Return the options that Spark hands over.

        Raises:
            UsageError: one is missing, unknown or not of its form.
            SparkUnsupportedError: they are those of a table of a catalog.
        """
        options = {key.lower(): value for key, value in given.items()}
        _refuse_table(options)
        _refuse_unknown(options)
        for key, value in options.items():
            # Credentials may stand in this one, so that nothing of it is shown.
            if key != "storage_options":
                check_text(key, value)
        root = options.get("graph") or options.get("path")
        if not root:
            _refuse("graph", "", "the path or s3:// address of a graph")
        for one, other in (("snapshot", "branch"), ("query", "type"), ("query", "changes")):
            if one in options and other in options:
                _refuse(one, options[one], f"no option '{other}' with it")
        return cls(
            storage=Storage.open(root, _storage_options(options.get("storage_options"))),
            type_name=options.get("type"),
            branch=options.get("branch", MAIN),
            at=options.get("snapshot"),
            columns=_columns(options.get("columns")),
            query=options.get("query"),
            name=options.get("name"),
            params=_object("params", options.get("params")),
            partitions=_count("partitions", options.get("partitions")),
            pushdown=_truth("pushdown", options.get("pushdown")),
            mode=_mode(options.get("mode")),
            actor=options.get("actor"),
            message=options.get("message"),
            expected_head=options.get("expected_head"),
            changes=_truth("changes", options.get("changes")),
            start=options.get("start", "now"),
            max_commits=_count("max_commits", options.get("max_commits")) or 128,
            app=options.get("app"),
            truncate=_truth("truncate", options.get("truncate")),
            on_delete=_delete_rule(options.get("on_delete", "cascade")),
            wait_for_ends=_count("wait_for_ends", options.get("wait_for_ends")) or 0,
            checkpoint=options.get("checkpointlocation"),
        )

    def the_type(self) -> str:
        """Return the type that is asked for.

        Raises:
            UsageError: none is.
        """
        if self.type_name is None:
            _refuse("type", "", "the name of a type")
        return self.type_name


def _refuse_table(options: Mapping[str, str]) -> None:
    # A catalog adds what it knows of a table when it makes one, and forgets all options when the table is used.
    if _TABLES_OWN.isdisjoint(options) and any(not key.startswith("spark.") for key in options):
        return
    details = BadValue(what="table", value="omnigraph", expected="a temporary view, or the options graph and type")
    raise SparkUnsupportedError(
        "the format 'omnigraph' does not support catalog tables: a catalog does not store the "
        "options 'graph' and 'type'",
        details=details,
        hint="CREATE TEMPORARY VIEW name USING omnigraph OPTIONS (graph '…', type '…') makes a view for SELECT and"
        " INSERT INTO, omnigraph.spark.views(graph) one per type; df.write.format('omnigraph') takes the same options",
    )


def _refuse_unknown(options: Mapping[str, str]) -> None:
    for key in options:
        if key not in _KNOWN | _SPARKS_OWN and not key.startswith("spark."):
            near = difflib.get_close_matches(key[:200], sorted(_KNOWN), n=1)
            _refuse("option", key, f"{near[0]}, perhaps" if near else ", ".join(sorted(_KNOWN)))


def _columns(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = tuple(part.strip() for part in text.split(","))
    if not all(names) or len(set(names)) < len(names):
        _refuse("columns", text, "different names separated by commas")
    return names


def _mode(text: str | None) -> WriteMode | None:
    if text is None:
        return None
    check_choice("mode", text.lower(), get_args(WriteMode))
    return cast("WriteMode", text.lower())


def _delete_rule(text: str) -> DeleteRule:
    check_choice("on_delete", text.lower(), get_args(DeleteRule))
    return cast("DeleteRule", text.lower())


def _count(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    # Python refuses to read thousands of digits with an error of its own.
    is_short = len(text) <= len(str(_MOST))
    if not (is_short and text.isascii() and text.isdigit() and 0 < int(text) <= _MOST):
        _refuse(name, text, f"a number between 1 and {_MOST}")
    return int(text)


def _truth(name: str, text: str | None) -> bool:
    if text is None:
        return False
    if text.lower() not in _TRUTHS:
        _refuse(name, text, "true or false")
    return _TRUTHS[text.lower()]


def _object(name: str, text: str | None) -> Mapping[str, Any]:
    if text is None:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        _refuse(name, text, "a JSON object")
    return value


def _storage_options(text: str | None) -> Mapping[str, str]:
    try:
        value = {} if text is None else json.loads(text)
    except (TypeError, ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        # It may hold credentials, so nothing of it is shown.
        _refuse("storage_options", "(hidden)", "a JSON object of texts")
    return value


def _refuse(what: str, value: str, expected: str) -> NoReturn:
    details = BadValue(what=what, value=value[:200], expected=expected)
    if not value:
        raise UsageError(f"option '{what}' is missing", details=details, hint=f"give {expected}")
    if what == "option":
        raise UsageError(f"unknown option {value!r}", details=details, hint=f"expected {expected}")
    raise UsageError(f"invalid value {value[:200]!r} for option '{what}'", details=details)
