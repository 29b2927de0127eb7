"""Write skew: dropping a node against adding an edge to it. One of the two is refused, whoever comes first."""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from omnigraph.runtime import Runtime
from tests.auditor import audit
from tests.multiprocess.ground import Ground
from tests.multiprocess.skew import DONE, DROPPED, EDGE, KEPT, REFUSED, act, begin, commit
from tests.txn_graph import KNOWS, PERSON, init_graph, insert, node_rows, open_graph
from tests.warm import PROJECT, WarmProcess

ORDERS = [("overwrite", "edge"), ("edge", "overwrite")]
# The first writer waits here with its claim in hand while the second makes up its mind on the same base.
INSIDE = [
    ("threads", "txn.claim.after_put"),
    ("threads", "txn.commit.after_table"),
    ("threads", "txn.commit.after_tables"),
    ("threads", "txn.publish.before_cas"),
    pytest.param("processes", "txn.commit.after_tables", marks=pytest.mark.more),
]
# The first writer waits here without a claim while the second goes all the way.
OUTSIDE = [
    ("threads", "txn.stage.after_files"),
    ("threads", "txn.claim.before_put"),
    pytest.param("processes", "txn.claim.before_put", marks=pytest.mark.more),
]


@pytest.fixture
def ground(tmp_path):
    made = Ground(root=str(tmp_path / "g"), folder=str(tmp_path), settings={"durability": "relaxed"})
    init_graph(made.root)
    with open_graph(made.storage) as graph:
        insert(graph, PERSON, node_rows([KEPT, DROPPED]))
    made.save()
    return made


@pytest.fixture
def start(request, ground):
    """Start a role with failpoints on, in a thread or in a process of its own; the result waits for its outcome."""
    if request.param == "threads":
        with ThreadPoolExecutor(max_workers=2) as pool:
            yield lambda role, spec: pool.submit(act, ground, role, _world(spec)).result
        return
    started = []

    def start_process(role, spec):
        outcome = ground.path(f"{role}.outcome")
        process = WarmProcess(
            "tests.multiprocess.skew",
            [str(ground.path("ground.json")), role, str(outcome)],
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


@pytest.mark.parametrize(("start", "point"), INSIDE, indirect=["start"])
@pytest.mark.parametrize(("first", "second"), ORDERS)
def test_the_one_that_holds_the_claim_wins_and_the_other_is_refused(ground, start, first, second, point):
    inside, decided = ground.path("inside"), ground.path("decided")
    first_outcome = start(first, f"{point}=pause:{inside}")
    _wait_for(inside)
    second_outcome = start(second, f"txn.claim.before_put=pause:{decided}")
    _wait_for(decided)
    inside.touch()
    assert first_outcome() == DONE
    decided.touch()
    assert second_outcome() == REFUSED
    _assert_sound(ground, winner=first)


@pytest.mark.parametrize(("start", "point"), OUTSIDE, indirect=["start"])
@pytest.mark.parametrize(("first", "second"), ORDERS)
def test_the_one_that_publishes_wins_over_one_that_only_staged(ground, start, first, second, point):
    outside = ground.path("outside")
    first_outcome = start(first, f"{point}=pause:{outside}")
    _wait_for(outside)
    assert start(second, "")() == DONE
    outside.touch()
    assert first_outcome() == REFUSED
    _assert_sound(ground, winner=second)


@pytest.mark.parametrize(("first", "second"), ORDERS)
def test_two_transactions_of_one_open_graph_do_not_both_succeed(ground, first, second):
    with open_graph(ground.storage) as graph:
        transactions = [begin(graph, first), begin(graph, second)]
        assert [commit(graph, txn) for txn in transactions] == [DONE, REFUSED]
    _assert_sound(ground, winner=first)


def _world(spec):
    return Runtime.system({"OMNIGRAPH_FAILPOINTS": spec})


def _wait_for(gate):
    reached = gate.with_name(f"{gate.name}.reached")
    deadline = time.monotonic() + 300
    while not reached.exists():
        assert time.monotonic() < deadline, f"nobody came to {gate.name}"
        time.sleep(0.005)


def _assert_sound(ground, *, winner):
    if winner == "edge":
        assert audit(ground.root, present={PERSON: [KEPT, DROPPED], KNOWS: [EDGE]}) == []
    else:
        assert audit(ground.root, present={PERSON: [KEPT]}, absent={PERSON: [DROPPED], KNOWS: [EDGE]}) == []
