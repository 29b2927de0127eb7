"""Small records beside the datasets, damaged in every way: what needs one fails loudly, and nothing else does.

The table of the commit protocol's page is what this test finds.
"""

from __future__ import annotations

import shutil
from functools import partial

import pytest

import omnigraph
from tests.crash.test_damaged_claims import ADD, DYING, NAMES, SCHEMA, outcome, rows_of_page

pytestmark = pytest.mark.more
DAMAGES = {
    "empty": lambda good: b"",
    "truncated": lambda good: good[: len(good) // 2],
    "not JSON": lambda good: b"\xff\x00" * 20,
    "other JSON": lambda good: b'{"some":"thing"}',
}
OBJECTS = {
    "ref of the branch `draft`": "__branches/draft/1.json",
    "tag `first`": "__tags/first/1.json",
    "record of a merge": "__merges/*.json",
    "first event of proposal 1": "__proposals/1/1.json",
    "mark of a merge": "__dependants/*/merge~*.json",
    "mark of an open proposal": "__proposals/open/1.json",
    "number of the newest proposal": "__proposals/recent",
}
COMMANDS = {
    "open for writing": lambda graph: None,
    "read main": lambda graph: graph.query(NAMES),
    "write main": lambda graph: graph.mutate(ADD, {"n": "x"}),
    "read `draft`": lambda graph: graph.branch("draft").query(NAMES),
    "write `draft`": lambda graph: graph.branch("draft").mutate(ADD, {"n": "x"}),
    "delete `draft`": lambda graph: graph.delete_branch("draft"),
    "write another branch": lambda graph: graph.branch("other").mutate(ADD, {"n": "x"}),
    "merge another branch": lambda graph: graph.merge("other"),
    "delete another branch": lambda graph: graph.delete_branch("other"),
    "list branches": lambda graph: graph.branches(),
    "create a branch": lambda graph: graph.create_branch("new"),
    "read tag `first`": lambda graph: graph.at("tag:first"),
    "delete tag `first`": lambda graph: graph.delete_tag("first"),
    "read another tag": lambda graph: graph.at("tag:second"),
    "create a tag": lambda graph: graph.create_tag("third"),
    "list tags": lambda graph: graph.tags(),
    "show proposal 1": lambda graph: graph.proposals.get(1),
    "open a proposal": lambda graph: graph.proposals.open("other", title="again"),
    "list proposals": lambda graph: list(graph.proposals.list()),
    "status": lambda graph: graph.status(),
    "repair": lambda graph: graph.repair(confirm=True),
    "optimize": lambda graph: graph.optimize(),
    "cleanup": lambda graph: graph.cleanup(keep=1, dry_run=False),
}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    root = tmp_path_factory.mktemp("records") / "g"
    with omnigraph.init(str(root), SCHEMA, settings=DYING) as graph:
        for name in ("draft", "other", "merged"):
            graph.create_branch(name).mutate(ADD, {"n": name})
        graph.merge("merged")
        graph.delete_branch("merged")
        graph.create_tag("first")
        graph.create_tag("second")
        graph.proposals.open("draft", title="one")
    return root


def _run(template, root, file, damage, command):
    shutil.copytree(template, root)
    (path,) = root.glob(file)
    path.write_bytes(damage(path.read_bytes()))
    damaged = path.read_bytes()

    def run():
        with omnigraph.open(str(root), settings=DYING) as graph:
            command(graph)

    told = outcome(run)
    assert told in {"works", "manifest.corrupt"}
    if told != "works":
        assert path.read_bytes() == damaged
    shutil.rmtree(root)
    return told


@pytest.mark.parametrize("name", OBJECTS)
def test_a_damaged_record_stops_what_needs_it_and_nothing_else(template, tmp_path, name):
    _, rows = rows_of_page("What fails with `manifest.corrupt` while a record is damaged, and leaves it as it is:")
    # One damage is tried with every command, and every other one with those that fail and one that does not.
    first, *others = DAMAGES.values()
    run = partial(_run, template, tmp_path / "g", OBJECTS[name])
    failed = [told for told, command in COMMANDS.items() if run(first, command) != "works"]
    assert rows[name] == [", ".join(failed) or "nothing"]
    for damage in others:
        assert [told for told in failed if run(damage, COMMANDS[told]) != "works"] == failed
        assert run(damage, COMMANDS["write main"]) == "works"
