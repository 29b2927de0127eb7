"""The full-size scenarios, again and again: ``python -m tests.multiprocess.soak --minutes 5``.

One pass plays every scenario on a local disk and on the S3 endpoint with eight writers of fifty commits each. Passes
follow each other until the time is over; the first one is always finished. A run with findings keeps its folder.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from omnigraph.testing.s3 import S3Endpoint
from tests.multiprocess.scenarios import Freezer, Killer, Scenario, run_scenario

_WORKERS, _COMMITS, _TIMEOUT_S = 8, 50, 900.0
_FULL = {"durability": "full"}

SCENARIOS = {
    "peace": Scenario(workers=_WORKERS, commits=_COMMITS, settings=_FULL, timeout_s=_TIMEOUT_S),
    "kill": Scenario(
        workers=_WORKERS,
        commits=_COMMITS,
        disturb=lambda: Killer(every_s=0.2),
        settings=_FULL,
        timeout_s=_TIMEOUT_S,
        readers=2,
    ),
    "freeze": Scenario(
        workers=_WORKERS,
        commits=_COMMITS,
        # Beyond the grace period, and sometimes beyond the time for which a writer remembers that others write.
        disturb=lambda: Freezer(grace_s=1.0, every_s=1.0, longest_s=7.0),
        seconds=20.0,
        settings={**_FULL, "grace_s": 1.0},
        timeout_s=_TIMEOUT_S,
    ),
}


def play(store: str, name: str, scenario: Scenario) -> bool:
    """Play one scenario on one store and print what came of it; return whether it was clean."""
    folder = Path(tempfile.mkdtemp(prefix=f"soak-{name}-"))
    if store == "local":
        verdict = run_scenario(scenario, str(folder / "g"), {}, folder / "run")
    else:
        with S3Endpoint() as endpoint:
            verdict = run_scenario(scenario, endpoint.fresh_prefix(), endpoint.storage_options, folder / "run")
    print(f"{name:7} {store:6} {verdict}", flush=True)
    for finding in verdict.findings:
        print(f"  {finding}", flush=True)
    if verdict.findings:
        print(f"  journals: {folder}", flush=True)
        return False
    shutil.rmtree(folder)
    return True


def main() -> int:
    """Play passes until the minutes are over; 1 when anything was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    # An end on request still ends the processes of the run.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    deadline_s = time.monotonic() + 60 * parser.parse_args().minutes
    is_clean, is_first = True, True
    while is_first or time.monotonic() < deadline_s:
        for name, scenario in SCENARIOS.items():
            for store in ("local", "s3"):
                if is_first or time.monotonic() < deadline_s:
                    is_clean = play(store, name, scenario) and is_clean
        is_first = False
    return 0 if is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
