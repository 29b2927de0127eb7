"""``Control``: what the requests of one server have in common beside the graphs."""

from __future__ import annotations

import threading

from omnigraph.runtime import Clock
from omnigraph.server.control.admission import Admission
from omnigraph.server.control.logs import Redaction
from omnigraph.server.control.metrics import ServerMetrics
from omnigraph.server.control.outcomes import Outcomes
from omnigraph.server.control.settings import ControlSettings
from omnigraph.server.control.transactions import OpenTransactions


class Control:
    """Admission, outcomes, open transactions, figures, and whether the server is about to end.

    All of it outlives a new configuration.

    Args:
        settings: what the operator set.
        clock: the clock of the server.
        redaction: keeps places of storage out of the logs.
    """

    def __init__(self, settings: ControlSettings, clock: Clock, redaction: Redaction | None = None) -> None:
        self.settings = settings
        self.clock = clock
        self.redaction = redaction or Redaction()
        self.admission = Admission(settings.admission)
        self.outcomes = Outcomes(clock)
        self.transactions = OpenTransactions(clock, settings.transactions)
        self.metrics = ServerMetrics(self.admission, clock)
        # Requests are answered, and load balancers are told to send no more.
        self.is_draining = False
        # Set when the time to drain is over: reads that are still running end.
        self.stopping = threading.Event()
        # Requests that have not been answered, and those that were cut off; only the event loop counts them.
        self.under_way = 0
        self.cut_off = 0
