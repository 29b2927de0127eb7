"""A merge or a revert in one process against a write in another."""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from omnigraph.values import BranchName
from tests.auditor import audit
from tests.merge_graph import DRAFT, PEOPLE, SEED, change, contents, history_of, put
from tests.session_graph import create_graph, open_session
from tests.warm import PROJECT, WarmProcess

PERSON = "node:Person"
_LONGEST_S = 300
# Before it holds the claim the other one may finish first; inside of its window it is the other one that waits.
BEFORE_CLAIM = [
    ("merge", "history.merge.after_capture"),
    ("merge", "txn.stage.after_files"),
    ("revert", "txn.stage.after_files"),
]
INSIDE = [("merge", "txn.commit.after_tables"), ("revert", "txn.claim.after_put")]


@pytest.fixture
def root(tmp_path):
    create_graph(tmp_path / "g", PEOPLE, SEED)
    with open_session(tmp_path / "g") as session:
        session.store.create_branch(BranchName(DRAFT))
        put(session, PERSON, {"Eve": {"name": "Eve", "age": 1}}, DRAFT)
        put(session, PERSON, {"Alice": {"name": "Alice", "age": 31}})
    return tmp_path / "g"


@pytest.fixture
def start(root):
    """Start a process that waits at a point; the result lets it go on and returns what it says."""
    started = []

    def begin(what, subject, point):
        gate = root.with_name("gate")
        said = root.with_name("said")
        with said.open("wb") as out:
            process = WarmProcess(
                "tests.multiprocess.merging",
                [str(root), what, subject],
                cwd=PROJECT,
                env={**os.environ, "OMNIGRAPH_FAILPOINTS": f"{point}=pause:{gate}"},
                out=out.fileno(),
                err=sys.__stderr__.fileno(),
            )
        started.append(process)
        until = time.monotonic() + _LONGEST_S
        while not gate.with_name("gate.reached").exists():
            assert time.monotonic() < until, "the process never came to its point"
            assert process.poll() is None, "the process ended before its point"
            time.sleep(0.005)

        def go_on():
            gate.touch()
            process.wait(_LONGEST_S)
            return said.read_text(encoding="utf-8")

        return go_on

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()


def _subject(root, what):
    with open_session(root, mode="read_only") as session:
        return DRAFT if what == "merge" else history_of(session)[0].id


@pytest.mark.parametrize(("what", "point"), BEFORE_CLAIM)
def test_a_write_that_comes_first_is_kept_and_the_merge_has_no_effect(root, start, what, point):
    subject = _subject(root, what)
    go_on = start(what, subject, point)
    with open_session(root) as session:
        put(session, PERSON, {"Bob": {"name": "Bob", "age": 7}})
        expected = contents(session)
        assert go_on() == "write.conflict"
        assert contents(session) == expected
    assert audit(str(root)) == []


@pytest.mark.parametrize(("what", "point"), INSIDE)
def test_a_write_that_comes_into_the_window_goes_on_upon_the_merge(root, start, what, point):
    subject = _subject(root, what)
    with open_session(root) as session, ThreadPoolExecutor(max_workers=1) as pool:
        before = session.snapshot().state.version
        go_on = start(what, subject, point)
        writing = pool.submit(change, session, 'insert Person { name: "Zoe" }')
        assert go_on() == "done"
        assert writing.result(_LONGEST_S).commit is not None
        people = contents(session)[PERSON]
        assert ("Eve" in people, "Zoe" in people) == (what == "merge", True)
        assert people["Alice"]["age"] == (31 if what == "merge" else 30)
        assert session.snapshot().state.version == before + 2
    assert audit(str(root)) == []
