"""An exception at any line of the queue, the publisher and what closes a graph: it disables nothing.

Interrupts come where Python lets them, and that may be anywhere. Whatever line they meet, on whichever thread, the next
write of the same process goes through, acknowledged rows are there, closing works and leaves no claim behind.
"""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from omnigraph.errors import InternalError
from omnigraph.runtime import Runtime, calls, start_thread
from omnigraph.runtime.failpoints import on_nth
from omnigraph.txn import graph_store, services
from omnigraph.txn.branches import open as open_branches
from omnigraph.txn.claims import heartbeat as keeper
from omnigraph.txn.publish import batch, publisher
from omnigraph.txn.publish import publisher as release
from omnigraph.txn.publish import writer as branch_writer
from omnigraph.txn.publish import writer as queue
from omnigraph.txn.publish.kinds import WriteKind
from tests.auditor import audit
from tests.crash.interrupting import Interrupt, interrupting, noting
from tests.crash.matrix import IS_FULL
from tests.txn_graph import PERSON, authority_of, init_graph, insert, node_rows, open_graph, read_ids

# Threads that end with an exception are what this is about.
pytestmark = [pytest.mark.more, pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")]
QUEUE = (queue, calls)
PUBLISHING = (branch_writer, batch, publisher, keeper, release)
CLOSING = (graph_store, open_branches, services, branch_writer, publisher, queue, calls, keeper, release)
# A fixed choice of the lines, closer where an interrupt is no rare guest; all of them in the long run.
STEP = 1 if IS_FULL else 8
QUEUE_STEP = 1 if IS_FULL else 3


def _files(modules):
    return {module.__file__ for module in modules}


def _within(run, seconds=300):
    """Run something that must not hang; return what it raised."""
    raised = []

    def catch():
        try:
            run()
        except BaseException as error:  # noqa: BLE001 - looked at by the test
            raised.append(error)

    thread = start_thread("test", catch)
    thread.join(seconds)
    assert not thread.is_alive(), "it hangs"
    return raised[0] if raised else None


def _write(graph, name):
    insert(graph, PERSON, node_rows([name]))


def _trouble(root, line):
    """What is wrong with a graph, and with the process that has it open, after an exception at a line; None: never met.

    The first write opens the branch and the second is one like any other.
    """
    storage = init_graph(root)
    graphs, acknowledged = [], []
    with interrupting(line) as came:
        failure = _within(lambda: graphs.append(open_graph(storage)))
        for name in ("first", "second") if failure is None else ():
            failure = failure or _within(lambda name=name: _acknowledge(graphs[0], name, acknowledged))
    assert failure is None or isinstance(failure, Interrupt | InternalError), repr(failure)
    graph = graphs[0] if graphs else open_graph(storage)
    for name in ("later", "last"):
        failure = _within(lambda name=name: _acknowledge(graph, name, acknowledged))
        assert failure is None, f"a later write fails: {failure!r}"
    assert _within(graph.close) is None
    return _check(storage, acknowledged) if came else None


def _acknowledge(graph, name, acknowledged):
    _write(graph, name)
    acknowledged.append(name)


def _check(storage, acknowledged):
    left = [key for key in (Path(storage.root) / "__recovery").rglob("*") if key.is_file()]
    assert left == []
    with open_graph(storage, mode="read_only") as graph:
        ids = read_ids(graph, PERSON)
    assert set(acknowledged) <= set(ids)
    assert len(ids) == len(set(ids))
    return audit(storage.root)


@pytest.fixture(scope="module")
def passed(tmp_path_factory):
    """The lines of each module that a write passes, and those that closing does."""
    root = tmp_path_factory.mktemp("lines")
    with noting(_files({*QUEUE, *PUBLISHING, *CLOSING})) as writing:
        graph = open_graph(init_graph(root / "g"))
        _write(graph, "first")
        _write(graph, "second")
    with noting(_files(CLOSING)) as closing:
        graph.close()
    return {"writing": writing, "closing": closing}


def _chosen(lines, modules, step):
    files = _files(modules)
    return [line for line in lines if line[0] in files][::step]


def test_a_write_that_is_interrupted_at_a_line_of_the_queue_stops_no_other(tmp_path, passed):
    lines = _chosen(passed["writing"], QUEUE, QUEUE_STEP)
    assert len(lines) > 60 // QUEUE_STEP
    _each(tmp_path, lines)


def test_a_write_that_is_interrupted_at_a_line_of_the_publisher_stops_no_other(tmp_path, passed):
    lines = _chosen(passed["writing"], PUBLISHING, STEP)
    assert len(lines) > 250 // STEP
    _each(tmp_path, lines)


def _each(tmp_path, lines):
    came = 0
    for number, line in enumerate(lines):
        findings = _trouble(tmp_path / f"g{number}", line)
        assert findings in (None, []), (line, findings)
        came += findings is not None
    # Which of two threads is the faster one decides about a few lines, such as those of waiting for the other.
    assert came > 0.9 * len(lines), "what was passed once is passed again"


def test_closing_that_is_interrupted_at_any_line_can_be_finished(tmp_path, passed):
    lines = _chosen(passed["closing"], CLOSING, 1)
    assert len(lines) > 30
    for number, line in enumerate(lines):
        storage = init_graph(tmp_path / f"g{number}")
        graph = open_graph(storage)
        _write(graph, "first")
        with interrupting(line) as came:
            failure = _within(graph.close)
        assert came, line
        assert failure is None or isinstance(failure, Interrupt), (line, failure)
        assert _within(graph.close) is None, line
        assert _check(storage, ["first"]) == [], line
    assert not [thread for thread in threading.enumerate() if thread.name == "omnigraph-publisher"]


CTRL_C = """
import faulthandler, os, signal, sys, threading
from tests.txn_graph import PERSON, authority_of, init_graph, insert, node_rows, open_graph, read_ids
from omnigraph.runtime import Runtime, start_thread
from omnigraph.runtime.failpoints import on_nth

faulthandler.dump_traceback_later(290, exit=True)
# Whoever starts a run in the background may have it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
runtime, begun, may_end = Runtime.system({}), threading.Event(), threading.Event()


def hold():
    begun.set()
    assert may_end.wait(300)


runtime.failpoints.enable("txn.claim.after_put", on_nth(1, hold))
graph = open_graph(init_graph(sys.argv[1]), runtime=runtime)
first = start_thread("first", lambda: insert(graph, PERSON, node_rows(["first"])))
assert begun.wait(300)
queue = graph.branch_writer("main")._queue


def interrupt():
    while not queue.waiting:
        assert first.is_alive()
    os.kill(os.getpid(), signal.SIGINT)


start_thread("interrupt", interrupt)
try:
    insert(graph, PERSON, node_rows(["interrupted"]))
except KeyboardInterrupt:
    print("interrupted")
may_end.set()
first.join(300)
insert(graph, PERSON, node_rows(["later"]))
print(*read_ids(graph, PERSON))
graph.close()
"""


def test_ctrl_c_while_a_write_waits_for_its_turn_takes_it_back_and_the_branch_goes_on(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-c", CTRL_C, str(tmp_path / "g")], capture_output=True, text=True, timeout=300, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines() == ["interrupted", "first later"]


AT_A_POINT = """
import faulthandler, os, signal, sys, threading
from omnigraph.errors import WriteInterruptedError
from omnigraph.runtime import Runtime
from omnigraph.runtime.failpoints import on_nth
from tests.txn_graph import PERSON, authority_of, init_graph, insert, node_rows, open_graph, read_ids

faulthandler.dump_traceback_later(290, exit=True)
signal.signal(signal.SIGINT, signal.default_int_handler)
runtime, left = Runtime.system({}), threading.Event()


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
    assert left.wait(280)


runtime.failpoints.enable(sys.argv[2], on_nth(1, interrupt))
graph = open_graph(init_graph(sys.argv[1]), runtime=runtime)
try:
    insert(graph, PERSON, node_rows(["interrupted"]))
except KeyboardInterrupt as error:
    caught = error
is_certain = not isinstance(caught, WriteInterruptedError)
print("cancelled" if is_certain else caught.outcome)
left.set()
graph.close()
if not is_certain:
    print(caught.outcome, str(caught).replace(caught.commit_id, "ID"))
with open_graph(graph.storage) as graph:
    insert(graph, PERSON, node_rows(["later"]))
    print(*read_ids(graph, PERSON))
"""


@pytest.mark.parametrize("point", ["txn.stage.after_files", "txn.claim.after_put", "txn.publish.after_cas"])
def test_an_interrupt_says_what_became_of_a_write_that_it_could_not_cancel(tmp_path, point):
    ended = subprocess.run(
        [sys.executable, "-c", AT_A_POINT, str(tmp_path / "g"), point],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    told = "published interrupted: published as commit 'ID' on branch 'main'"
    cancelled = ["cancelled", "later"]
    assert ended.stdout.splitlines() == (
        cancelled if point == "txn.stage.after_files" else ["unknown", told, "interrupted later"]
    )


def test_of_writes_that_are_published_together_only_the_interrupted_one_is_left_out(tmp_path):
    """It leaves behind its last look, when the others are staged with it already."""
    runtime = Runtime.system({})
    with open_graph(init_graph(tmp_path / "g"), runtime=runtime) as graph:
        txns = [authority_of(graph).begin(WriteKind.INSERT) for _ in range(3)]
        for name, txn in zip("abc", txns, strict=True):
            txn.insert(PERSON, node_rows([name]))
        runtime.failpoints.enable("txn.stage.after_files", on_nth(1, txns[1].forsake))
        outcomes = authority_of(graph)._run(txns)
        assert [getattr(outcome, "commit", None) is not None for outcome in outcomes] == [True, False, True]
        assert read_ids(graph, PERSON) == ["a", "c"]
    assert _check(graph.storage, ["a", "c"]) == []
