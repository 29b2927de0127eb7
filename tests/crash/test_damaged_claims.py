"""A claim that was damaged blocks its branch alone, and is settled without losing or doubling a write.

The tables of the commit protocol's page are what these tests find.
"""

from __future__ import annotations

import json
import logging
import shutil
from functools import partial
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import OmnigraphError
from omnigraph.runtime import Runtime
from omnigraph.store.control import ControlObjects
from omnigraph.store.location import Storage
from omnigraph.testing.s3 import FOREVER, Fault
from omnigraph.txn.claims import identity
from omnigraph.txn.settings import TxnSettings
from omnigraph.txn.stored_json import seal
from omnigraph.values import BranchName
from tests.auditor import audit
from tests.crash.later import Torn, tear_at
from tests.session import Session

PAGE = Path(__file__).parents[2] / "docs" / "dev" / "commit-protocol.md"
DYING = TxnSettings(durability="relaxed", claim_wait_s=0.5)
# Whoever cannot be looked at is presumed dead at once.
SETTINGS = TxnSettings(durability="relaxed", grace_s=0.0, claim_wait_s=0.5)
SCHEMA = "node Person { name: String @key }\nnode Team { name: String @key }\n"
ADD = "query a($n: String) { insert Person { name: $n } insert Team { name: $n } }"
# What a write has done when its process dies.
POINTS = {
    "nothing moved": "txn.claim.after_put",
    "all tables moved": "txn.commit.after_tables",
    "published": "txn.publish.after_cas",
}
NAMES = "query n() { match { $p: Person } return { $p.name as name } order { name } }"
TEAMS = "query n() { match { $p: Team } return { $p.name as name } order { name } }"


def _plan(good, **parts):
    plan = json.loads(good)
    del plan["checksum"]
    return json.dumps({**plan, **parts}, separators=(",", ":")).encode()


DAMAGES = {
    "empty": lambda good: b"",
    "truncated": lambda good: good[: len(good) // 2],
    "cut inside the checksum": lambda good: good[:-4],
    "something before and behind": lambda good: b"\xef\xbb\xbf" + good + b"\n\x00\x00",
    "not JSON": lambda good: b"\x00" * len(good),
    "other JSON": lambda good: b'{"some":"thing"}',
    "no checksum": _plan,
    "wrong checksum": lambda good: good.replace(b'"row_count":3', b'"row_count":4').replace(b"ann", b"eve"),
    "another branch in it": lambda good: seal(_plan(good, branch="other")),
    "another version in it": lambda good: seal(_plan(good, base_version=17)),
    "unknown parts": lambda good: _plan(good, surprise=1),
    "a newer format": lambda good: seal(_plan(good, format=99)),
}
WHOLE = ("cut inside the checksum", "something before and behind")


def expected(damage, state):
    """What settling comes to."""
    if damage == "a newer format":
        return "refused"
    if state == "published":
        return "published"
    return "forward" if damage in WHOLE and state == "all tables moved" else "back"


def _prepare(storage, point, branch):
    """A graph with two branches, and on one of them a claim of a process that is gone."""
    with omnigraph.init(storage.root, SCHEMA, settings=SETTINGS, storage_options=dict(storage.options)) as graph:
        graph.mutate(ADD, {"n": "a"})
        for name in ("draft", "other"):
            graph.create_branch(name).mutate(ADD, {"n": name[0]})
    runtime = tear_at(Runtime.system({}), point)
    with Session.open(storage, runtime=runtime, settings=DYING) as torn, pytest.raises(Torn):
        torn.mutate(ADD, {"n": "torn"}, branch=branch, actor="ann")


@pytest.fixture(scope="module")
def templates(tmp_path_factory):
    """Graphs on disk by what the dead writer had done, and by its branch."""
    made = {}
    with pytest.MonkeyPatch.context() as patched:
        # Of a machine that was started again since.
        patched.setattr(identity, "_host", lambda: "here/boot-before/pid")
        for branch in ("draft", "main"):
            for state, point in POINTS.items():
                made[state, branch] = tmp_path_factory.mktemp("damaged") / "g"
                _prepare(Storage.open(str(made[state, branch])), point, branch)
    return made


@pytest.fixture
def place(templates, tmp_path):
    """Makes a graph whose claim is damaged; returns its root, the key and the damaged bytes."""
    made = []

    def make(damage, state, branch="draft"):
        root = Path(shutil.copytree(templates[state, branch], tmp_path / f"g{len(made)}"))
        (file,) = (root / "__recovery").rglob("*.json")
        file.write_bytes(DAMAGES[damage](file.read_bytes()))
        made.append(root)
        return root, file

    return make


def opened(root, settings=SETTINGS, **options):
    return omnigraph.open(str(root), settings=settings, **options)


def outcome(run):
    """``works``, or the code that it fails with."""
    try:
        run()
    except OmnigraphError as error:
        return error.code
    return "works"


def told(graph, branch, query=NAMES):
    return [row["name"] for row in graph.branch(branch).query(query)]


def names(root, branch, query=NAMES):
    with opened(root, mode="read_only") as graph:
        return told(graph, branch, query)


def _write(root, branch):
    with opened(root, DYING) as graph:
        graph.branch(branch).mutate(ADD, {"n": "later"})


def _with_graph(root, act, mode="read_write"):
    with opened(root, DYING, mode=mode) as graph:
        return act(graph)


# What is run on a graph whose branch ``draft`` has a damaged claim.
COMMANDS = {
    "open for reading": lambda root: names(root, "draft"),
    "open for writing": lambda root: opened(root).close(),
    "write on the branch": lambda root: _write(root, "draft"),
    "write on another branch": lambda root: _write(root, "other"),
    "merge other branches": lambda root: _with_graph(root, lambda graph: graph.merge("other")),
    "merge from the branch": lambda root: _with_graph(root, lambda graph: graph.merge("draft")),
    "list branches": lambda root: _with_graph(root, lambda graph: graph.branches()),
    "create a branch from it": lambda root: _with_graph(root, lambda graph: graph.create_branch("new", at="draft")),
    "delete the branch": lambda root: _with_graph(root, lambda graph: graph.delete_branch("draft")),
    "delete another branch": lambda root: _with_graph(root, lambda graph: graph.delete_branch("other")),
    "status": lambda root: _with_graph(root, lambda graph: graph.branch("draft").status(), "read_only"),
    "repair": lambda root: _with_graph(root, lambda graph: graph.branch("draft").repair()),
    "repair another branch": lambda root: _with_graph(root, lambda graph: graph.branch("other").repair(confirm=True)),
    "optimize the branch": lambda root: _with_graph(root, lambda graph: graph.branch("draft").optimize()),
    "optimize another branch": lambda root: _with_graph(root, lambda graph: graph.branch("other").optimize()),
    "cleanup, shown": lambda root: _with_graph(root, lambda graph: graph.cleanup(keep=1)),
    "cleanup": lambda root: _with_graph(root, lambda graph: graph.cleanup(keep=1, dry_run=False)),
}


def rows_of_page(section):
    """The cells of the table below a heading of the page, first column as key."""
    lines = PAGE.read_text(encoding="utf-8").partition(f"\n{section}\n\n")[2].splitlines()
    rows = [line for line in lines[: lines.index("", 1)] if line.startswith("|")] if lines[0].startswith("|") else []
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return cells[0][1:], {row[0]: row[1:] for row in cells[2:]}


def test_every_command_does_with_a_damaged_claim_what_the_page_says(templates, place):
    states, rows = rows_of_page("What each command does while the branch `draft` has a damaged claim:")
    found = {
        name: [outcome(partial(command, place("truncated", state)[0])) for state in states]
        for name, command in COMMANDS.items()
    }
    assert found == rows


@pytest.mark.more
@pytest.mark.parametrize("damage", DAMAGES)
def test_what_blocks_a_branch_does_not_depend_on_the_damage(place, damage):
    _, rows = rows_of_page("What each command does while the branch `draft` has a damaged claim:")
    for name, command in COMMANDS.items():
        for number, state in enumerate(POINTS):
            root, file = place(damage, state)
            said = rows[name][number]
            assert outcome(partial(command, root)) == said, (name, state)
            if said != "works":
                assert file.exists()


# Damage of every kind where it decides most, and one of each outcome wherever the writer died.
CHOSEN = {(damage, "all tables moved") for damage in DAMAGES} | {
    (damage, state) for damage in ("truncated", *WHOLE, "a newer format") for state in POINTS
}
OTHERS = {(damage, state) for damage in DAMAGES for state in POINTS} - CHOSEN


def test_the_page_says_what_settling_comes_to():
    states, rows = rows_of_page("What `repair --confirm` makes of it:")
    assert rows == {damage: [expected(damage, state) for state in states] for damage in DAMAGES}


@pytest.mark.parametrize(
    "cases", [CHOSEN, pytest.param(OTHERS, marks=pytest.mark.more)], ids=["one of each outcome", "others"]
)
def test_settling_comes_to_what_the_page_says(place, cases):
    found = {(damage, state): _settle(*place(damage, state), state) for damage, state in sorted(cases)}
    assert found == {(damage, state): expected(damage, state) for damage, state in cases}


def _settle(root, file, state, branch="draft"):
    """Repair a branch, and demand that nothing is lost, doubled or left; return what the claim came to."""
    data = file.read_bytes()
    with opened(root) as graph:
        before = told(graph, branch)
        (shown,) = graph.branch(branch).repair().damaged
        assert file.read_bytes() == data
        assert (shown.branch, shown.file, shown.is_settled) == (branch, str(file.relative_to(root)), False)
        assert shown.problem
        assert shown.evidence.startswith("version") or shown.settlement == "refused"
        done = graph.branch(branch).repair(confirm=True)
    (claim,) = done.damaged
    assert claim.settlement == shown.settlement
    if claim.settlement == "refused":
        assert (claim.is_settled, done.is_refused, file.read_bytes()) == (False, True, data)
        return claim.settlement
    assert (claim.is_settled, done.is_refused, list((root / "__recovery").rglob("*.json"))) == (True, False, [])
    assert (root / claim.kept).read_bytes() == data
    with opened(root, mode="read_only") as graph:
        after, teams = told(graph, branch), told(graph, branch, TEAMS)
    assert after == (sorted({*before, "torn"}) if claim.settlement == "forward" else before)
    assert ("torn" in after) == (claim.settlement == "forward" or state == "published")
    assert teams == after
    _write(root, branch)
    with opened(root) as graph:
        assert told(graph, branch) == sorted([*after, "later"])
        assert graph.branch(branch).repair().damaged == ()
    assert audit(str(root), edges={}) == []
    return claim.settlement


@pytest.mark.parametrize("state", POINTS)
def test_main_is_settled_alike(place, state):
    assert _settle(*place("truncated", state, "main"), state, "main") == expected("truncated", state)


def test_opening_says_which_branch_is_blocked_and_the_others_are_recovered(place, caplog, monkeypatch):
    root, file = place("empty", "all tables moved")
    with monkeypatch.context() as patched:
        patched.setattr(identity, "_host", lambda: "here/boot-before/pid")
        runtime = tear_at(Runtime.system({}), "txn.commit.after_tables")
        with Session.open(Storage.open(str(root)), runtime=runtime, settings=DYING) as torn, pytest.raises(Torn):
            torn.mutate(ADD, {"n": "sound"}, branch="other")
    with caplog.at_level(logging.WARNING):
        caplog.clear()
        opened(root).close()
    assert [record.message for record in caplog.records if "cannot be written to" in record.message] == [
        f"branch 'draft' cannot be written to: cannot read sidecar '{file.relative_to(root)}'; run repair on it"
    ]
    assert list((root / "__recovery").rglob("*.json")) == [file]
    assert names(root, "other") == ["a", "o", "sound"]


def test_of_two_claims_of_a_branch_the_sound_one_is_recovered(place):
    root, file = place("empty", "published")
    number = int(file.name.removesuffix(".json"))
    with (
        pytest.raises(Torn),
        Session.open(
            Storage.open(str(root)), runtime=tear_at(Runtime.system({}), "txn.publish.after_cas"), settings=DYING
        ) as torn,
    ):
        torn.mutate(ADD, {"n": "sound"}, branch="draft")
    assert file.with_name(f"{number + 1}.json").exists()
    opened(root).close()
    assert [path.name for path in file.parent.glob("*.json")] == [file.name]
    assert "sound" in names(root, "draft")


def test_a_damaged_sign_of_life_blocks_nothing(place):
    root, file = place("something before and behind", "all tables moved")
    file.write_bytes(file.read_bytes()[3:-3])
    number = file.name.removesuffix(".json")
    for name, data in (("renewed", b""), ("takeover-1", b"\xff not"), ("takeover-2", b"{}")):
        file.with_name(f"{number}.{name}.json").write_bytes(data)
    opened(root).close()
    assert list(file.parent.glob("*.json")) == []
    assert "torn" in names(root, "draft")
    assert audit(str(root), edges={}) == []


def test_a_claim_beyond_the_next_version_is_set_aside_only_if_nothing_moved(place):
    root, file = place("truncated", "nothing moved")
    number = int(file.name.removesuffix(".json"))
    beyond = file.rename(file.with_name(f"{number + 3}.json"))
    _write(root, "draft")
    with opened(root) as graph:
        (claim,) = graph.branch("draft").repair(confirm=True).damaged
    assert (claim.settlement, claim.is_settled, beyond.exists()) == ("set_aside", True, False)
    root, file = place("truncated", "all tables moved")
    beyond = file.rename(file.with_name(f"{number + 3}.json"))
    with opened(root) as graph:
        (claim,) = graph.branch("draft").repair(confirm=True).damaged
    assert (claim.settlement, beyond.exists()) == ("refused", True)


def test_a_version_that_was_acknowledged_and_is_gone_is_not_built_upon(place):
    root, file = place("truncated", "nothing moved")
    file.with_suffix(".acknowledged").touch()
    with opened(root) as graph:
        done = graph.branch("draft").repair(confirm=True)
    assert (done.is_refused, file.exists()) == (True, True)


@pytest.mark.parametrize(
    "point",
    [
        "txn.settle.after_keep",
        "txn.recover.after_classify",
        "txn.commit.after_tables",
        "txn.publish.after_cas",
        "txn.recover.after_publish",
        "txn.recover.after_audit",
    ],
)
@pytest.mark.parametrize("state", ["all tables moved", "published"])
def test_a_repair_that_dies_is_done_again(place, state, point):
    root = place("truncated", state)[0]
    before = names(root, "draft")
    runtime = Runtime.system({})

    def die():
        raise Torn

    runtime.failpoints.enable(point, die)
    with Session.open(Storage.open(str(root)), runtime=runtime, settings=SETTINGS) as session:
        try:
            session.repair(branch="draft", confirm=True)
        except Torn:
            pass
        else:
            assert state == "published"
    with opened(root) as graph:
        graph.branch("draft").repair(confirm=True)
        assert graph.branch("draft").repair().damaged == ()
    assert names(root, "draft") == before
    _write(root, "draft")
    assert audit(str(root), edges={}) == []


def test_two_repairs_at_once_settle_a_claim_once(place):
    root = place("truncated", "all tables moved")[0]
    runtime = Runtime.system({})
    other = Session.open(Storage.open(str(root)), settings=SETTINGS)

    def meet():
        runtime.failpoints.disable("txn.recover.after_classify")
        assert other.repair(branch="draft", confirm=True).damaged[0].is_settled
        other.mutate(ADD, {"n": "between"}, branch="draft")

    runtime.failpoints.enable("txn.recover.after_classify", meet)
    with Session.open(Storage.open(str(root)), runtime=runtime, settings=SETTINGS) as session:
        session.repair(branch="draft", confirm=True)
    other.close()
    assert names(root, "draft") == ["a", "between", "d"]
    assert audit(str(root), edges={}) == []


def test_the_claim_of_a_deletion_that_died_is_set_aside_and_the_branch_stays_gone(tmp_path):
    root = tmp_path / "g"
    storage = Storage.open(str(root))
    with omnigraph.init(str(root), SCHEMA, settings=SETTINGS) as graph:
        graph.create_branch("draft").mutate(ADD, {"n": "d"})
    stale = omnigraph.open(str(root), settings=DYING)
    stale.branch("draft").query(NAMES)
    with (
        pytest.raises(Torn),
        Session.open(
            storage, runtime=tear_at(Runtime.system({}), "txn.branch_delete.after_end"), settings=DYING
        ) as torn,
    ):
        torn.store.delete_branch(BranchName("draft"))
    (file,) = (root / "__recovery").rglob("*.json")
    file.write_bytes(b"")
    with opened(root) as graph:
        (claim,) = graph.repair(confirm=True).damaged
        assert (claim.settlement, claim.is_settled, file.exists()) == ("set_aside", True, False)
        assert outcome(lambda: stale.branch("draft").mutate(ADD, {"n": "late"})) == "branch.not_found"
        graph.create_branch("draft").mutate(ADD, {"n": "again"})
        assert graph.cleanup(keep=1, dry_run=False)
    stale.close()
    assert names(root, "draft") == ["again"]


def test_a_claim_that_may_not_be_read_blocks_its_branch_alone_and_is_left_to_those_who_may(clean_s3_endpoint):
    endpoint = clean_s3_endpoint
    storage = Storage.open(endpoint.fresh_prefix(), endpoint.storage_options_without_retries)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(identity, "_host", lambda: "elsewhere")
        _prepare(storage, POINTS["all tables moved"], "draft")
    (key,) = ControlObjects(storage).list_keys("__recovery")
    endpoint.add_fault(Fault(action="error", status=403, operation="GET", key=f"{key}$", times=FOREVER))
    options = {"settings": SETTINGS, "storage_options": dict(storage.options)}
    with omnigraph.open(storage.root, **options) as graph:
        graph.branch("other").mutate(ADD, {"n": "x"})
        assert outcome(lambda: graph.branch("draft").mutate(ADD, {"n": "x"})) == "storage.denied"
        done = graph.branch("draft").repair(confirm=True)
        assert ([claim.settlement for claim in done.damaged], done.is_refused) == (["refused"], True)
    endpoint.clear_faults()
    assert ControlObjects(storage).list_keys("__recovery") == (key,)
    with omnigraph.open(storage.root, **options) as graph:
        graph.branch("draft").repair(confirm=True)
        assert [row["name"] for row in graph.branch("draft").query(NAMES)] == ["a", "d", "torn"]
