"""How fast the log and blame are on a long history with merged branches, beside one of a tenth of its length."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table
from tests.session import Session

from omnigraph.engine.open_graph import init_graph
from omnigraph.store.location import Storage
from omnigraph.txn.settings import TxnSettings

SCHEMA = "node Person { name: String @key  a: I32?  b: I32? }"
UPDATE = 'query u($a: I32) { update Person set { a: $a } where name = "hot" }'
ON_BRANCH = 'query u($b: I32) { update Person set { b: $b } where name = "hot" }'
SEED = 'query s() { insert Person { name: "hot" } insert Person { name: "cold" } insert Person { name: "side" } }'
SETTINGS = TxnSettings(durability="relaxed")
# One commit in so many is made on a branch of its own, which is merged and deleted.
MERGE_EVERY = 20
SHORTER = 10


@dataclass(frozen=True)
class Answer:
    """Median seconds by question, of the long history and of the shorter one."""

    commits: int
    long_s: dict[str, float]
    short_s: dict[str, float]


def measure(work: Path, commits: int, rounds: int) -> Answer:
    """Build both histories, unless they are there, and ask each the same."""
    return Answer(
        commits=commits,
        long_s=_ask(_build(work, commits), rounds),
        short_s=_ask(_build(work, max(MERGE_EVERY, commits // SHORTER)), rounds),
    )


def show(answer: Answer) -> Table:
    """Return the figures as a table."""
    title = f"{answer.commits:,} commits, one in {MERGE_EVERY} merged"
    table = Table(title, "median ms", f"ratio to {answer.commits // SHORTER:,} commits")
    for name, took_s in answer.long_s.items():
        table.add_row(name, f"{took_s * 1000:.1f}", f"{took_s / answer.short_s[name]:.2f}")
    return table


def _build(work: Path, commits: int) -> Storage:
    root = work / f"lineage-{commits}"
    storage = Storage.open(str(root))
    if root.exists():
        return storage
    init_graph(storage, SCHEMA, settings=SETTINGS)
    with Session.open(storage, settings=SETTINGS) as session:
        session.mutate(SEED)
        for number in range(commits):
            if number % MERGE_EVERY:
                session.mutate(UPDATE, {"a": number})
                continue
            session.create_branch("side")
            session.mutate(ON_BRANCH, {"b": number}, branch="side", actor="author")
            session.merge("side", actor="merger")
            session.delete_branch("side")
    return storage


def _ask(storage: Storage, rounds: int) -> dict[str, float]:
    """Ask every question of a process that has nothing in memory but the newest state."""
    questions: dict[str, Callable[[Session], object]] = {
        "newest page of the log": lambda session: session.log(limit=20),
        "newest page of the full log": lambda session: session.log(limit=20, full=True),
        "a commit by its id, merged long ago": lambda session: session.get_commit(oldest),
        "blame of what never changed": lambda session: session.blame("Person", "cold"),
        "blame of what changes all the time": lambda session: session.blame("Person", "hot"),
    }
    with Session.open(storage, mode="read_only") as session:
        log = session.log(limit=1_000_000, full=True).commits
        oldest = str(next(commit.id for commit in reversed(log) if commit.branch == "side"))
    took: dict[str, list[float]] = {name: [] for name in questions}
    for _ in range(rounds):
        for name, ask in questions.items():
            with Session.open(storage, mode="read_only") as session:
                started_s = time.perf_counter()
                ask(session)
                took[name].append(time.perf_counter() - started_s)
    return {name: statistics.median(values) for name, values in took.items()}
