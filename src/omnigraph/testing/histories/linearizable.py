"""Linearizability of one register, by search: Wing and Gong's algorithm in the form of Lowe.

The events of a history are gone through in the order of time. A configuration is a value that the register may have,
and the calls under way that have taken effect already. When a call returns, it must have taken effect: configurations
in which it has not are continued with every order of calls under way that ends with it. Each configuration is looked
at once. The history is linearizable if one is left at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from omnigraph.records import record

_Configuration = tuple[str | None, frozenset[int]]


@record
class Call:
    """One call on a register.

    Args:
        kind: ``swap`` writes if the register has an expected value.
        began_ns: when the client began it, by a clock that all clients share.
        ended_ns: when the client had the answer; None if it never came: then it may take effect at any time, or never.
        value: what was read, or was to be written.
        expected: the value that a swap expects.
        done: whether a swap wrote; of one that has no answer it is not looked at.
    """

    kind: Literal["read", "write", "swap"]
    began_ns: int
    ended_ns: int | None
    value: str | None = None
    expected: str | None = None
    done: bool = True


def is_linearizable(calls: Sequence[Call], initial: str | None) -> bool:
    """Return True if a register can have answered so, each call taking effect between its begin and its end."""
    # Of two events of one moment the begin comes first: the calls may have met.
    events = sorted(
        event
        for number, call in enumerate(calls)
        for event in ((call.began_ns, 0, number), (call.ended_ns, 1, number))
        if event[0] is not None
    )
    under_way: set[int] = set()
    configurations: set[_Configuration] = {(initial, frozenset())}
    for _, is_end, number in events:
        if not is_end:
            if calls[number].ended_ns is not None or calls[number].kind != "read":
                under_way.add(number)
            continue
        configurations = _after(configurations, number, under_way, calls)
        under_way.discard(number)
        if not configurations:
            return False
    return True


def _after(
    configurations: Iterable[_Configuration], number: int, under_way: set[int], calls: Sequence[Call]
) -> set[_Configuration]:
    """Return the configurations in which a call that returns has taken effect."""
    waiting, seen = list(configurations), set(configurations)
    after: set[_Configuration] = set()
    while waiting:
        value, taken = waiting.pop()
        if number in taken:
            # It has returned and cannot be mistaken any more.
            after.add((value, taken - {number}))
            continue
        for other in under_way - taken:
            is_possible, changed = _effect(calls[other], value)
            following = (changed, taken | {other})
            if is_possible and following not in seen:
                seen.add(following)
                waiting.append(following)
    return after


def _effect(call: Call, value: str | None) -> tuple[bool, str | None]:
    """Return whether a call can take effect on a value, and the value after it."""
    if call.kind == "read":
        return call.value == value, value
    if call.kind == "write":
        return True, call.value
    is_swapped = call.expected == value
    if call.ended_ns is None:
        return True, call.value if is_swapped else value
    return call.done == is_swapped, call.value if is_swapped else value
