"""The search: every state that a scenario can reach, breadth first, so that a counterexample is a shortest one."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from tests.model.protocol import RESTING, awaited, holder_of, is_quiet, steps
from tests.model.recovering import actor_of
from tests.model.state import Proc, Scenario, State, Writer
from tests.model.storage import Violation, check_outcomes, drift

_LONGEST_ENDING = 400
_REOPENER, _PROBE = "Z", "P"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counterexample:
    """The steps that lead to a broken invariant."""

    scenario: str
    invariant: str
    message: str
    trace: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{self.scenario}: {self.message}"]
        lines += [f"  {number:2}. {label}" for number, label in enumerate(self.trace, 1)]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """What a search covered. ``strays``: quiet states in which a takeover lies about without its claim."""

    states: int
    transitions: int
    quiet: int
    strays: int
    counterexample: Counterexample | None


def explore(scenario: Scenario, *, max_states: int = 2_000_000) -> Exploration:
    """Visit every reachable state once, and let every quiet one be reopened and written to."""
    return _Search(scenario).run(max_states)


class _Search:
    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._came_from: dict[int, tuple[int, str]] = {}
        self._endings: set[int] = set()
        self._quiet = self._strays = self._transitions = 0

    def run(self, max_states: int) -> Exploration:
        start = self._scenario.initial()
        self._came_from[hash(start)] = (0, "")
        queue = deque([start])
        found = None
        while queue and found is None:
            assert len(self._came_from) <= max_states, "the bounds let the scenario grow too large"
            found = self._visit(queue.popleft(), queue)
        return Exploration(
            states=len(self._came_from),
            transitions=self._transitions,
            quiet=self._quiet,
            strays=self._strays,
            counterexample=found,
        )

    def _visit(self, state: State, queue: deque[State]) -> Counterexample | None:
        # Only hashes are kept of states that were visited: sixty-four bits are enough for these numbers.
        here = hash(state)
        try:
            if is_quiet(self._scenario, state):
                self._check_quiet(state)
            for label, after in steps(self._scenario, state):
                self._transitions += 1
                there = hash(after)
                if there not in self._came_from:
                    self._came_from[there] = (here, label)
                    queue.append(after)
        except Violation as violation:
            return Counterexample(
                scenario=self._scenario.name,
                invariant=violation.invariant,
                message=str(violation),
                trace=(*self._trace(here), *violation.last_steps),
            )
        return None

    def _check_quiet(self, state: State) -> None:
        """Everybody is gone or has ended: reopen the graph, write once more, and see that all is well."""
        self._quiet += 1
        check_outcomes(state)
        for proc in state.procs:
            version = awaited(proc)
            if version is not None and holder_of(state, version) == actor_of(self._scenario, proc):
                raise Violation("I8", f"{proc.name} waits for claim {version}, which it holds itself")
        budget = (self._scenario.crashes, self._scenario.lost_answers, self._scenario.power_cuts)
        undisturbed = (state.crashes, state.lost_answers, state.power_cuts) == budget
        has_ended = undisturbed and all(proc.at in RESTING and proc.outcome != "unknown" for proc in state.procs)
        if has_ended and state.claims:
            raise Violation("I6", f"a claim is left although nobody crashed: {state.claims}")
        if has_ended and any(not offer.is_fence for _, offer in state.offers):
            raise Violation("I6", f"an offer is left although nobody crashed: {state.offers}")
        if has_ended and self._scenario.lively:
            _check_everybody_got_through(self._scenario, state)
        is_exact = self._scenario.honest or has_ended
        world = (state.manifest, state.tables, state.claims, state.turns, state.files, state.removed, state.offers)
        # What somebody offered may be published by whoever comes next: then it matters what its owner was told.
        told = tuple(proc.outcome for proc in state.procs) if self._scenario.has_offers else ()
        left = hash((*world, told, is_exact))
        if left not in self._endings:
            self._endings.add(left)
            self._strays += _reopen(self._scenario, state, is_exact=is_exact)

    def _trace(self, here: int) -> list[str]:
        labels: list[str] = []
        while True:
            here, label = self._came_from[here]
            if not label:
                return labels[::-1]
            labels.append(label)


def _check_everybody_got_through(scenario: Scenario, state: State) -> None:
    for writer in scenario.writers:
        outcome = next(proc.outcome for proc in state.procs if proc.name == writer.name)
        if writer.kind == "insert" and not writer.deadline and outcome != "acked":
            raise Violation("L1", f"{writer.name} ends with {outcome} although nothing is in its way")


def _reopen(scenario: Scenario, state: State, *, is_exact: bool) -> bool:
    """Recover every claim without a disturbance, then write to every table; return whether a takeover was left."""
    probe = Writer(name=_PROBE, tables=tuple(range(len(state.tables))), groups=scenario.has_offers)
    alone = replace(
        scenario, writers=(*scenario.writers, probe), honest=False, attempts=4, rounds=9, crashes=0, takeovers=99
    )
    told = tuple(Proc(name=proc.name, at="dead", turn=proc.turn, outcome=proc.outcome) for proc in state.procs)
    state = state._replace(
        procs=(*told, Proc(name=_REOPENER, at="idle")), crashes=0, takeovers=99, lost_answers=0, power_cuts=0
    )
    state = _run_alone(alone, state, _REOPENER)
    if state.claims:
        raise Violation("I6", f"claims are left after recovery: {state.claims}")
    if is_exact and drift(state):
        raise Violation("I6", f"heads are not what is pinned after recovery: tables {drift(state)}")
    has_stray = bool(state.turns)
    state = _run_alone(alone, state._replace(procs=(*told, Proc(name=_PROBE, at="load"))), _PROBE)
    if state.procs[-1].outcome != "acked" or state.claims or drift(state):
        raise Violation("I6", f"the next write ends with {state.procs[-1].outcome}, claims {state.claims}")
    if any(not offer.is_fence for _, offer in state.offers):
        raise Violation("I6", f"offers are left after the next write: {state.offers}")
    check_outcomes(state)
    return has_stray


def _run_alone(scenario: Scenario, state: State, name: str) -> State:
    taken: list[str] = []
    try:
        while len(taken) < _LONGEST_ENDING:
            own = ((label, after) for label, after in steps(scenario, state) if label.startswith(f"{name} "))
            chosen = next(own, None)
            if chosen is None:
                return state
            taken.append(chosen[0])
            state = chosen[1]
    except Violation as violation:
        violation.last_steps = (*taken, *violation.last_steps)
        raise
    endless = Violation("I6", f"{name} does not come to an end")
    endless.last_steps = tuple(taken)
    raise endless
