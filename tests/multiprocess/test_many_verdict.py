"""The verdict on a run of many writers sees every promise that is broken."""

import pytest

import omnigraph
from tests.multiprocess.fleet import Fleet
from tests.multiprocess.ground import Ground
from tests.multiprocess.journal import Journal
from tests.multiprocess.many import seed_graph
from tests.multiprocess.many_verdict import judge_many

# These are about the judge of `make many`, not about the product.
pytestmark = pytest.mark.more
EVENT = "query event($s: I64) { insert Event { worker: 0, serial: $s, part: 0 } }"
COUNT = 'query count_up() { update Counter set { n: n + 1 } where name = "counter-0" }'
HALF = 'query half() { insert Person { name: "pair-0-1", kind: "pair", value: 1 } }'


@pytest.fixture
def run(tmp_path):
    """Return a function that plays a short run: what is written to the graph, what the journal says, the findings."""
    folder = tmp_path / "run"
    folder.mkdir()
    ground = Ground(root=str(tmp_path / "g"), folder=str(folder), settings={"durability": "relaxed"})

    def play(write, *, said="ack", change=None):
        seed_graph(ground)
        with omnigraph.open(ground.root) as graph, Journal(ground.journal("worker-0")) as journal:
            commit = write(graph)
            journal.write("about", actor="w0.1", kind="event", change=change or {"events": [(0, 1, 0)]})
            journal.write(said, actor="w0.1", kind="event", code="write.busy", commit=str(commit))
            journal.write("look", pairs=0)
        with Fleet(ground, arguments=()) as fleet:
            return judge_many(ground, fleet, 1.0).findings

    return play


def event(graph, actor="w0.1", serial=1):
    return graph.mutate(EVENT, {"s": serial}, actor=actor).commit.id


def test_a_run_that_keeps_its_promises_has_no_findings(run):
    assert run(event) == ()


def test_a_write_that_landed_twice_is_found(run):
    findings = run(lambda graph: [event(graph), event(graph)][-1])
    assert any("a write is in history twice" in finding for finding in findings)
    assert any("event=(0, 1, 0) meant=1 real=2" in finding for finding in findings)


def test_rows_that_were_doubled_within_one_commit_are_found(run):
    findings = run(lambda graph: graph.mutate_batch(EVENT, [{"s": 1}, {"s": 1}], actor="w0.1").commit.id)
    assert any("a version counts other rows" in finding for finding in findings)


def test_an_acknowledged_write_that_is_missing_is_found(run):
    findings = run(lambda _: "01M7R5348SH124VZEFKXFGGQM1")
    assert any("an acknowledged commit is elsewhere" in finding for finding in findings)


def test_a_refused_write_that_landed_is_found(run):
    assert any("a refused write is in history" in finding for finding in run(event, said="refused"))


def test_a_write_whose_answer_is_open_may_be_there_or_not(run):
    assert run(event, said="unknown") == ()


def test_a_write_that_nobody_announced_is_found(run):
    findings = run(lambda graph: [event(graph), event(graph, "w9.1", 2)][0])
    assert any("history holds a commit that nobody made" in finding for finding in findings)


def test_half_a_pair_is_found(run):
    change = {"pair": ("pair-0-1", "shared-0", 1)}
    findings = run(lambda graph: graph.mutate(HALF, actor="w0.1").commit.id, change=change)
    assert any("team=pair-0-1 meant=1 real=None" in finding for finding in findings)


def test_a_counter_that_lost_a_step_is_found(run):
    def write(graph):
        commit = graph.mutate(COUNT, actor="w0.1").commit.id
        graph.load({"Counter": [{"name": "counter-0", "n": 0}]}, "merge", actor="next")
        return commit

    findings = run(write, change={"count": "counter-0"})
    assert any("a counter is wrong name=counter-0 real=0 commits=1" in finding for finding in findings)


def test_what_is_left_below_recovery_is_found(run, tmp_path):
    def write(graph):
        left = tmp_path / "g" / "__recovery" / "main~0" / "offers"
        left.mkdir(parents=True)
        (left / "01M7R5348SH124VZEFKXFGGQM1.offer").write_bytes(b"{}")
        return event(graph)

    assert any("a sidecar is left" in finding for finding in run(write))


def test_a_row_that_history_ascribes_to_another_write_is_found(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    ground = Ground(root=str(tmp_path / "g"), folder=str(folder), settings={"durability": "relaxed"})
    seed_graph(ground)
    with omnigraph.open(ground.root) as graph, Journal(ground.journal("worker-0")) as journal:
        for serial in (1, 2):
            commit = event(graph, f"w0.{serial}", serial)
            # Each says that it wrote what the other one did, so that the graph holds what both meant.
            change = {"events": [(0, 3 - serial, 0)]}
            journal.write("about", actor=f"w0.{serial}", kind="event", change=change)
            journal.write("ack", actor=f"w0.{serial}", kind="event", commit=str(commit))
        journal.write("look", pairs=0)
    with Fleet(ground, arguments=()) as fleet:
        findings = judge_many(ground, fleet, 1.0).findings
    assert [finding.partition(" commit=")[0] for finding in findings] == ["a row has another author"] * 2
