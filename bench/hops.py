"""How many calls of a write follow one another: counted in the log of the endpoint, and as a slope on the clock.

Every row is one operation on one graph at the counting endpoint. ``stages`` is what the product says, ``counted`` the
longest chain of calls in the endpoint's log, ``slope`` the growth of wall time over injected latency, and ``ratio`` the
slope beside the count: 1.0 on a quiet machine, less where work overlaps with waiting, more where something waits that
the log does not show. It never fails: a figure depends on the machine.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.cost.driver import OPERATIONS, Driver
from tests.cost.hops import fewest_hops, is_awaited

from omnigraph.testing.s3 import S3Endpoint, serial_hops

DEPTHS = (1, 100)
SLOW_MS = 20
ROUNDS = 5


def main() -> None:
    table = Table("operation", "stages", "counted", "slope", "ratio", title="serial hops of a one-row write")
    with S3Endpoint() as endpoint:
        drivers = [Driver(endpoint, depth=depth, tables=4) for depth in DEPTHS]
        for row in rows(endpoint, drivers):
            table.add_row(*row)
        ratio = depth_ratio(endpoint, drivers)
        for driver in drivers:
            driver.close()
    console = Console(width=100)
    console.print(table)
    console.print(f"a write at {DEPTHS[-1]} commits beside one at {DEPTHS[0]}, calls of {SLOW_MS} ms: {ratio:.2f}")


def rows(endpoint: S3Endpoint, drivers: list[Driver]) -> Iterator[tuple[str, ...]]:
    """Yield what each operation takes at each depth."""
    for depth, driver in zip(DEPTHS, drivers, strict=True):
        for operation in OPERATIONS:
            driver.write(operation)
            write = partial(driver.write, operation)
            stages = write().cost.serial_stages
            counted = fewest_hops(endpoint, write, stages, counts=is_awaited)
            slope = serial_hops(write, endpoint)
            yield f"{operation}, {depth} commits", str(stages), str(counted), f"{slope:.1f}", f"{slope / counted:.2f}"


def depth_ratio(endpoint: S3Endpoint, drivers: list[Driver]) -> float:
    """Return how much longer a write takes on the deeper graph, at a slow store that serves eight calls at once."""
    endpoint.set_concurrency(8)
    endpoint.set_latency_ms(SLOW_MS)
    times: list[list[float]] = [[] for _ in drivers]
    for _ in range(ROUNDS):
        for driver, spent in zip(drivers, times, strict=True):
            spent.append(seconds(partial(driver.write, "keyed insert")))
    shallow, deep = map(statistics.median, times)
    return deep / shallow


def seconds(run: Callable[[], object]) -> float:
    started_s = time.perf_counter()
    run()
    return time.perf_counter() - started_s


if __name__ == "__main__":
    main()
