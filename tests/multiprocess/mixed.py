"""The mixed scenario: processes that load, ask, branch, merge, undo, optimize and clean up one graph, all at once.

Some of them may do it through servers, which are killed as well.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import omnigraph
from tests.multiprocess.fleet import Fleet
from tests.multiprocess.ground import Ground
from tests.multiprocess.mixed_content import SCHEMA, SHARED, Change, to_lines
from tests.multiprocess.mixed_verdict import judge_mixed
from tests.multiprocess.servers import Servers
from tests.multiprocess.verdict import Verdict

_TICK_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixed:
    """How many processes do at least how many deeds, at least how long; ``kill_one_in`` 0 leaves them in peace.

    Beside the ``processes`` that open the graph themselves there is one for each of the ``servers``, which asks it.
    ``kill_server_every_s`` 0 leaves the servers in peace; ``server_kills`` is how many kills the run waits for.
    """

    processes: int = 4
    servers: int = 0
    kill_server_every_s: float = 0.0
    server_kills: int = 0
    deeds: int = 10
    seconds: float = 0.0
    kill_one_in: int = 0
    seed: int = 1
    settings: Mapping[str, Any] = field(default_factory=lambda: {"durability": "relaxed"})
    timeout_s: float = 600.0


def run_mixed(mixed: Mixed, root: str, options: Mapping[str, str], folder: Path) -> Verdict:
    """Play the scenario on a graph that it creates at ``root`` and judge what it leaves."""
    folder.mkdir(parents=True, exist_ok=True)
    ground = Ground(root=root, folder=str(folder), options=dict(options), settings=dict(mixed.settings))
    ground.save()
    _seed(ground)
    arguments = (str(mixed.deeds), str(mixed.seed), str(mixed.kill_one_in))
    with Servers(ground, mixed.servers, mixed.kill_server_every_s) as servers:
        ground = replace(ground, addresses=servers.addresses(first=mixed.processes))
        ground.save()
        with Fleet(ground, role="mixed_worker", arguments=arguments, is_mortal=mixed.kill_one_in > 0) as fleet:
            seconds = _play(mixed, fleet, servers)
    verdict = judge_mixed(ground, fleet, seconds)
    findings = (*verdict.findings, *servers.findings())
    return Verdict(findings=findings, figures={**verdict.figures, "server_kills": servers.kills})


def _seed(ground: Ground) -> None:
    path = ground.path("seed-input.jsonl")
    path.write_text(to_lines(Change(put=dict.fromkeys(SHARED, 0)), 0), encoding="utf-8")
    with omnigraph.init(
        ground.root, SCHEMA, storage_options=ground.options, settings=ground.txn_settings, actor="seed"
    ) as graph:
        graph.load(path, actor="seed")


def _play(mixed: Mixed, fleet: Fleet, servers: Servers) -> float:
    """Run until every process has done its deeds and the time is over; return how long that was."""
    started_s = time.monotonic()
    for _ in range(mixed.processes + mixed.servers):
        fleet.start_worker()
    while not all(slot.is_done for slot in fleet.slots):
        elapsed_s = time.monotonic() - started_s
        if elapsed_s > mixed.timeout_s + mixed.seconds:
            fleet.ask_where()
            fleet.failures.append(f"processes are stuck after={elapsed_s:.0f}s")
            time.sleep(1.0)
            break
        fleet.tend()
        is_ending = elapsed_s >= mixed.seconds and servers.kills >= mixed.server_kills
        if is_ending or fleet.failures:
            fleet.ground.path("finish").touch()
        servers.tend(elapsed_s, is_ending=is_ending)
        time.sleep(_TICK_S)
    return time.monotonic() - started_s
