"""Two processes meet on a branch: whatever the order, no half branch, no lost branch, no write that vanishes."""

import itertools
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from omnigraph.errors import BranchMissingError
from omnigraph.runtime import Runtime
from omnigraph.values import MAIN, BranchName
from tests.auditor import audit
from tests.marks import first
from tests.multiprocess.branching import DONE, WRITTEN, act
from tests.multiprocess.ground import Ground
from tests.txn_graph import PERSON, init_graph, insert, node_rows, open_graph, read_ids
from tests.warm import PROJECT, WarmProcess

EXISTS, MISSING, IN_USE, CLOSING = "branch.exists", "branch.not_found", "branch.in_use", "branch.closing"
BOTH = pytest.mark.parametrize("start", first(1, ["threads", "processes"]), indirect=True)
THREADS = pytest.mark.parametrize("start", ["threads"], indirect=True)


@pytest.fixture
def ground(tmp_path):
    made = Ground(root=str(tmp_path / "g"), folder=str(tmp_path), settings={"durability": "relaxed"})
    init_graph(made.root)
    with open_graph(made.storage) as graph:
        insert(graph, PERSON, node_rows(["kept"]))
    made.save()
    return made


@pytest.fixture
def start(request, ground):
    """Start an act with failpoints on, in a thread or in a process of its own; the result waits for its outcome."""
    if request.param == "threads":
        with ThreadPoolExecutor(max_workers=2) as pool:
            yield lambda what, spec="": pool.submit(act, ground, what, _world(spec)).result
        return
    started, number = [], itertools.count()

    def start_process(what, spec=""):
        outcome = ground.path(f"{next(number)}.outcome")
        arguments = [str(ground.path("ground.json")), what, str(outcome)]
        process = WarmProcess(
            "tests.multiprocess.branching",
            arguments,
            cwd=PROJECT,
            env={**os.environ, "OMNIGRAPH_FAILPOINTS": spec},
            out=sys.__stdout__.fileno(),
            err=sys.__stderr__.fileno(),
        )
        started.append(process)

        def wait():
            assert process.wait(300) == 0
            return outcome.read_text(encoding="utf-8")

        return wait

    yield start_process
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()


@pytest.fixture
def gate(ground):
    """Return what makes a failpoint wait, and what waits until somebody is there."""
    return lambda name: Gate(ground.path(name))


class Gate:
    """A place where an act stops until it is let through."""

    def __init__(self, path):
        self._path = path

    def at(self, point):
        return f"{point}=pause:{self._path}"

    def wait(self):
        reached = self._path.with_name(f"{self._path.name}.reached")
        deadline = time.monotonic() + 300
        while not reached.exists():
            assert time.monotonic() < deadline, f"nobody came to {self._path.name}"
            time.sleep(0.005)

    def open(self):
        self._path.touch()


def prepare(ground, *branches):
    with open_graph(ground.storage) as graph:
        for name in branches:
            graph.create_branch(BranchName(name))
            insert(graph, PERSON, node_rows([f"on-{name}"]), branch=name)


def settled(ground):
    """The branches and their persons when everything is over; nothing may be left in flight."""
    assert audit(ground.root) == []
    with open_graph(ground.storage) as graph:
        found = {str(name): read_ids(graph, PERSON, name) for name in graph.branch_names()}
        assert graph._stores.control.list_keys("__recovery") == ()
    return found


class TestCreateAndCreate:
    @BOTH
    @pytest.mark.parametrize(("first", "second"), [("a", "a"), ("a", "a/b"), ("a/b", "a")])
    def test_the_one_that_writes_its_ref_first_wins(self, ground, start, gate, first, second):
        before = gate("before")
        slow = start(f"create:{first}", before.at("txn.branch.after_line"))
        before.wait()
        assert start(f"create:{second}")() == DONE
        before.open()
        assert slow() == EXISTS
        assert settled(ground) == {MAIN: ["kept"], second: ["kept"]}

    @BOTH
    def test_of_two_overlapping_names_that_are_written_at_once_one_stays(self, ground, start, gate):
        names = ("a", "a/b")
        checked, written = [gate(f"checked-{n}") for n in range(2)], [gate(f"written-{n}") for n in range(2)]
        outcomes = [
            start(f"create:{name}", f"{first.at('txn.branch.after_line')};{second.at('txn.branch.after_ref')}")
            for name, first, second in zip(names, checked, written, strict=True)
        ]
        for held in (checked, written):
            for one in held:
                one.wait()
            for one in held:
                one.open()
        assert sorted(outcome() for outcome in outcomes) == sorted([EXISTS, DONE])
        assert len(settled(ground)) == 2


class TestCreateAndDelete:
    @BOTH
    def test_a_source_that_goes_before_the_ref_is_written_takes_the_new_branch_with_it(self, ground, start, gate):
        prepare(ground, "source")
        before = gate("before")
        child = start("create:child:source", before.at("txn.branch.after_line"))
        before.wait()
        assert start("delete:source")() == DONE
        before.open()
        assert child() == MISSING
        assert settled(ground) == {MAIN: ["kept"]}

    @THREADS
    def test_a_ref_that_is_written_keeps_its_source(self, ground, start, gate):
        prepare(ground, "source")
        written = gate("written")
        child = start("create:child:source", written.at("txn.branch.after_ref"))
        written.wait()
        assert start("delete:source")() == IN_USE
        written.open()
        assert child() == DONE
        assert settled(ground)["child"] == ["kept", "on-source"]

    @BOTH
    @pytest.mark.parametrize("what", ["create:child:source", "tag:mark:source"])
    def test_nothing_begins_to_depend_on_a_source_that_is_about_to_end(self, ground, start, gate, what):
        prepare(ground, "source")
        checked = gate("checked")
        deletion = start("delete:source", checked.at("txn.branch_delete.before_end"))
        checked.wait()
        assert start(what)() == CLOSING
        checked.open()
        assert deletion() == DONE
        assert settled(ground) == {MAIN: ["kept"]}

    @THREADS
    @pytest.mark.parametrize(
        ("what", "point"), [("create:child:source", "txn.branch.after_ref"), ("tag:mark:source", "txn.tag.after_put")]
    )
    def test_a_deletion_that_has_only_claimed_gives_way(self, ground, start, gate, what, point):
        prepare(ground, "source")
        claimed, written = gate("claimed"), gate("written")
        deletion = start("delete:source", claimed.at("txn.branch_delete.after_claim"))
        claimed.wait()
        other = start(what, written.at(point))
        written.wait()
        claimed.open()
        assert deletion() == IN_USE
        written.open()
        assert other() == DONE
        assert settled(ground)["source"] == ["kept", "on-source"]

    @BOTH
    def test_a_branch_is_deleted_once_and_made_again_by_another(self, ground, start, gate):
        prepare(ground, "source")
        ended = gate("ended")
        slow = start("delete:source", ended.at("txn.branch_delete.after_end"))
        ended.wait()
        assert start("create:source")() == DONE
        assert start("write:source")() == DONE
        ended.open()
        assert slow() == DONE
        assert settled(ground) == {MAIN: ["kept"], "source": ["kept", WRITTEN]}


class TestWriteAndDelete:
    @BOTH
    @pytest.mark.parametrize("point", ["txn.claim.after_put", "txn.publish.before_cas"])
    def test_a_writer_inside_its_window_is_waited_for(self, ground, start, gate, point):
        prepare(ground, "source")
        inside = gate("inside")
        writer = start("write:source", inside.at(point))
        inside.wait()
        deletion = start("delete:source")
        inside.open()
        assert writer() == DONE
        assert deletion() == DONE
        assert settled(ground) == {MAIN: ["kept"]}

    @BOTH
    @pytest.mark.parametrize("point", ["txn.stage.after_files", "txn.claim.before_put"])
    def test_a_writer_without_a_claim_finds_the_branch_gone(self, ground, start, gate, point):
        prepare(ground, "source")
        outside = gate("outside")
        writer = start("write:source", outside.at(point))
        outside.wait()
        assert start("delete:source")() == DONE
        outside.open()
        assert writer() == MISSING
        assert settled(ground) == {MAIN: ["kept"]}

    @THREADS
    def test_a_writer_that_meets_a_deletion_finds_the_branch_gone(self, ground, start, gate):
        prepare(ground, "source")
        checked, staged = gate("checked"), gate("staged")
        deletion = start("delete:source", checked.at("txn.branch_delete.before_end"))
        checked.wait()
        writer = start("write:source", staged.at("txn.claim.before_put"))
        staged.wait()
        staged.open()
        checked.open()
        assert deletion() == DONE
        assert writer() == MISSING
        assert settled(ground) == {MAIN: ["kept"]}

    @THREADS
    def test_the_first_write_to_a_branch_that_was_deleted_meanwhile_is_refused(self, ground, start, gate):
        with open_graph(ground.storage) as graph:
            graph.create_branch(BranchName("source"))
        outside = gate("outside")
        writer = start("write:source", outside.at("txn.claim.before_put"))
        outside.wait()
        assert start("delete:source")() == DONE
        outside.open()
        assert writer() == MISSING
        assert settled(ground) == {MAIN: ["kept"]}
        with open_graph(ground.storage) as graph, pytest.raises(BranchMissingError):
            read_ids(graph, PERSON, "source")


def _world(spec):
    return Runtime.system({"OMNIGRAPH_FAILPOINTS": spec})
