"""Serial hops by the clock: the slope of wall time over injected latency, measured again when it looks wrong."""

from omnigraph.testing.s3 import serial_hops

NOISE = 0.5
LATENCIES_MS = (0, 20, 40)
REPEAT = 3
RUNS = len(LATENCIES_MS) * REPEAT
# Another process that gets the processor at the wrong moment bends one line, not five in the same way.
_ATTEMPTS = 5


def assert_hops(endpoint, run, target, *, stages, prepare=None):
    """Assert that ``run`` takes at most ``target`` hops by the clock, and about as many as the product itself counts.

    On a slow machine work that overlaps with waiting flattens the line by a hop or two, the more tables the more; only
    hops make it steeper. ``prepare`` precedes each attempt, without latency.
    """
    slopes = []
    for _ in range(_ATTEMPTS):
        if prepare is not None:
            prepare()
        slopes.append(serial_hops(run, endpoint, latencies_ms=LATENCIES_MS, repeat=REPEAT))
        if slopes[-1] <= target + NOISE and -2 <= slopes[-1] - stages <= 1:
            return
    raise AssertionError(f"target={target} stages={stages} slopes={slopes}")
