"""Small records beside the datasets, damaged in every way: what needs one fails loudly, and nothing else does.

The tables of the commit protocol's page are what these tests find.
"""

from __future__ import annotations

import json
import shutil
from functools import partial

import pytest

import omnigraph
from omnigraph.errors import OmnigraphError
from omnigraph.txn.stored_json import seal
from omnigraph.values.damage import DamagedRecord
from tests.auditor import audit
from tests.crash.test_damaged_claims import ADD, DYING, NAMES, SCHEMA, TEAMS, names, outcome, rows_of_page


def _newer(good):
    """What a later version could have written: a part more, or a higher format under a checksum."""
    said = json.loads(good)
    if "checksum" not in said:
        return json.dumps({**said, "surprise": 1}, separators=(",", ":")).encode()
    del said["checksum"]
    return seal(json.dumps({**said, "format": 99}, separators=(",", ":")).encode())


DAMAGES = {
    "empty": lambda good: b"",
    "truncated": lambda good: good[: len(good) // 2],
    "a flipped bit": lambda good: bytes([good[0] ^ 1]) + good[1:],
    "not JSON": lambda good: b"\xff\x00" * 20,
    "other JSON": lambda good: b'{"some":"thing"}',
    "a newer format": _newer,
    "another record": None,
    "missing": None,
}
# What is damaged, and the record whose bytes stand for those of another one.
OBJECTS = {
    "ref of the branch `draft`": ("__branches/draft/1.json", "__branches/other/1.json"),
    "tag `first`": ("__tags/first/1.json", "__tags/second/1.json"),
    "record of a merge": ("__merges/*.json", "__proposals/2/1.json"),
    "first event of proposal 1": ("__proposals/1/1.json", "__proposals/2/1.json"),
    "second event of proposal 1": ("__proposals/1/2.json", "__proposals/2/1.json"),
    "mark of a merge": ("__dependants/*/merge~*.json", None),
    "mark of an open proposal": ("__proposals/open/1.json", None),
    "number of the newest proposal": ("__proposals/recent", None),
}
COMMANDS = {
    "open for writing": lambda graph: None,
    "read main": lambda graph: graph.query(NAMES),
    "write main": lambda graph: graph.mutate(ADD, {"n": "x"}),
    "read `draft`": lambda graph: graph.branch("draft").query(NAMES),
    "write `draft`": lambda graph: graph.branch("draft").mutate(ADD, {"n": "x"}),
    "delete `draft`": lambda graph: graph.delete_branch("draft"),
    "write another branch": lambda graph: graph.branch("other").mutate(ADD, {"n": "x"}),
    "read another commit": lambda graph: graph.at(graph.branch("other").log(limit=1)[0].id).query(NAMES),
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
    "show another proposal": lambda graph: graph.proposals.get(2),
    "open a proposal": lambda graph: graph.proposals.open("other", title="again"),
    "list proposals": lambda graph: graph.proposals.list().damaged,
    "status": lambda graph: graph.status(),
    "repair": lambda graph: graph.repair().records,
    "optimize": lambda graph: graph.optimize(),
    "preview cleanup": lambda graph: graph.cleanup(keep=1),
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
        graph.proposals.open("draft", title="one").comment("why")
        graph.proposals.open("other", title="two")
    return root


def _damaged(template, root, name, damage):
    """Copy a graph, damage a record of it, and return its file."""
    shutil.copytree(template, root)
    pattern, other = OBJECTS[name]
    (path,) = root.glob(pattern)
    if damage == "missing":
        path.unlink()
    elif damage == "another record":
        path.write_bytes((root / other).read_bytes())
    else:
        path.write_bytes(DAMAGES[damage](path.read_bytes()))
    return path


def _run(template, root, name, damage, command):
    path = _damaged(template, root, name, damage)
    before = path.read_bytes() if path.exists() else None
    found = []

    def run():
        with omnigraph.open(str(root), settings=DYING) as graph:
            told = COMMANDS[command](graph)
            found.extend(told if isinstance(told, tuple) else ())

    told = outcome(run)
    shown = [one.file for one in found if isinstance(one, DamagedRecord)]
    assert set(shown) <= {str(path.relative_to(root))}
    if told != "works":
        assert (path.read_bytes() if path.exists() else None) == before
    shutil.rmtree(root)
    return "shows it" if shown else told


def _cells(template, root, name, damage):
    found = {command: _run(template, root, name, damage, command) for command in COMMANDS}
    failed = sorted(set(found.values()) - {"works", "shows it"})
    by_code = [f"`{code}`: {', '.join(c for c, told in found.items() if told == code)}" for code in failed]
    shown = [command for command, told in found.items() if told == "shows it"]
    return ["; ".join(by_code) or "nothing", ", ".join(shown) or "nothing"]


@pytest.mark.more
@pytest.mark.parametrize("name", OBJECTS)
def test_a_damaged_record_stops_what_needs_it_and_nothing_else(template, tmp_path, name):
    _, rows = rows_of_page("What each command does while a record is damaged:")
    assert _cells(template, tmp_path / "g", name, "truncated") == rows[name]


@pytest.mark.more
@pytest.mark.parametrize("name", OBJECTS)
def test_what_is_stopped_does_not_depend_on_the_damage(template, tmp_path, name):
    run = partial(_run, template, tmp_path / "g", name)
    for command in ("write main", "list branches", "list tags", "list proposals", "merge another branch", "cleanup"):
        told = run("truncated", command)
        for damage in ("empty", "a flipped bit", "not JSON", "other JSON", "a newer format", "another record"):
            if OBJECTS[name][1] is not None or damage not in {"another record", "a newer format"}:
                assert run(damage, command) == told, (damage, command)


@pytest.mark.more
@pytest.mark.parametrize("name", OBJECTS)
def test_a_missing_record_stops_what_the_page_says(template, tmp_path, name):
    _, rows = rows_of_page("What each command does while a record is missing:")
    assert _cells(template, tmp_path / "g", name, "missing") == rows[name]


def test_settling_comes_to_what_the_page_says(template, tmp_path):
    damages, rows = rows_of_page("What `repair --confirm` makes of a damaged record:")
    found = {
        name: [_settled(template, tmp_path / "g", name, damage) for damage in damages]
        for name, (_, other) in OBJECTS.items()
        if other is not None
    }
    assert found == rows


def _settled(template, root, name, damage):
    """Repair a graph; demand that nothing is lost but the record, and that everything works afterwards."""
    path = _damaged(template, root, name, damage)
    data = path.read_bytes() if path.exists() else None
    before = names(root, "main"), names(root, "other")
    with omnigraph.open(str(root), settings=DYING) as graph:
        shown = graph.repair().records
        done = graph.repair(confirm=True)
        assert [one.settlement for one in done.records] == [one.settlement for one in shown]
        assert [one.settlement for one in graph.repair().records] == [
            one.settlement for one in shown if one.settlement == "refused"
        ]
    told = "nothing"
    for one in done.records:
        told = one.settlement
        assert (one.file, done.is_refused) == (str(path.relative_to(root)), told == "refused")
        assert one.problem
        assert one.evidence
        if told == "refused":
            assert (one.is_settled, path.read_bytes()) == (False, data)
        else:
            assert one.is_settled
            assert data is None or (root / one.quarantine).read_bytes() == data
    if told != "refused":
        with omnigraph.open(str(root), settings=DYING) as graph:
            sound = [*graph.branches(), *graph.tags(), *graph.proposals.list(state="all")]
            assert not [one for one in sound if isinstance(one, DamagedRecord)]
            assert [branch.name for branch in graph.branches()] == ["main", "draft", "other"]
            assert names(root, "draft") == ["draft"]
            assert [one.number for one in graph.proposals.list(state="all")] == [2, 1]
            assert graph.cleanup(keep=1, dry_run=False).is_done
            graph.branch("draft").mutate(ADD, {"n": "later"})
            graph.merge("draft")
        assert audit(str(root), edges={}) == []
        assert names(root, "main", TEAMS) == sorted([*before[0], "draft", "later"])
    assert names(root, "other") == before[1]
    shutil.rmtree(root)
    return told


def test_a_rebuilt_ref_says_what_the_damaged_one_said(template, tmp_path):
    path = _damaged(template, tmp_path / "g", "ref of the branch `draft`", "truncated")
    with omnigraph.open(str(tmp_path / "g"), settings=DYING) as graph:
        graph.repair(confirm=True)
    good = json.loads((template / "__branches/draft/1.json").read_bytes())
    made = json.loads(path.read_bytes())
    apart = abs(made.pop("created_at_ms") - good.pop("created_at_ms"))
    assert (made, apart < 1000) == ({**good, "actor": None}, True)


def test_a_branch_of_a_damaged_branch_is_shown_and_both_are_rebuilt(template, tmp_path):
    root = shutil.copytree(template, tmp_path / "g")
    with omnigraph.open(str(root), settings=DYING) as graph:
        graph.create_branch("child", at="draft")
        before = [(one.name, one.head.id, one.parent, one.ahead, one.behind) for one in graph.branches()]
    (root / "__branches/draft/1.json").write_bytes(b"")
    with omnigraph.open(str(root), settings=DYING) as graph:
        main, child, draft, _ = graph.branches()
        assert (main.name, child.parent, child.ahead) == ("main", "draft", 0)
        assert isinstance(draft, DamagedRecord)
    (root / "__branches/child/1.json").write_bytes(b"")
    with omnigraph.open(str(root), settings=DYING) as graph:
        assert {one.settlement for one in graph.repair(confirm=True).records} == {"rebuilt"}
        assert [(one.name, one.head.id, one.parent, one.ahead, one.behind) for one in graph.branches()] == before


def test_a_ref_is_not_guessed_among_several_lines(template, tmp_path):
    root = shutil.copytree(template, tmp_path / "g")
    with omnigraph.open(str(root), settings=DYING) as graph:
        graph.create_branch("twin")
        graph.create_branch("other-twin")
    # A creator that died before its ref leaves a line.
    (root / "__branches/other-twin/1.json").unlink()
    for tree in root.rglob("other-twin.*"):
        tree.rename(tree.with_name(tree.name.replace("other-twin.", "twin.")))
    twin = root / "__branches/twin/1.json"
    good = twin.read_bytes()
    twin.write_bytes(b"")
    with omnigraph.open(str(root), settings=DYING) as graph:
        done = graph.repair(confirm=True)
    assert ([one.settlement for one in done.records], done.is_refused, twin.read_bytes()) == (["refused"], True, b"")
    # Bytes that name one of them decide.
    twin.write_bytes(good[:-5])
    with omnigraph.open(str(root), settings=DYING) as graph:
        assert [one.settlement for one in graph.repair(confirm=True).records] == ["rebuilt"]
        assert graph.branch("twin").log()[0].id == graph.log()[0].id


def test_a_claim_of_a_branch_whose_ref_is_damaged_does_not_keep_others_from_writing(template, tmp_path):
    path = _damaged(template, tmp_path / "g", "ref of the branch `draft`", "empty")
    good = json.loads((template / "__branches/draft/1.json").read_bytes())
    claim = tmp_path / "g" / "__recovery" / f"draft~{good['incarnation']}" / "9.json"
    claim.parent.mkdir(parents=True, exist_ok=True)
    claim.write_bytes(b"")
    with omnigraph.open(str(tmp_path / "g"), settings=DYING) as graph:
        graph.mutate(ADD, {"n": "x"})
        assert [one.settlement for one in graph.repair().records] == ["rebuilt"]
    assert (claim.exists(), path.read_bytes()) == (True, b"")


def test_a_commit_that_may_be_on_a_damaged_branch_is_not_said_to_be_missing(template, tmp_path):
    root = tmp_path / "g"
    with omnigraph.open(str(template), settings=DYING, mode="read_only") as graph:
        lost = graph.branch("draft").log(limit=1)[0].id
    _damaged(template, root, "ref of the branch `draft`", "empty")
    with omnigraph.open(str(root), settings=DYING) as graph:
        with pytest.raises(OmnigraphError, match="draft") as raised:
            graph.at(lost)
        assert raised.value.code == "manifest.corrupt"
        assert "repair" in raised.value.hint


def test_a_ref_of_a_long_name_is_rebuilt_by_what_was_written_to_its_line(tmp_path):
    root, long, other = tmp_path / "g", "ä" * 100, "ö" * 100
    with omnigraph.init(str(root), SCHEMA, settings=DYING) as graph:
        for name in (long, other):
            graph.create_branch(name).mutate(ADD, {"n": name[:1]})
    (root / f"__branches/{long}/1.json").unlink()
    (root / f"__branches/{other}/1.json").write_bytes(b"")
    with omnigraph.open(str(root), settings=DYING) as graph:
        assert outcome(lambda: graph.cleanup(keep=1, dry_run=False)) == "manifest.corrupt"
        assert [one.settlement for one in graph.repair(confirm=True).records] == ["rebuilt", "rebuilt"]
    assert (names(root, long), names(root, other)) == (["ä"], ["ö"])
