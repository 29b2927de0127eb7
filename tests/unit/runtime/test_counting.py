"""What counts storage calls is part of the context: of a block, of an iterator that is drawn from, of a thread."""

from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar

import pytest

from omnigraph.runtime import Counters, counting, counting_each, current_counters, in_context, run_both, start_thread

OTHER: ContextVar[str] = ContextVar("other", default="nothing")


def call(times=1):
    """Make calls, as a leaf of storage does."""
    current_counters().add_calls("get", times)
    current_counters().add_serial_stages(times)


def calls(counters):
    return counters.cost().total_calls


def test_a_block_counts_into_its_own_counters_and_the_one_around_it_goes_on():
    with counting() as outer:
        call()
        with counting() as inner:
            call(2)
        call(4)
    call(8)
    assert (calls(outer), calls(inner)) == (5, 2)


def test_counters_that_are_given_go_on_and_an_error_ends_the_block():
    counters = Counters()

    def fail():
        with counting(counters) as current:
            assert current is counters is current_counters()
            call()
            raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            fail()
    assert current_counters() is not counters
    assert calls(counters) == 2


def test_while_nobody_counts_nothing_is_kept():
    call(3)
    with counting() as counters:
        call()
    current_counters().add(counters.cost())
    cost = current_counters().cost()
    assert (cost.total_calls, cost.serial_stages, cost.calls) == (0, 0, {})


def rows():
    """A stream that makes a call for each row, and one when it ends, whichever way."""
    try:
        for number in range(3):
            call()
            yield number
    finally:
        call(10)


def test_drawing_counts_for_the_stream_and_not_for_whoever_draws():
    own = Counters()
    with counting() as consumer:
        drawn = []
        for number in counting_each(rows(), own):
            call(100)
            drawn.append(number)
    assert drawn == [0, 1, 2]
    assert (calls(own), calls(consumer)) == (13, 300)


def test_a_stream_that_is_left_early_counts_its_end():
    own = Counters()
    stream = counting_each(rows(), own)
    assert next(stream) == 0
    with counting() as consumer:
        stream.close()
    assert (calls(own), calls(consumer)) == (11, 0)
    assert list(counting_each([1, 2], own)) == [1, 2]


def test_a_stream_that_fails_leaves_nothing_behind():
    def fails():
        call()
        yield 1
        raise ZeroDivisionError

    own, before = Counters(), current_counters()
    with pytest.raises(ZeroDivisionError):
        list(counting_each(fails(), own))
    assert current_counters() is before
    assert calls(own) == 1


def test_a_pool_works_in_copies_of_the_callers_context():
    def work(number):
        call(number)
        found = OTHER.get()
        OTHER.set(str(number))
        return found

    token = OTHER.set("the caller's")
    try:
        with ThreadPoolExecutor(3) as pool, counting() as counters:
            assert set(pool.map(in_context(work), range(20))) == {"the caller's"}
            assert pool.submit(work, 1000).result() == "nothing"
        assert OTHER.get() == "the caller's"
    finally:
        OTHER.reset(token)
    assert calls(counters) == sum(range(20))


def test_parts_that_run_side_by_side_can_have_counters_of_their_own():
    own = [Counters() for _ in range(3)]
    with ThreadPoolExecutor(2) as pool, counting() as counters:
        jobs = [pool.submit(in_context(call, count), number) for number, count in enumerate(own, start=1)]
        for job in jobs:
            job.result()
        assert calls(counters) == 0
        current_counters().add_parallel(count.cost() for count in own)
    assert (calls(counters), counters.cost().serial_stages) == (6, 3)


def test_the_second_of_two_functions_counts_for_the_same_caller():
    with counting() as counters:
        run_both("both", call, lambda: call(2))
    assert calls(counters) == 3


def test_a_thread_that_serves_many_counts_for_none_of_them():
    with counting() as counters:
        start_thread("service", lambda: call(5)).join()
        assert calls(counters) == 0
        start_thread("helper", in_context(lambda: call(7))).join()
    assert calls(counters) == 7
