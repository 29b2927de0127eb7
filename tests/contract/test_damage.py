"""Damage is told as damage: whatever happens to a stored object, a caller gets right data or an error of ours."""

from __future__ import annotations

import io
import os
import re
import shutil

import pytest

import omnigraph
from omnigraph.engine.maintenance.auto import MaintenanceSettings
from omnigraph.errors import OmnigraphError, StorageCorruptError
from omnigraph.txn.settings import TxnSettings
from tests.marks import first

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"
OPTIONS = {
    "settings": TxnSettings(durability="relaxed"),
    "maintenance": MaintenanceSettings(auto_every=0, unnamed_age_s=0, settle_s=0),
}
SCHEMA = "node Person { name: String @key  age: I32? @index }\nedge Knows: Person -> Person"
ADD = "query a($n: String, $a: I32) { insert Person { name: $n, age: $a } }"
EVERYBODY = "query q() { match { $p: Person } return { $p.name, $p.age } order { $p.name } }"
FRIENDS = 'query q() { match { $p: Person { name: "p3" } $p knows $f } return { $f.name } }'
# One object of each kind, by what its key looks like; the newest manifest version has tests of its own.
KINDS = {
    "an older manifest version": r"__manifest/_versions/18446744073709551611\.manifest",
    "manifest rows": r"__manifest/data/.*",
    "a branch's manifest version": r"__manifest/tree/.*/_versions/.*\.manifest",
    "a branch's manifest rows": r"__manifest/tree/.*/data/.*",
    "a transaction of the manifest": r"__manifest/_transactions/.*",
    "a table version": r"nodes/[^/]*/_versions/.*\.manifest",
    "table rows": r"nodes/[^/]*/data/.*",
    "a deletion file": r"nodes/[^/]*/_deletions/.*",
    "an index file": r"nodes/[^/]*/_indices/.*page_lookup.*",
    "a transaction of a table": r"nodes/[^/]*/_transactions/.*",
    "a fork's version": r"nodes/[^/]*/tree/.*/_versions/.*\.manifest",
    "a fork's rows": r"nodes/[^/]*/tree/.*/data/.*",
    "a fork's ref": r"nodes/[^/]*/_refs/.*",
    "a branch ref": r"__branches/.*",
    "a tag": r"__tags/.*",
}
DAMAGES = {
    "emptied": lambda data: b"",
    "cut in half": lambda data: data[: len(data) // 2],
    "cut by one": lambda data: data[:-1],
    "zeroed": lambda data: bytes(len(data)),
    "flipped at its beginning": lambda data: bytes(byte ^ 0xFF for byte in data[:8]) + data[8:],
    "flipped at its end": lambda data: data[:-12] + bytes(byte ^ 0xFF for byte in data[-12:]),
}


def _export(graph):
    target = io.BytesIO()
    graph.export_stream(target)
    return sorted(target.getvalue().splitlines())


# What is gone without a trace was never there; the newest version of a manifest has tests of its own.
UNKNOWN_WHEN_GONE = {"a branch ref", "a tag", "a branch's manifest version"}
READS = {
    "a query": lambda graph: graph.query(EVERYBODY).rows(),
    "a look-up": lambda graph: graph.query(FRIENDS).rows(),
    "a query of a branch": lambda graph: graph.branch("draft").query(EVERYBODY).rows(),
    "an export": _export,
    "a diff": lambda graph: str(graph.branch("draft").diff("main")),
    "branches": lambda graph: [status.name for status in graph.branches()],
    "tags": lambda graph: [tag.name for tag in graph.tags()],
}
WORK = {
    "a status": lambda graph: graph.status(),
    "a look at cleanup": lambda graph: graph.cleanup(keep=1),
    "an insert": lambda graph: graph.mutate(ADD, {"n": "new", "a": 1}),
    "an optimize": lambda graph: graph.optimize(),
    "a merge": lambda graph: graph.merge("draft"),
}


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    root = tmp_path_factory.mktemp("damage") / "original"
    with omnigraph.init(str(root), SCHEMA, **OPTIONS) as graph:
        graph.mutate_batch(ADD, [{"n": f"p{number}", "a": number} for number in range(20)])
        graph.mutate('query k() { insert Knows { from: "p3", to: "p4" } }')
        graph.optimize()
        graph.mutate('query d() { delete Person where name = "p9" }')
        draft = graph.create_branch("draft")
        draft.mutate(ADD, {"n": "drafted", "a": 1})
        graph.create_tag("start")
        graph.mutate(ADD, {"n": "later", "a": 1})
    return root


@pytest.fixture(scope="module")
def expected(original):
    with omnigraph.open(str(original), mode="read_only", **OPTIONS) as graph:
        return {name: read(graph) for name, read in READS.items()}


def _objects(root, kind):
    keys = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    found = [key for key in keys if re.fullmatch(KINDS[kind], key)]
    assert found, kind
    return found if LONG else found[:1]


def _checked(error):
    """Refuse an error that blames us, or that promises that asking again could help."""
    assert error.code not in {"internal", "storage.unavailable", "storage.outcome_unknown"}, error
    return error


def _check(name, call, graph, expected):
    """Return the error, if any, of a call that must answer rightly or fail with one of ours."""
    try:
        answer = call(graph)
    except OmnigraphError as error:
        return _checked(error)
    assert name not in expected or answer == expected[name], name
    return None


def _run(root, expected):
    errors = []
    for mode, calls in (("read_only", READS), ("read_write", WORK)):
        try:
            graph = omnigraph.open(str(root), mode=mode, **OPTIONS)
        except OmnigraphError as error:
            errors.append(_checked(error))
            continue
        with graph:
            found = (_check(name, call, graph, expected) for name, call in calls.items())
            errors += [error for error in found if error is not None]
    return errors


@pytest.mark.parametrize("damage", first(1, DAMAGES if LONG else ("cut in half", "zeroed", "flipped at its beginning")))
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_object_gives_right_data_or_says_what_is_damaged(original, expected, tmp_path, kind, damage):
    for number, key in enumerate(_objects(original, kind)):
        root = tmp_path / str(number)
        shutil.copytree(original, root)
        path = root / key
        path.write_bytes(DAMAGES[damage](path.read_bytes()))
        for error in _run(root, expected):
            if isinstance(error, StorageCorruptError):
                assert error.details.location.split("/")[0] == key.split("/")[0], error
                assert error.details.location in error.message


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in UNKNOWN_WHEN_GONE])
def test_an_object_that_is_gone_gives_right_data_or_is_named(original, expected, tmp_path, kind):
    for number, key in enumerate(_objects(original, kind)):
        root = tmp_path / str(number)
        shutil.copytree(original, root)
        (root / key).unlink()
        _run(root, expected)


def test_the_file_of_damaged_rows_is_named_although_lance_does_not_name_it(original, tmp_path):
    root = tmp_path / "g"
    shutil.copytree(original, root)
    (key,) = _objects(original, "table rows")[:1]
    (root / key).write_bytes((root / key).read_bytes()[:-1])
    with omnigraph.open(str(root), mode="read_only", **OPTIONS) as graph, pytest.raises(StorageCorruptError) as told:
        graph.query(EVERYBODY)
    assert told.value.details.location == key


def test_a_cleanup_over_a_missing_table_version_names_the_table(original, tmp_path):
    root = tmp_path / "g"
    shutil.copytree(original, root)
    newest = min((root / "nodes").glob("*/_versions/*.manifest"))
    newest.unlink()
    with omnigraph.open(str(root), **OPTIONS) as graph, pytest.raises(StorageCorruptError) as told:
        graph.cleanup(keep=1)
    assert told.value.details.location == str(newest.parent.parent.relative_to(root))
