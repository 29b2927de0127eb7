"""Names, texts, numbers and settings made to hurt: every public call works, or fails with an error of ours.

An error that is ours has a code other than ``internal``, can be written down, and leaves branches, tags and commits as
they were. Fixed values are tried in every run, and mixtures of them at random, many more in `make fuzz`.
"""

from __future__ import annotations

import dataclasses
import io
import json
import math
import os
import random
import tempfile
from functools import partial

import pytest

import omnigraph
from omnigraph.errors import OmnigraphError

pytestmark = [pytest.mark.more, pytest.mark.long]

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"
MIXTURES = 400 if LONG else 8
SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
ADD = "query add($n: String) { insert Person { name: $n } }"
FIND = "query all() { match { $p: Person } return { $p.name as name } }"

TEXTS = [
    "",
    " ",
    "\ud800",
    "a\udc00b",
    "a\0b",
    "a\nb",
    "\x7f",
    "..",
    "../../../../../up",
    "/",
    "a//b",
    "a/../b",
    ".hidden",
    "~",
    "@",
    "main@{0}",
    "main~99999999999999999999",
    "tag:",
    "*",
    "%00",
    "a b",
    "-x",
    "CON",
    "\u202e",
    "\ufeff",
    "é" * 100,
    "x" * 176,
    "x" * 201,
    "\U0001f600" * 60,
    "y" * 5000,
    "Permission denied",
]
OTHERS = [None, True, 7, -1, 1.5, math.nan, b"bytes", b"\xff", [], [None], {}, ("a",), object(), int]
NUMBERS = [
    *(0, -1, 1, 2**31, 2**63, 2**64, 10**30, -(10**30)),
    *(math.nan, math.inf, -math.inf, 0.5, True, False),
    *(None, "7", "", "nan", b"1", [], {}, object()),
]


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    settings = omnigraph.TxnSettings(durability="relaxed")
    with omnigraph.init(folder / "graph.omni", SCHEMA, settings=settings) as opened:
        opened.mutate(ADD, {"n": "ada"})
        opened.create_branch("side")
        opened.create_branch("schemas")
        opened.create_tag("first")
        yield opened


def _rows(folder):
    path = folder / "rows.jsonl"
    path.write_text('{"type":"Person","data":{"name":"ada"}}\n')
    return path


# The calls that take a text, by what it is to them.
TEXT_CALLS = {
    "branch": lambda graph, _, text: graph.branch(text),
    "create_branch": lambda graph, _, text: graph.create_branch(text),
    "create_branch at": lambda graph, folder, text: graph.create_branch("other", text),
    "create_branch actor": lambda graph, folder, text: graph.create_branch("other", actor=text),
    "delete_branch": lambda graph, _, text: graph.delete_branch(text),
    "tag": lambda graph, _, text: graph.create_tag(text),
    "tag at": lambda graph, folder, text: graph.create_tag("other", text),
    "tag message": lambda graph, folder, text: graph.create_tag("other", message=text),
    "delete_tag": lambda graph, _, text: graph.delete_tag(text),
    "at": lambda graph, _, text: graph.at(text),
    "commit": lambda graph, _, text: graph.get_commit(text),
    "query": lambda graph, _, text: graph.query(text),
    "query name": lambda graph, folder, text: graph.query(FIND, None, text),
    "query params": lambda graph, folder, text: graph.query(FIND, text),
    "explain": lambda graph, _, text: graph.explain(text),
    "mutate": lambda graph, _, text: graph.mutate(text),
    "mutate name": lambda graph, folder, text: graph.mutate(ADD, {"n": "bob"}, text),
    "mutate params": lambda graph, folder, text: graph.mutate(ADD, text),
    "mutate value": lambda graph, folder, text: graph.mutate(ADD, {"n": text}),
    "mutate actor": lambda graph, folder, text: graph.mutate(ADD, {"n": "bob"}, actor=text),
    "mutate expected_head": lambda graph, folder, text: graph.mutate(ADD, {"n": "bob"}, expected_head=text),
    "mutate_batch": lambda graph, folder, text: graph.mutate_batch(ADD, text),
    "load": lambda graph, _, text: graph.load(text),
    "load mode": lambda graph, folder, text: graph.load(_rows(folder), text),
    "load message": lambda graph, folder, text: graph.load(_rows(folder), "merge", message=text),
    "load expected_head": lambda graph, folder, text: graph.load(_rows(folder), "merge", expected_head=text),
    "apply_schema": lambda graph, _, text: graph.branch("schemas").apply_schema(text),
    "merge": lambda graph, _, text: graph.merge(text),
    "merge message": lambda graph, folder, text: graph.merge("side", message=text),
    "preview_merge": lambda graph, _, text: graph.preview_merge(text),
    "revert": lambda graph, _, text: graph.revert(text),
    "diff": lambda graph, _, text: graph.diff(text),
    "diff types": lambda graph, folder, text: graph.diff("main", types=text),
    "diff ids": lambda graph, folder, text: graph.diff("main", ids=[text]),
    "feed start": lambda graph, folder, text: list(graph.feed(text)),
    "feed types": lambda graph, folder, text: list(graph.feed("now", types=text)),
    "apply": lambda graph, folder, text: graph.apply({"source": text, "token": text}),
    "commit_changes": lambda graph, _, text: graph.commit_changes(text),
    "blame type": lambda graph, folder, text: graph.blame(text, "ada"),
    "blame id": lambda graph, folder, text: graph.blame("Person", text),
    "log after": lambda graph, folder, text: graph.log(after=text),
    "log actor": lambda graph, folder, text: graph.log(actor=text),
    "log operation": lambda graph, folder, text: graph.log(operation=text),
    "log type": lambda graph, folder, text: graph.log(type_name=text),
    "log since": lambda graph, folder, text: graph.log(since=text),
    "optimize": lambda graph, folder, text: graph.optimize([text]),
    "export types": lambda graph, folder, text: graph.export_stream(io.BytesIO(), types=[text]),
    "export format": lambda graph, folder, text: graph.export(folder / "out", text),
    "open": lambda graph, folder, text: omnigraph.open(text if not isinstance(text, str) else str(folder) + "/" + text),
    "open mode": lambda graph, folder, text: omnigraph.open(graph.uri, mode=text).close(),
}


# The calls that take a number.
NUMBER_CALLS = {
    "log limit": lambda graph, folder, number: graph.log(limit=number),
    "blame limit": lambda graph, folder, number: graph.blame("Person", "ada", limit=number),
    "cleanup keep": lambda graph, folder, number: graph.cleanup(keep=number),
    "cleanup older_than": lambda graph, folder, number: graph.cleanup(older_than=number),
    "to_networkx limit": lambda graph, folder, number: graph.to_networkx(limit=number),
}


SETTINGS = {
    omnigraph.LoadSettings: lambda graph, rows, given: graph.load(rows, "merge", settings=given),
    omnigraph.QueryOptions: lambda graph, _, given: graph.query(FIND, options=given).to_json(),
    omnigraph.PageLimits: lambda graph, _, given: list(graph.feed("beginning", limits=given)),
    omnigraph.ExportSettings: lambda graph, rows, given: graph.export(
        tempfile.mkdtemp(dir=rows.parent), settings=given
    ),
    omnigraph.TxnSettings: lambda graph, _, given: omnigraph.open(graph.uri, settings=given).close(),
    omnigraph.MaintenanceSettings: lambda graph, _, given: omnigraph.open(graph.uri, maintenance=given).close(),
    omnigraph.EmbeddingSettings: lambda graph, _, given: omnigraph.open(graph.uri, embedding=given).close(),
}


def _state(graph):
    """What an error may not change: the heads of all branches, and the tags."""
    return [(branch.name, branch.head.id) for branch in graph.branches()], graph.tags()


def _complaint(call, value):
    """Return what is wrong with how a call took a value, whether it worked; nothing is wrong with an error of ours."""
    try:
        call(value)
    except OmnigraphError as error:
        if error.code == "internal":
            return f"internal: {error}", False
        try:
            str(error).encode()
            json.dumps(error.to_json())
        except (UnicodeEncodeError, TypeError, ValueError) as other:
            return f"{error.code} cannot be written down: {other!r}", False
        return None, False
    except Exception as error:  # noqa: BLE001 - every other class is what this looks for
        return f"{type(error).__name__}: {error}", False
    return None, True


def _complaints(graph, call, values):
    found, any_worked, before = [], False, _state(graph)
    for value in values:
        head = graph.backend.engine.snapshot().state.version
        complaint, worked = _complaint(call, value)
        if complaint is None and not worked and graph.backend.engine.snapshot().state.version != head:
            complaint = "an error that changed the graph"
        if complaint is not None:
            found.append((repr(value)[:40], complaint[:120]))
        any_worked = any_worked or worked
    # Where nothing worked, nothing may have changed on any branch.
    if not any_worked and _state(graph) != before:
        found.append(("all", "errors that changed the graph"))
    return found


def _mixtures(seed):
    rng = random.Random(seed)  # noqa: S311 - the same mixtures in every run
    return ["".join(rng.choice(TEXTS)[:30] for _ in range(rng.randrange(1, 5))) for _ in range(MIXTURES)]


@pytest.mark.parametrize("name", TEXT_CALLS)
def test_text_made_to_hurt_is_taken_or_refused(graph, tmp_path, name):
    call = partial(TEXT_CALLS[name], graph, tmp_path)
    assert _complaints(graph, call, [*TEXTS, *OTHERS, *_mixtures(name)]) == []


@pytest.mark.parametrize("name", NUMBER_CALLS)
def test_number_made_to_hurt_is_taken_or_refused(graph, tmp_path, name):
    assert _complaints(graph, partial(NUMBER_CALLS[name], graph, tmp_path), NUMBERS) == []


@pytest.mark.parametrize(
    ("kind", "field"),
    [(kind, field.name) for kind in SETTINGS for field in dataclasses.fields(kind)],
    ids=lambda item: item if isinstance(item, str) else item.__name__,
)
def test_setting_made_to_hurt_is_taken_or_refused(graph, tmp_path, kind, field):
    rows, use = _rows(tmp_path), SETTINGS[kind]
    complaints = _complaints(
        graph, lambda value: use(graph, rows, kind(**{field: value})), [*NUMBERS, "Full", "\ud800", "a\0b"]
    )
    assert complaints == []


def test_graph_works_as_before_after_all_of_it(graph):
    graph.mutate(ADD, {"n": "after"})
    assert {"ada", "after"} <= {row["name"] for row in graph.query(FIND).to_arrow().to_pylist()}
