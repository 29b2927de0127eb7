"""The injected world: it must repeat itself for a seed, and cost nothing where nothing is switched on."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from omnigraph.errors import FailpointError, ValueFormatError
from omnigraph.runtime import Counters, Failpoints, IdSource, ManualClock, Runtime, SeededRandomness, start_thread
from omnigraph.runtime.failpoints import ENVIRONMENT_VARIABLE, fail, on_nth, pause_until

CATALOGUE = {"room.step.before", "room.step.after"}


class BackwardClock(ManualClock):
    """Each look is a second earlier than the last, as after a clock correction."""

    def now_ms(self):
        self.sleep(1.0)
        return 2_000_000_000_000 - super().now_ms() % 1_000_000


def test_ids_of_one_source_ascend_also_when_the_clock_goes_back():
    ids = IdSource(BackwardClock(), SeededRandomness(1))
    made = [ids.ulid() for _ in range(200)]
    assert made == sorted(set(made))


def test_ids_overflow_into_the_next_millisecond():
    class AllOnes(SeededRandomness):
        def bits(self, count):
            return (1 << count) - 1

    ids = IdSource(ManualClock(), AllOnes(0))
    first, second = ids.ulid(), ids.ulid()
    assert second > first
    assert second.timestamp_ms == first.timestamp_ms + 1


def test_the_same_seed_gives_the_same_ids():
    assert [Runtime.seeded(7).ids.ulid() for _ in range(3)] == [Runtime.seeded(7).ids.ulid() for _ in range(3)]
    assert Runtime.seeded(7).ids.ulid() != Runtime.seeded(8).ids.ulid()


def test_the_system_world_tells_plausible_time_and_differs_each_time():
    runtime = Runtime.system({})
    runtime.clock.sleep(0)
    assert runtime.clock.now_ms() > 1_700_000_000_000
    assert runtime.ids.ulid() != Runtime.system({}).ids.ulid()
    assert 0 <= runtime.randomness.fraction() < 1


def test_a_manual_clock_moves_only_when_told():
    clock = ManualClock(start_ms=1000)
    assert (clock.now_ms(), clock.monotonic_s()) == (1000, 0.0)
    clock.sleep(1.5)
    assert (clock.now_ms(), clock.monotonic_s()) == (2500, 1.5)


def test_a_failpoint_that_is_off_does_nothing():
    Failpoints(CATALOGUE).hit("room.step.before")


def test_a_failpoint_acts_until_it_is_disabled():
    failpoints = Failpoints(CATALOGUE)
    failpoints.enable("room.step.before", fail("room.step.before"))
    failpoints.hit("room.step.after")
    with pytest.raises(FailpointError, match=r"room\.step\.before"):
        failpoints.hit("room.step.before")
    failpoints.disable("room.step.before")
    failpoints.hit("room.step.before")


def test_an_action_can_wait_for_the_nth_hit():
    hits = []
    action = on_nth(3, lambda: hits.append("now"))
    for _ in range(5):
        action()
    assert hits == ["now"]


def test_a_name_outside_the_catalogue_cannot_be_enabled():
    with pytest.raises(ValueFormatError, match=r"failpoint .* was not found"):
        Failpoints(CATALOGUE).enable("room.step.typo", fail("x"))


@pytest.mark.parametrize(
    "setting",
    [
        "room.step.before=explode",
        "room.step.before",
        "nowhere=kill",
        "room.step.before=kill@0",
        "room.step.before=kill@x",
    ],
)
def test_a_setting_that_would_test_nothing_is_refused(setting):
    with pytest.raises(ValueFormatError):
        Failpoints.from_environment(CATALOGUE, {ENVIRONMENT_VARIABLE: setting})


def test_the_environment_can_make_the_second_hit_fail():
    failpoints = Failpoints.from_environment(CATALOGUE, {ENVIRONMENT_VARIABLE: " room.step.after = error@2 ;"})
    failpoints.hit("room.step.after")
    with pytest.raises(FailpointError):
        failpoints.hit("room.step.after")
    assert failpoints.catalogue == CATALOGUE


def test_a_pause_reports_its_arrival_and_waits_for_the_gate(tmp_path):
    gate = tmp_path / "gate"
    passed = threading.Event()

    def run():
        pause_until(gate)()
        passed.set()

    thread = start_thread("pause", run)
    while not (tmp_path / "gate.reached").exists():
        assert thread.is_alive()
    assert not passed.is_set()
    gate.touch()
    thread.join(300)
    assert passed.is_set()
    assert thread.name == "omnigraph-pause"
    assert thread.daemon


@pytest.mark.parametrize(("action", "number"), [("kill", signal.SIGKILL), ("stop", signal.SIGSTOP)])
def test_a_child_process_can_be_killed_or_stopped_from_its_environment(action, number):
    program = (
        "import os\n"
        "from omnigraph.runtime import Failpoints\n"
        "Failpoints.from_environment({'a.b.c'}, os.environ).hit('a.b.c')\n"
        "print('survived')"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, ENVIRONMENT_VARIABLE: f"a.b.c={action}"},
        stdout=subprocess.PIPE,
    )
    try:
        _, status = os.waitpid(child.pid, os.WUNTRACED)
        if number is signal.SIGSTOP:
            assert os.WIFSTOPPED(status)
            assert os.WSTOPSIG(status) == number
            os.kill(child.pid, signal.SIGKILL)
            os.waitpid(child.pid, 0)
        else:
            assert os.WTERMSIG(status) == number
    finally:
        child.returncode = 0
        child.stdout.close()


def test_counters_add_up_across_threads():
    counters = Counters()

    def work():
        for _ in range(1000):
            counters.add_calls("get", bytes_read=2)
            counters.add_serial_stages()

    threads = [start_thread(f"count-{number}", work) for number in range(4)]
    for thread in threads:
        thread.join()
    counters.add_calls("put", 2, bytes_written=5)
    cost = counters.cost()
    assert cost.calls == {"get": 4000, "put": 2}
    assert (cost.total_calls, cost.serial_stages, cost.bytes_read, cost.bytes_written) == (4002, 4000, 8000, 5)
    total = Counters()
    total.add(cost)
    total.add(cost)
    assert total.cost().to_json() == {
        "storage.calls": 8004,
        "storage.calls_by_class": {"get": 8000, "put": 4},
        "storage.serial_stages": 8000,
        "storage.bytes_read": 16000,
        "storage.bytes_written": 10,
    }


def test_of_work_side_by_side_only_the_longest_chain_counts_as_serial():
    costs = []
    for stages in (3, 1):
        branch = Counters()
        branch.add_calls("put", 2)
        branch.add_serial_stages(stages)
        costs.append(branch.cost())
    whole = Counters()
    whole.add_parallel(costs)
    whole.add_parallel(())
    assert (whole.cost().total_calls, whole.cost().serial_stages) == (4, 3)
