"""The protocol's transitions: every atomic storage step of writers and recoverers, and what may go wrong between them.

A step reads or changes one thing on storage; what a process computes from it belongs to the step. Kept in step with
``txn.publisher``, ``txn.phases`` and ``txn.recovery``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.model.cleaning import cleaning_steps, upload
from tests.model.offering import (
    POSITIONS,
    after_publish,
    after_recovery,
    has_moved_on,
    offering_steps,
    stands_in_line,
)
from tests.model.recovering import actor_of, recovery_steps
from tests.model.state import Bug, Frame, Move, Plan, Proc, Scenario, State, insert, lookup, remove
from tests.model.storage import Violation, commit_table, cut_power, publish

Step = tuple[str, State]
Moved = tuple[str, State, Proc]
# Positions in which a process has nothing left to do by itself.
RESTING = frozenset({"done", "dead", "idle"})


def steps(scenario: Scenario, state: State) -> Iterator[Step]:
    """Yield every step that can come next: of each process, of requests still under way, and crashes."""
    for number, proc in enumerate(state.procs):
        try:
            for label, after, moved in _proc_steps(scenario, state, proc):
                yield f"{proc.name} {label}", _with(after, number, moved)
        except Violation as violation:
            violation.last_steps = (f"{proc.name} breaks it at {proc.frames[-1].at if proc.frames else proc.at}",)
            raise
        for name in proc.dropping:
            kept = tuple(other for other in proc.dropping if other != name)
            after = state._replace(offers=remove(state.offers, name))
            yield f"{proc.name} deletes the offer of {name[0]}", _with(after, number, proc._replace(dropping=kept))
        for version in () if proc.dropping else proc.releasing:
            rest = tuple(other for other in proc.releasing if other != version)
            after = state._replace(claims=remove(state.claims, version))
            yield f"{proc.name} releases claim {version}", _with(after, number, proc._replace(releasing=rest))
        if state.crashes and not _has_left(proc):
            at = "dead" if scenario.writer(proc.name) or scenario.is_cleaner(proc.name) else "idle"
            gone = Proc(name=proc.name, at=at, turn=proc.turn, outcome=proc.outcome, decision=proc.decision)
            yield f"{proc.name} crashes", _with(state._replace(crashes=state.crashes - 1), number, gone)
    yield from _arrivals(scenario, state)
    for name, offer in state.offers if state.sweeps else ():
        after = state._replace(sweeps=state.sweeps - 1, offers=remove(state.offers, name))
        yield f"somebody sweeps the offer of {offer.owner}", after
    if state.power_cuts:
        procs = tuple(_without_power(scenario, proc) for proc in state.procs)
        yield "the power is cut", cut_power(state)._replace(procs=procs)


def _arrivals(scenario: Scenario, state: State) -> Iterator[Step]:
    """Let requests take effect whose answers nobody waits for any more."""
    for flight in state.flights:
        yield _land_late(scenario, state, flight)
    for name, offer in state.puts:
        puts = tuple(other for other in state.puts if other[0] != name)
        # It is a put that fails when the name is taken.
        offers = state.offers if lookup(state.offers, name) is not None else insert(state.offers, name, offer)
        yield f"the offer of {offer.owner} arrives", state._replace(puts=puts, offers=offers)
    for version in state.deletes:
        deletes = tuple(other for other in state.deletes if other != version)
        after = state._replace(deletes=deletes, claims=remove(state.claims, version))
        yield f"the deletion of claim {version} arrives", after


def is_quiet(scenario: Scenario, state: State) -> bool:
    """Whether everybody has ended, died, or waits for somebody who has."""
    if state.flights or state.puts or state.deletes:
        return False
    return all(_has_left(proc) or _is_stuck(scenario, state, proc) for proc in state.procs)


def _has_left(proc: Proc) -> bool:
    return proc.at in RESTING and not proc.releasing and not proc.dropping


def _proc_steps(scenario: Scenario, state: State, proc: Proc) -> Iterator[Moved]:
    if proc.frames:
        yield from _recovering(scenario, state, proc)
        return
    if scenario.is_cleaner(proc.name):
        yield from cleaning_steps(scenario, state, proc)
        return
    if scenario.has_offers and proc.at in POSITIONS and scenario.writer(proc.name):
        yield from offering_steps(scenario, state, proc)
        if proc.at in {"wait", "withdraw_wait"} and not has_moved_on(state, proc):
            yield from _end_of_another(scenario, state, proc)
        return
    single = _ONE_WAY.get(proc.at)
    if single is not None:
        yield single(scenario, state, proc)
    several = _SEVERAL_WAYS.get(proc.at)
    if several is not None:
        yield from several(scenario, state, proc)


def _load(scenario: Scenario, state: State, proc: Proc) -> Moved:
    """Look at the newest manifest, rebase and stage. Staged files are invisible, so all of it is one step."""
    writer = scenario.writer(proc.name)
    assert writer is not None
    base = len(state.manifest)
    pins = state.manifest[-1].pins
    if proc.attempt == scenario.attempts:
        return "gives up: busy", state, _finished(proc, "none")
    first = proc.first or base
    decided_on = state.manifest[first - 1].pins
    if writer.kind == "update" and any(pins[table] != decided_on[table] for table in writer.tables):
        return "is refused: a table moved", state, _finished(proc, "none")
    row = scenario.row(proc.name)
    moves = tuple(
        Move(table, pins[table], state.tables[table][pins[table] - 1].content + row) for table in writer.tables
    )
    attempt = proc.attempt + 1
    plan = Plan(proc.name, (proc.name, attempt), base, moves)
    if scenario.cleaners:
        state, proc = upload(scenario, state, proc, plan)
    return f"stages upon version {base}", state, proc._replace(at="claim", attempt=attempt, first=first, plan=plan)


def _claim(scenario: Scenario, state: State, proc: Proc) -> Moved:
    """Phase A."""
    plan = proc.plan
    assert plan is not None
    if lookup(state.claims, plan.target) is not None and Bug.SHARED_CLAIM not in scenario.bugs:
        return f"finds claim {plan.target} taken", state, proc._replace(at="wait")
    after = state._replace(claims=insert(state.claims, plan.target, plan))
    # A writer that has met nobody goes on without another look: a stale base can only lose the compare-and-swap.
    at = "tables" if proc.attempt == 1 else "probe"
    return f"claims {plan.target}", after, proc._replace(at=at, todo=plan.moves)


def _probe(_: Scenario, state: State, proc: Proc) -> Moved:
    plan = proc.plan
    assert plan is not None
    if len(state.manifest) == plan.base:
        return "probes: still current", state, proc._replace(at="tables")
    return "probes: moved", state, _retrying(proc, releasing=plan.target)


def _release_early(_: Scenario, state: State, proc: Proc) -> Moved:
    plan = proc.plan
    assert plan is not None
    after = state._replace(claims=remove(state.claims, plan.target))
    return "releases its claim", after, proc._replace(at="publish")


def _wait(scenario: Scenario, state: State, proc: Proc) -> Iterator[Moved]:
    plan = proc.plan
    assert plan is not None
    if len(state.manifest) != plan.base or lookup(state.claims, plan.target) is None:
        yield _load(scenario, state, _retrying(proc))
    else:
        yield from _end_of_another(scenario, state, proc)


def _end_of_another(scenario: Scenario, state: State, proc: Proc) -> Iterator[Moved]:
    version = awaited(proc)
    assert version is not None
    if may_take_over(scenario, state, proc, version):
        after, frame = _begin_recovery(state, actor_of(scenario, proc), version)
        yield f"takes claim {version} over", after, proc._replace(frames=(frame,))


def _commit_tables(scenario: Scenario, state: State, proc: Proc) -> Iterator[Moved]:
    """Phase B: tables in any order, all of them tried before the first failure counts."""
    plan = proc.plan
    assert plan is not None
    for move in proc.todo:
        todo = tuple(other for other in proc.todo if other is not move)
        name = "XY"[move.table]
        landed, after = commit_table(scenario, state, plan, move, is_undo=False)
        label = f"commits {name} on version {move.before}{'' if landed else ': lost'}"
        yield label, after, _after_tables(scenario, proc, todo, proc.failed if landed else (proc.failed or "moved"))
        if state.lost_answers and scenario.losing == "any":
            flying = state._replace(lost_answers=state.lost_answers - 1, flights=(*state.flights, (plan, move)))
            yield f"commits {name}: no answer", flying, _after_tables(scenario, proc, todo, "storage")


def _after_tables(scenario: Scenario, proc: Proc, todo: tuple[Move, ...], failed: str) -> Proc:
    moved = proc._replace(todo=todo, failed=failed)  # type: ignore[arg-type] # the three literals of the field
    if todo:
        return moved
    if failed:
        return _ending(moved)
    return moved._replace(at="early_release" if Bug.EARLY_RELEASE in scenario.bugs else "publish")


def _publish(scenario: Scenario, state: State, proc: Proc) -> Iterator[Moved]:
    """Phase C; the release, phase D, runs behind the acknowledgement."""
    plan = proc.plan
    assert plan is not None
    won, after = publish(scenario, state, plan)
    if won and plan.members:
        yield "publishes", after, after_publish(scenario, after, proc)
    elif won:
        yield "publishes and acknowledges", after, _finished(proc, "acked", releasing=plan.target)
    else:
        yield "publishes: lost", after, _ending(proc._replace(failed="moved"))
    if state.lost_answers and scenario.losing == "any":
        flying = state._replace(lost_answers=state.lost_answers - 1, flights=(*state.flights, (plan, None)))
        yield "publishes: no answer", flying, _ending(proc._replace(failed="storage"))


def _ending(proc: Proc) -> Proc:
    assert proc.plan is not None
    return proc._replace(at="ending", todo=(), frames=(Frame("load", proc.plan),))


def _recovering(scenario: Scenario, state: State, proc: Proc) -> Iterator[Moved]:
    *outer, frame = proc.frames
    if frame.at == "load" and frame.lost > scenario.rounds:
        yield "gives up recovering", state, _gave_up(scenario, proc)
        return
    if frame.at == "heal_wait" and may_take_over(scenario, state, proc, frame.base + 1):
        actor = actor_of(scenario, proc)
        after, inner = _begin_recovery(state, actor, frame.base + 1)
        again = Frame("load", frame.plan, lost=frame.lost)
        yield f"takes claim {frame.base + 1} over", after, proc._replace(frames=(*outer, again, inner))
    for label, after, moved in recovery_steps(scenario, state, proc, frame):
        if moved or outer:
            yield f"recovering: {label}", after, proc._replace(frames=(*outer, *moved))
        else:
            yield f"recovering: {label}", after, _recovered(scenario, after, proc, forward=frame.forward)


def _recovered(scenario: Scenario, state: State, proc: Proc, *, forward: bool) -> Proc:
    """What a process does when its recovery has ended."""
    if proc.at in {"idle", "took_over"}:
        return Proc(name=proc.name, at="idle", turn=proc.turn, outcome=proc.outcome)
    if scenario.has_offers:
        return after_recovery(scenario, state, proc, forward=forward)
    if proc.at == "wait":
        return _retrying(proc)
    if forward:
        return _finished(proc, "acked")
    return _retrying(proc) if proc.failed == "moved" else _finished(proc, "none")


def _gave_up(scenario: Scenario, proc: Proc) -> Proc:
    """Too many rounds: the claim stays for whoever comes next, and a writer cannot tell what became of its write."""
    if scenario.writer(proc.name):
        return _finished(proc, "unknown")
    return Proc(name=proc.name, at="idle", turn=proc.turn, outcome="unknown")


def _read_claims(scenario: Scenario, state: State, proc: Proc) -> Iterator[Moved]:
    for version, plan in state.claims:
        if may_take_over(scenario, state, proc, version):
            after = state._replace(takeovers=state.takeovers - 1)
            turn = lookup(state.turns, version) or (0, "")
            moved = proc._replace(at="take_over", plan=plan, attempt=turn[0], turn=proc.turn + 1)
            yield f"reads claim {version} of {plan.actor}", after, moved


def _take_over(scenario: Scenario, state: State, proc: Proc) -> Moved:
    plan = proc.plan
    assert plan is not None
    turn = lookup(state.turns, plan.target) or (0, "")
    if turn[0] > proc.attempt and Bug.SHARED_CLAIM not in scenario.bugs:
        return "finds the takeover taken", state, Proc(name=proc.name, at="idle", turn=proc.turn, outcome=proc.outcome)
    sign = (proc.attempt + 1, actor_of(scenario, proc))
    after = state._replace(turns=insert(state.turns, plan.target, sign))
    moved = proc._replace(at="took_over", plan=None, attempt=0, frames=(Frame("load", plan),))
    return f"takes claim {plan.target} over", after, moved


def may_take_over(scenario: Scenario, state: State, proc: Proc, version: int) -> bool:
    """Whether ``proc`` may presume the holder of a claim dead at this moment."""
    holder = holder_of(state, version)
    if holder in {None, actor_of(scenario, proc)} or not state.takeovers or len(proc.frames) > 1:
        return False
    assert holder is not None
    return not scenario.honest or _is_gone(state, holder, version)


def _is_gone(state: State, actor: str, version: int) -> bool:
    name, _, turn = actor.partition(".")
    for proc in state.procs:
        if proc.name == name:
            if turn:
                return proc.at == "idle" or str(proc.turn) != turn
            return proc.at in RESTING and version not in proc.releasing
    return True


def _begin_recovery(state: State, actor: str, version: int) -> tuple[State, Frame]:
    turn = lookup(state.turns, version) or (0, "")
    after = state._replace(takeovers=state.takeovers - 1, turns=insert(state.turns, version, (turn[0] + 1, actor)))
    return after, Frame("load", lookup(state.claims, version))


def _is_stuck(scenario: Scenario, state: State, proc: Proc) -> bool:
    return awaited(proc) is not None and not proc.releasing and next(_proc_steps(scenario, state, proc), None) is None


def awaited(proc: Proc) -> int | None:
    """Return the claim that a process waits for, if it does."""
    if proc.frames:
        return proc.frames[-1].base + 1 if proc.frames[-1].at == "heal_wait" else None
    if proc.at == "withdraw_wait":
        return stands_in_line(proc)
    return proc.plan.target if proc.at in {"wait", "record_wait"} and proc.plan is not None else None


def holder_of(state: State, version: int) -> str | None:
    """Return who holds a claim: its owner, or the recoverer with the last turn."""
    plan = lookup(state.claims, version)
    turn = lookup(state.turns, version)
    return None if plan is None else plan.actor if turn is None else turn[1]


def _land_late(scenario: Scenario, state: State, flight: tuple[Plan, Move | None]) -> Step:
    plan, move = flight
    left = state._replace(flights=tuple(other for other in state.flights if other is not flight))
    if move is None:
        _, after = publish(scenario, left, plan)
        return f"the publish of {plan.actor} arrives", after
    _, after = commit_table(scenario, left, plan, move, is_undo=False)
    return f"the commit of {plan.actor} on {'XY'[move.table]} arrives", after


def _retrying(proc: Proc, *, releasing: int | None = None) -> Proc:
    left = proc.releasing if releasing is None else tuple(sorted({*proc.releasing, releasing}))
    return Proc(
        name=proc.name,
        at="load",
        attempt=proc.attempt,
        first=proc.first,
        turn=proc.turn,
        releasing=left,
        staged=proc.staged,
    )


def _finished(proc: Proc, outcome: str, *, releasing: int | None = None) -> Proc:
    left = proc.releasing if releasing is None else tuple(sorted({*proc.releasing, releasing}))
    return Proc(name=proc.name, at="done", turn=proc.turn, releasing=left, outcome=outcome)  # type: ignore[arg-type] # one of its literals


def _without_power(scenario: Scenario, proc: Proc) -> Proc:
    at = "dead" if scenario.writer(proc.name) else "idle"
    return Proc(name=proc.name, at=at, turn=proc.turn, outcome=proc.outcome, decision=proc.decision)


def _with(state: State, number: int, proc: Proc) -> State:
    procs = list(state.procs)
    procs[number] = proc
    return state._replace(procs=tuple(procs))


_ONE_WAY: dict[str, Callable[[Scenario, State, Proc], Moved]] = {
    "load": _load,
    "claim": _claim,
    "probe": _probe,
    "early_release": _release_early,
    "take_over": _take_over,
}
_SEVERAL_WAYS: dict[str, Callable[[Scenario, State, Proc], Iterator[Moved]]] = {
    "wait": _wait,
    "tables": _commit_tables,
    "publish": _publish,
    "idle": _read_claims,
}
