"""A process that reads a big graph as it is told, line by line, and says what came of it.

A line names a query and how it is to be run; the answer is a line of JSON. ``SIGINT`` is heard only while a query runs.
Between its steps a read looks at its limits: these looks are counted, and one of them can be the moment of a Ctrl-C.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from pathlib import Path

from tests.session import Session
from tests.session_graph import RELAXED

from omnigraph.engine.query.limits import Limits
from omnigraph.engine.query.options import QueryOptions
from omnigraph.errors import OmnigraphError
from omnigraph.store.location import Storage

_TWO_HOPS = "match { $a: Person  $a knows $b  $b knows $c }"
_ONE_HOP = "match { $a: Person  $a knows $b }"
_MANY = "  ".join(f"$v{at}: Person" for at in range(300))
QUERIES = {
    "list": f"query q() {{ {_TWO_HOPS} return {{ $a.name, $c.name }} }}",
    "order": f"query q() {{ {_TWO_HOPS} return {{ $a.name, $c.name }} order {{ $c.age desc }} }}",
    "group": f"query q() {{ {_TWO_HOPS} return {{ $a.name, $c.name, count($b.age) as n }} }}",
    "reach": "query q() { match { $a: Person  $a knows{1,2} $c } return { $a.name, $c.name } }",
    "first": f"query q() {{ {_TWO_HOPS} return {{ $a.name, $c.name }} order {{ $c.age desc }} limit 5 }}",
    "paths": f"query q() {{ {_TWO_HOPS} return {{ count($c) as n }} }}",
    "order pairs": f"query q() {{ {_ONE_HOP} return {{ $a.name, $b.name }} order {{ $b.age desc }} }}",
    "group pairs": f"query q() {{ {_ONE_HOP} return {{ $a.name, $b.name, count($b.age) as n }} }}",
    "people": "query q() { match { $a: Person } return { $a.name, $a.age } }",
    "wide": f"query q() {{ match {{ {_MANY} }} return {{ $v0.name }} }}",
    "one": 'query q() { match { $a: Person { name: "p7" } } return { $a.name } }',
}


def main() -> None:
    """Answer every line until there is none."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    storage = Storage.open(sys.argv[1])
    session = Session.open(storage, settings=RELAXED)
    for line in sys.stdin:
        asked = json.loads(line)
        if asked.pop("is_fresh", False):
            session.close()
            session = Session.open(storage, settings=RELAXED)
        _say({"started": True})
        _say(_answer(session, **asked))
    session.close()


class Looks:
    """Counts how often reads look at their limits."""

    def __init__(self):
        self.made = 0
        self.of_signal = None
        self.of_notice = None
        look = Limits.check

        def counted(limits, extra_bytes=0):
            self.made += 1
            if self.made == self.of_notice:
                _say({"looks": self.made})
            if self.made == self.of_signal:
                signal.raise_signal(signal.SIGINT)
            look(limits, extra_bytes)

        Limits.check = counted

    def start(self, of_signal, of_notice):
        """Count from here; send Ctrl-C at look ``of_signal``, and say a line at look ``of_notice``."""
        self.made, self.of_signal, self.of_notice = 0, of_signal, of_notice


LOOKS = Looks()


def _answer(session, query, memory_bytes=None, of_signal=None, of_notice=None):
    LOOKS.start(of_signal, of_notice)
    threads = set(threading.enumerate())
    before = _memory_bytes("VmRSS")
    # The kernel forgets the highest mark it has seen.
    Path("/proc/self/clear_refs").write_text("5")
    outcome, rows = _run(session, query, memory_bytes)
    return {
        "outcome": outcome,
        "rows": rows,
        "looks": LOOKS.made,
        "growth_bytes": _memory_bytes("VmHWM") - before,
        "threads_left": [thread.name for thread in threading.enumerate() if thread not in threads],
    }


def _run(session, query, memory_bytes):
    rows = None
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        result = session.query(QUERIES[query], options=QueryOptions(mode="csr", memory_bytes=memory_bytes))
        outcome, rows = "finished", len(result)
    except KeyboardInterrupt:
        outcome = "interrupted"
    except OmnigraphError as error:
        outcome = error.code
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return outcome, rows


def _memory_bytes(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def _say(answer):
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
