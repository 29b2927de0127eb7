"""Serial hops as a count: the longest chain of calls of which each began when the one before it had ended.

The endpoint holds every call for a while, so that calls that do not wait for each other overlap in its log. A call that
needs the answer of another can never begin before that one has ended, however long anything takes: what the log shows
is the true number of hops or more, never less. One look that shows few enough hops is therefore a proof. A look that
shows more may have caught a thread that was late, or a fold, which is rare: the next one holds calls for longer.
"""

from collections.abc import Callable, Iterable

from omnigraph.testing.s3 import Call, S3Endpoint, measure

_HOLDS_MS = (10, 40, 160, 640, 640)
LOOKS = len(_HOLDS_MS)


def chain_length(calls: Iterable[Call]) -> int:
    """Return how many of the calls can have waited for one another, at most."""
    length, free_s = 0, float("-inf")
    for call in sorted(calls, key=lambda call: call.ended_s):
        if call.started_s >= free_s:
            length, free_s = length + 1, call.ended_s
    return length


def fewest_hops(
    endpoint: S3Endpoint, run: Callable[[], object], enough: int, *, counts: Callable[[Call], bool] = lambda _: True
) -> int:
    """Return the fewest hops of ``run`` that a look shows; look no further once there are ``enough`` or fewer.

    ``counts`` says which calls ``run`` waits for.
    """
    fewest = None
    for hold_ms in _HOLDS_MS:
        endpoint.set_latency_ms(hold_ms)
        try:
            with measure(endpoint) as measured:
                run()
        finally:
            endpoint.set_latency_ms(0)
        found = chain_length(filter(counts, measured.calls))
        fewest = found if fewest is None else min(fewest, found)
        if fewest <= enough:
            break
    assert fewest is not None
    return fewest


def is_awaited(call: Call) -> bool:
    """Whether a write waits for this call: sidecars go after the acknowledgement, perhaps of the write before."""
    return (call.operation, call.object_class) != ("POST_DELETE", "sidecar")


def assert_hops(endpoint, run, target, *, stages, counts=is_awaited):
    """Assert that ``run`` takes at most ``target`` hops, and exactly as many as the product itself counts."""
    assert stages <= target
    assert fewest_hops(endpoint, run, stages, counts=counts) == stages
