"""Reading ahead changes when something is read, never what."""

import threading

import pytest

from omnigraph.engine.load.reading.jsonl import read_ahead


def test_items_come_in_order_and_from_another_thread():
    makers = []

    def items():
        for number in range(20):
            makers.append(threading.current_thread())
            yield number

    assert list(read_ahead(items())) == list(range(20))
    assert threading.current_thread() not in makers


def test_next_item_is_made_while_the_first_one_is_in_use():
    made = threading.Event()

    def items():
        yield "first"
        made.set()
        yield "second"

    ahead = read_ahead(items())
    assert next(ahead) == "first"
    assert made.wait(timeout=300)
    assert list(ahead) == ["second"]


def test_failure_comes_after_what_was_read_before_it():
    def items():
        yield "good"
        raise ValueError("broken")

    ahead = read_ahead(items())
    assert next(ahead) == "good"
    with pytest.raises(ValueError, match="broken"):
        next(ahead)


def test_no_more_than_one_item_is_held_and_no_thread_is_left():
    made = []

    def items():
        for number in range(20):
            made.append(number)
            yield number

    ahead = read_ahead(items())
    assert next(ahead) == 0
    ahead.close()
    assert made in ([0], [0, 1])
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("omnigraph-read")]
