"""One handle that stays open over many random changes, its own and those of others, reads what a plain model holds.

Whatever it keeps in memory of a version is made from what it kept of earlier ones: rows, numbers of nodes, adjacency,
words, keys. Bounds are small, so that everything is folded, sorted anew and thrown away often. A failure names its seed
and step: ``LASTING_SEED=7 pytest tests/prop/test_lasting_handle.py`` runs that seed again.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

import omnigraph
from omnigraph.engine.maintenance import projections
from omnigraph.engine.query.operators import neighbourhood
from omnigraph.engine.query.search import indexes, versions
from omnigraph.engine.query.topology import TopologyCache, added_edges, cache, image, layers, node_numbers, segments
from omnigraph.errors import HistoryGoneError, KeyExistsError, MergeConflictsError, TransactionConflictError
from omnigraph.runtime.environment import CHECKS_VARIABLE
from omnigraph.store.tables import lookup
from tests.marks import first
from tests.prop.lasting_graph import SCHEMA, Change, Changes, ConflictError, Model, merged
from tests.prop.lasting_reads import Read, Reads, whole

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"
SEEDS = [int(os.environ["LASTING_SEED"])] if "LASTING_SEED" in os.environ else range(1000, 1040 if LONG else 1004)
STEPS = 3000 if LONG else 500
# Reads of one form after each step, of all forms and of other states now and then.
_SOME, _ALL_EVERY = 4, 20
_REMEMBERED = 6


class Run:
    """A graph, the handle that lasts, another one, and what every branch and some commits hold."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root, self.seed, self.step = root, seed, 0
        self.random = random.Random(seed)  # noqa: S311 - nothing secret
        self.changes, self.reads = Changes(self.random), Reads(self.random)
        self.tail_limit = self.random.choice((2, 5, 16))
        omnigraph.init(root, SCHEMA).close()
        self.lasting, self.other = self._open(), self._open()
        self.branches = {"main": Model()}
        self.base = Model()
        self.commits: list[tuple[str, Model]] = []
        self.done: Counter[str] = Counter()
        self.recent: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.lasting.close()
        self.other.close()
        if error is not None:
            steps = "\n".join(self.recent[-12:])
            error.add_note(f"seed {self.seed}, step {self.step}, {dict(self.done)}\n{steps}")

    def _open(self) -> omnigraph.Graph:
        settings = omnigraph.TxnSettings(durability="relaxed", line_up=False, tail_limit=self.tail_limit)
        maintenance = omnigraph.MaintenanceSettings(auto_every=0, projection_rows=1, settle_s=0)
        return omnigraph.open(self.root, settings=settings, maintenance=maintenance)

    def run(self, steps: int) -> None:
        """Make so many steps, with reads behind each."""
        ways = (self.change, self.transaction, self.load, self.branch, self.merge, self.optimize, self.cleanup)
        ways += (self.reopen,)
        for self.step in range(1, steps + 1):
            (way,) = self.random.choices(ways, (100, 5, 4, 2, 5, 1, 0.5, 0.5))
            way()
            if self.step % 200 == 0:
                # Drawn so seldom that a run may miss it.
                self.cleanup()
            self.compare()

    def change(self) -> None:
        """One mutation, on any branch, by any handle."""
        name, handle = self._target(), self._writer()
        change = self.changes.draw(self.branches[name], self._half(name))
        self._mutate(handle.branch(name), change, self.branches[name])

    def transaction(self) -> None:
        """A few mutations that are published together or not at all, with reads of what is pending."""
        name = self._target()
        pending = self.branches[name].copied()
        try:
            with self._writer().branch(name).transaction() as transaction:
                first = self.changes.edge_first(pending, self._half(name)) if self.random.random() < 0.4 else None
                rest = self.random.randint(1, 4)
                for change in (*(first or ()), *(None for _ in range(rest))):
                    drawn = change or self.changes.draw(pending, self._half(name))
                    self._mutate(transaction, drawn, pending)
                    if drawn is not (first and first[0]):
                        self._check(transaction, self.random.sample(self._all(pending), 2), "in a transaction")
                if self.random.random() < 0.4:
                    transaction.rollback()
                    pending = self.branches[name]
                    self._note("rollback")
        except TransactionConflictError:
            pending = self.branches[name]
        self.branches[name] = pending
        self._note("transaction")

    def load(self) -> None:
        """Rows that replace others, edges before the nodes that they need."""
        name = self._target()
        rows, apply = self.changes.load(self.branches[name], self._half(name))
        self._writer().branch(name).load(rows, mode="merge")
        apply(self.branches[name])
        self._note("load")

    def branch(self) -> None:
        """Begin a branch, or end the one that there is."""
        if "side" in self.branches:
            self.other.delete_branch("side")
            del self.branches["side"]
            self._note("branch deleted")
        else:
            self.lasting.create_branch("side")
            self.branches["side"] = self.branches["main"].copied()
            self.base = self.branches["main"].copied()
            self._note("branch")

    def merge(self) -> None:
        """Merge the branch, which may be refused; begin one where there is none."""
        if "side" not in self.branches:
            self.branch()
            return
        try:
            self._writer().merge("side")
        except MergeConflictsError:
            self._note("merge refused")
            return
        self._note("merge")
        try:
            self.branches["main"] = merged(self.base, self.branches["main"], self.branches["side"])
        except ConflictError as error:
            raise AssertionError(f"a merge took no notice of a conflict: {error}") from error
        self.base = self.branches["side"].copied()

    def optimize(self) -> None:
        """Compact, index, project."""
        self._writer().branch(self._target()).optimize()
        self._note("optimize")

    def cleanup(self) -> None:
        """Forget old versions."""
        self._writer().cleanup(keep=self.random.randint(3, 12), dry_run=False)
        self._note("cleanup")

    def reopen(self) -> None:
        """Another process takes the place of the other handle."""
        self.other.close()
        self.other = self._open()
        self._note("reopen")

    def compare(self) -> None:
        """Read what has just changed, and now and then everything of every state that is known."""
        is_whole = self.step % _ALL_EVERY == 0
        if not is_whole:
            name = self._target()
            self._check(self.lasting.branch(name), self.random.sample(self._all(self.branches[name]), _SOME), name)
            return
        for name, model in self.branches.items():
            for handle in (self.lasting, self.other):
                self._check(handle.branch(name), self._all(model), f"{name} of {handle}")
        (commit,) = [commit for commit, _ in zip(self.lasting.log(), range(1), strict=False)]
        self.commits = [*self.commits[-_REMEMBERED:], (commit.id, self.branches["main"].copied())]
        for commit_id, model in [self.random.choice(self.commits), self.random.choice(self.commits)]:
            # A cleanup may have removed it.
            with suppress(HistoryGoneError):
                self._check(self.lasting.at(commit_id), self.random.sample(self._all(model), _SOME), commit_id)

    def _all(self, model: Model) -> list[Read]:
        return [*whole(model), *self.reads.draw(model)]

    def _check(self, state, reads: list[Read], where: str) -> None:
        for read in reads:
            found = [tuple(row.values()) for row in state.query(read.text, read.parameters).rows()]
            expected = read.rows
            if not read.is_ordered:
                found, expected = sorted(found, key=repr), sorted(expected, key=repr)
            assert found == expected, f"{where}: {read.text} {read.parameters}"

    def _mutate(self, state, change: Change, model: Model) -> None:
        self._note(change.kind, f"{change.text} {change.parameters}")
        try:
            state.mutate(change.text, change.parameters)
        except KeyExistsError:
            assert change.fails
        else:
            assert not change.fails
            change.apply(model)

    def _note(self, what: str, text: str = "") -> None:
        self.done[what] += 1
        self.recent.append(f"{self.step} {what} {text}")

    def _target(self) -> str:
        return self.random.choice(list(self.branches))

    def _half(self, name: str) -> int | None:
        """Beside another branch each changes entities of its own, so that most merges go through."""
        return None if len(self.branches) == 1 or self.random.random() < 0.02 else int(name == "main")

    def _writer(self) -> omnigraph.Graph:
        return self.other if self.random.random() < 0.3 else self.lasting


def small_bounds(patch: pytest.MonkeyPatch, seed: int) -> None:
    """Let everything happen with few rows that otherwise needs many, in combinations that the seed chooses."""
    choose = random.Random(-seed).choice  # noqa: S311 - nothing secret
    for module, name, values in (
        (cache, "LEAST_EDGES", (0, cache.LEAST_EDGES)),
        (cache, "_FEW_FRESH", (1, 2, 10)),
        (layers, "_OWN_RUN", (1, 64)),
        (layers, "_INSERTED_SHARE", (0, 16)),
        (node_numbers, "_LISTED_SHARE", (0, 8)),
        (added_edges, "_FEW_IDS", (0, 4)),
        (image, "_FEW_SEGMENTS", (1, 32)),
        (segments, "_SLOTS_PER_ROW", (1, 8)),
        (segments, "_FEW_PIECES", (0, 32)),
        (neighbourhood, "_LAYERED_SHARE", (0, 8)),
        (versions, "_FETCHED_ROWS", (0, 2_000)),
        (lookup, "_KEPT_ROWS", (0, lookup._KEPT_ROWS)),
    ):
        patch.setattr(module, name, choose(values))
    patch.setattr(TopologyCache.__init__, "__defaults__", (choose((60_000, cache.DEFAULT_CAPACITY_BYTES)),))
    patch.setitem(indexes.TextIndexes.__init__.__kwdefaults__, "saved_rows", choose((0, indexes.SAVED_ROWS)))
    builders = [
        projections.adjacency_builder(one.build) if one.name == "adjacency" else one for one in projections.BUILDERS
    ]
    patch.setattr(projections, "BUILDERS", builders)


def last(root: Path, seed: int, steps: int, monkeypatch: pytest.MonkeyPatch, *, checks: bool) -> Counter[str]:
    """Run a seed and return how often what was done."""
    small_bounds(monkeypatch, seed)
    monkeypatch.setenv(CHECKS_VARIABLE, "1" if checks else "0")
    with Run(root, seed) as run:
        run.run(steps)
    return run.done


@pytest.mark.parametrize("seed", first(1, [9, 10]))
def test_a_handle_that_stays_open_reads_what_there_is(tmp_path, monkeypatch, seed):
    done = last(tmp_path / "g", seed, 120, monkeypatch, checks=seed == 9)
    assert {"node upsert", "edge insert", "delete", "transaction", "load", "branch"} <= set(done)


@pytest.mark.more
@pytest.mark.timeout(3600 if LONG else 900)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_handle_that_stays_open_for_long_reads_what_there_is(tmp_path, monkeypatch, seed):
    done = last(tmp_path / "g", seed, STEPS, monkeypatch, checks=seed % 2 == 0)
    assert {"merge", "optimize", "cleanup", "rollback"} <= set(done)
