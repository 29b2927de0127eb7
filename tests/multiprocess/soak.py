"""The full-size scenarios: ``python -m tests.multiprocess.soak --minutes 5``.

First every scenario of writers once, on a local disk and on the S3 endpoint, with eight writers of fifty commits each.
Then the mixed scenarios, in which four processes do everything that a graph offers, in peace and with processes that
are killed, and three beside two servers that are killed too: each on each store, on one graph for all of the given
minutes. So do the clients whose history is checked for anomalies, on one graph after the other. ``--only`` and
``--store`` choose from them.
A run with findings keeps its folder.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from omnigraph.testing.s3 import S3Endpoint
from tests.multiprocess.history import History, run_history
from tests.multiprocess.mixed import Mixed, run_mixed
from tests.multiprocess.scenarios import Freezer, Killer, Scenario, run_scenario
from tests.multiprocess.verdict import Verdict

_WORKERS, _COMMITS, _TIMEOUT_S = 8, 50, 900.0
_FULL = {"durability": "full"}
STORES = ("local", "s3")

SCENARIOS: dict[str, Scenario | Mixed | History] = {
    "peace": Scenario(workers=_WORKERS, commits=_COMMITS, settings=_FULL, timeout_s=_TIMEOUT_S),
    "kill": Scenario(
        workers=_WORKERS,
        commits=_COMMITS,
        disturb=lambda: Killer(every_commits=4),
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
    "mixed": Mixed(settings=_FULL, timeout_s=_TIMEOUT_S),
    "mixed-kill": Mixed(settings=_FULL, timeout_s=_TIMEOUT_S, kill_one_in=12),
    "servers": Mixed(
        processes=3,
        servers=2,
        kill_server_every_s=15.0,
        server_kills=2,
        settings=_FULL,
        timeout_s=_TIMEOUT_S,
        kill_one_in=24,
    ),
    "history": History(count=250, kill_every=80, stop_every=120),
    "history-servers": History(
        clients=2, servers=2, count=150, kill_every=60, stop_every=120, kill_server_every_s=10.0
    ),
}


def play(store: str, name: str, scenario: Scenario | Mixed | History) -> bool:
    """Play one scenario on one store and print what came of it; return whether it was clean."""
    folder = Path(tempfile.mkdtemp(prefix=f"soak-{name}-"))
    if store == "local":
        verdict = _run(scenario, str(folder / "g"), {}, folder / "run")
    else:
        with S3Endpoint() as endpoint:
            verdict = _run(scenario, endpoint.fresh_prefix(), endpoint.storage_options, folder / "run")
    print(f"{name:15} {store:6} {verdict}", flush=True)
    for finding in verdict.findings:
        print(f"  {finding}", flush=True)
    if verdict.findings:
        print(f"  journals: {folder}", flush=True)
        return False
    shutil.rmtree(folder)
    return True


def main() -> int:
    """Play the scenarios; 1 when anything was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0, help="how long each mixed scenario lasts on each store")
    parser.add_argument("--only", choices=SCENARIOS, help="play one scenario")
    parser.add_argument("--store", choices=STORES, help="play on one kind of storage")
    parser.add_argument("--seed", type=int, default=1, help="what the dice of the mixed scenarios begin with")
    given = parser.parse_args()
    # An end on request still ends the processes of the run.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    chosen = {name: scenario for name, scenario in SCENARIOS.items() if given.only in {None, name}}
    is_clean = True
    for number, (name, scenario) in enumerate(chosen.items()):
        played = scenario
        if isinstance(scenario, Mixed):
            played = replace(scenario, seconds=60 * given.minutes, seed=given.seed + number)
        for store in STORES if given.store is None else [given.store]:
            started_s = time.monotonic()
            is_clean = play(store, name, played) and is_clean
            while is_clean and isinstance(played, History) and time.monotonic() - started_s < 60 * given.minutes:
                played = replace(played, seed=played.seed + 1)
                is_clean = play(store, name, played)
    return 0 if is_clean else 1


def _run(scenario: Scenario | Mixed | History, root: str, options: dict[str, str], folder: Path) -> Verdict:
    if isinstance(scenario, Mixed):
        return run_mixed(scenario, root, options, folder)
    if isinstance(scenario, History):
        return run_history(scenario, root, options, folder)
    return run_scenario(scenario, root, options, folder)


if __name__ == "__main__":
    sys.exit(main())
