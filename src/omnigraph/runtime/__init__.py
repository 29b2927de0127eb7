"""Time, randomness, ids, failpoints and counters, injected so that tests can own them."""

from omnigraph.runtime.calls import Calls, counted
from omnigraph.runtime.context import CallContext, calling, check_call, current_call, drawn_in_call, smallest
from omnigraph.runtime.counters import (
    Cost,
    Counters,
    counting,
    counting_each,
    current_counters,
    in_context,
    side_by_side,
)
from omnigraph.runtime.environment import (
    Clock,
    IdSource,
    ManualClock,
    Randomness,
    Runtime,
    SeededRandomness,
    SystemClock,
    SystemRandomness,
)
from omnigraph.runtime.failpoints import FAILPOINTS, Failpoints
from omnigraph.runtime.late import late_property, loading
from omnigraph.runtime.lru import LRUCache
from omnigraph.runtime.process import memory_bytes, run_both, start_thread, trim_heap
from omnigraph.runtime.tally import Tally

__all__ = [
    "FAILPOINTS",
    "CallContext",
    "Calls",
    "Clock",
    "Cost",
    "Counters",
    "Failpoints",
    "IdSource",
    "LRUCache",
    "ManualClock",
    "Randomness",
    "Runtime",
    "SeededRandomness",
    "SystemClock",
    "SystemRandomness",
    "Tally",
    "calling",
    "check_call",
    "counted",
    "counting",
    "counting_each",
    "current_call",
    "current_counters",
    "drawn_in_call",
    "in_context",
    "late_property",
    "loading",
    "memory_bytes",
    "run_both",
    "side_by_side",
    "smallest",
    "start_thread",
    "trim_heap",
]
