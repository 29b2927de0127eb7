"""Time, randomness, ids, failpoints and counters, injected so that tests can own them."""

from omnigraph.runtime.calls import Calls, counted
from omnigraph.runtime.catalogue import FAILPOINTS
from omnigraph.runtime.clock import Clock, ManualClock, SystemClock
from omnigraph.runtime.counters import Cost, Counters
from omnigraph.runtime.failpoints import Failpoints
from omnigraph.runtime.ids import IdSource
from omnigraph.runtime.machine import memory_bytes
from omnigraph.runtime.randomness import Randomness, SeededRandomness, SystemRandomness
from omnigraph.runtime.threads import run_both, start_thread
from omnigraph.runtime.world import World

__all__ = [
    "FAILPOINTS",
    "Calls",
    "Clock",
    "Cost",
    "Counters",
    "Failpoints",
    "IdSource",
    "ManualClock",
    "Randomness",
    "SeededRandomness",
    "SystemClock",
    "SystemRandomness",
    "World",
    "counted",
    "memory_bytes",
    "run_both",
    "start_thread",
]
