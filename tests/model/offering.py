"""Offers in the model: a writer that waits puts its write where the holder of the next version takes it along.

Owners offer, look for their commit, withdraw with proof, decide again or give up; holders list, stage a group, claim,
verify and, when it is published, delete what they took. A writer may be both. Kept in step with ``txn.offers``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.model.groups import accept, holds, is_published, plan_group
from tests.model.state import Bug, Frame, Offer, Proc, Scenario, State, Writer, insert, lookup, remove
from tests.model.storage import Violation, synced

Moved = tuple[str, State, Proc]


def offering_steps(scenario: Scenario, state: State, proc: Proc) -> Iterator[Moved]:
    """Yield what a writer can do next outside its window."""
    several = _SEVERAL_WAYS.get(proc.at)
    if several is not None:
        yield from several(scenario, state, proc)
    else:
        yield _ONE_WAY[proc.at](scenario, state, proc)
    if proc.at in {"load", "wait"} and proc.offer and _writer(scenario, proc).deadline:
        yield "is out of time", state, _giving_up(scenario, proc, "none")


def after_publish(scenario: Scenario, state: State, proc: Proc) -> Proc:
    """Phase C has succeeded: sync, acknowledge, then delete the offers that went along and the claim."""
    if scenario.power_cuts:
        return proc._replace(at="sync")
    return _acknowledged(scenario, state, proc)


def after_recovery(scenario: Scenario, state: State, proc: Proc, *, forward: bool) -> Proc:
    """What a writer does when it has ended its own plan, or the claim that it waited for."""
    if proc.at == "withdraw_wait":
        return proc._replace(at="withdraw_look", frames=())
    if proc.at == "wait":
        return _again(proc)
    if forward:
        assert proc.plan is not None
        return _acknowledged(scenario, state, proc._replace(frames=()), is_released=True)
    if proc.failed == "moved":
        return _again(proc)
    return _giving_up(scenario, _again(proc), "none")


def stands_in_line(proc: Proc) -> int | None:
    """Return the claim whose end a writer waits for, if it does."""
    if proc.at == "wait" and proc.plan is not None:
        return proc.plan.target
    return proc.base + 1 if proc.at == "withdraw_wait" else None


def has_moved_on(state: State, proc: Proc) -> bool:
    """Whether what a writer waits for is over."""
    version = stands_in_line(proc)
    assert version is not None
    return len(state.manifest) >= version or lookup(state.claims, version) is None


def look_again(scenario: Scenario, state: State, proc: Proc) -> Moved:
    """Go on after a wait."""
    if proc.at == "wait":
        return _load(scenario, state, _again(proc))
    return _withdraw_look(scenario, state, proc._replace(at="withdraw_look"))


# What an owner does


def _load(scenario: Scenario, state: State, proc: Proc) -> Moved:
    """Look at the newest version: for the own commit, for what the write was decided on, and then try upon it."""
    writer, newest = _writer(scenario, proc), len(state.manifest)
    if not proc.decision:
        return _decide(scenario, state, proc)
    if Bug.UNSEEN not in scenario.bugs and is_published(state, proc.name, newest):
        return "finds its commit", state, _found(scenario, state, proc)
    if proc.attempt == scenario.attempts:
        return "gives up: busy", state, _giving_up(scenario, proc, "none")
    is_good = holds(scenario, state, writer, proc.first, newest)
    if writer.kind == "restless" and newest > proc.first:
        is_good = False
    if not is_good:
        ending = "none" if writer.kind in {"update", "schema"} else "again"
        return "no longer holds", state, _giving_up(scenario, proc, ending)
    at = "list" if writer.groups else "stage"
    lay = tuple(name for name, _ in state.offers) if scenario.attentive and proc.attempt else ()
    return f"loads version {newest}", state, proc._replace(at=at, attempt=proc.attempt + 1, base=newest, lay=lay)


def _decide(scenario: Scenario, state: State, proc: Proc) -> Moved:
    newest = len(state.manifest)
    at = "offer" if _writer(scenario, proc).offers else "load"
    moved = proc._replace(at=at, decision=proc.decision + 1, first=newest, base=0)
    return f"decides upon version {newest}", state, moved


def _offer(scenario: Scenario, state: State, proc: Proc) -> Iterator[Moved]:
    """Put the offer. Names are fresh, so that nobody ever finds one taken."""
    name = (proc.name, 1 if Bug.REUSED_NAME in scenario.bugs else proc.decision)
    offer = Offer(proc.name, proc.decision, proc.first)
    moved = proc._replace(at="load", offer=name, is_unsure=False, has_deleted=False)
    yield f"offers {proc.decision}", state._replace(offers=insert(state.offers, name, offer)), moved
    if state.lost_answers and scenario.losing != "take_back":
        flying = state._replace(lost_answers=state.lost_answers - 1, puts=(*state.puts, (name, offer)))
        yield f"offers {proc.decision}: no answer", flying, moved._replace(is_unsure=True)


def _found(scenario: Scenario, state: State, proc: Proc) -> Proc:
    """The own commit was published by somebody: it may be acknowledged when it is on the disk."""
    if scenario.power_cuts and Bug.ACKED_UNSYNCED not in scenario.bugs:
        return proc._replace(at="found")
    return _acknowledged(scenario, state, proc)


def _make_sure(scenario: Scenario, state: State, proc: Proc) -> Moved:
    """Holders delete offers when they have synced. One that is still there, or that the owner deleted, says nothing."""
    is_told = lookup(state.offers, proc.offer) is None and not proc.is_unsure
    if Bug.TRUSTED_LATE not in scenario.bugs:
        # Nobody sweeps the offer of a process that it cannot look at before its time is over.
        is_told = is_told and state.sweeps == scenario.sweeps
    if Bug.OWN_DELETION not in scenario.bugs:
        is_told = is_told and not proc.has_deleted
    if is_told:
        return "sees that its offer is gone", state, _acknowledged(scenario, state, proc)
    return "syncs what was published", synced(scenario, state), _acknowledged(scenario, state, proc)


def _acknowledged(scenario: Scenario, state: State, proc: Proc, *, is_released: bool = False) -> Proc:
    """Tell the caller; offers and the claim go behind that."""
    dropping, releasing = set(proc.dropping), set(proc.releasing)
    if proc.offer and lookup(state.offers, proc.offer) is not None:
        dropping.add(proc.offer)
    if proc.plan is not None and proc.at not in {"load", "found"}:
        dropping |= {*proc.plan.carried, *proc.sweeping}
        if not is_released:
            releasing.add(proc.plan.target)
    return Proc(
        name=proc.name,
        at="done",
        turn=proc.turn,
        decision=proc.decision,
        releasing=tuple(sorted(releasing)),
        dropping=tuple(sorted(dropping)),
        outcome="acked",
    )


# What withdraws an offer


def _giving_up(scenario: Scenario, proc: Proc, ending: str) -> Proc:
    """End without an effect, or decide again: either way nobody may publish what was offered."""
    moved = proc._replace(ending=ending, plan=None, taken=(), sweeping=(), lay=())  # type: ignore[arg-type] # one of its literals
    if not proc.offer or (ending == "again" and Bug.RERUN_UNPROVEN in scenario.bugs):
        return _proven(moved)
    if Bug.LOOK_BEFORE_DELETE in scenario.bugs:
        return moved._replace(at="withdraw_look")
    fences = proc.is_unsure and Bug.UNFENCED not in scenario.bugs
    return moved._replace(at="withdraw_fence" if fences else "withdraw_delete")


def _proven(proc: Proc) -> Proc:
    if proc.ending == "again":
        return proc._replace(at="decide", ending="", base=0)
    return Proc(
        name=proc.name,
        at="done",
        turn=proc.turn,
        decision=proc.decision,
        releasing=proc.releasing,
        dropping=proc.dropping,
        outcome="none",
    )


def _withdraw_fence(_: Scenario, state: State, proc: Proc) -> Moved:
    """Nobody knows whether the put arrives: take its name. Whoever finds it taken knows that it has arrived."""
    if lookup(state.offers, proc.offer) is not None:
        return "finds that its offer has arrived", state, proc._replace(at="withdraw_delete")
    fence = Offer(proc.name, 0, 0, is_fence=True)
    after = state._replace(offers=insert(state.offers, proc.offer, fence))
    return "fences its offer off", after, proc._replace(at="withdraw_look", has_deleted=True)


def _withdraw_delete(scenario: Scenario, state: State, proc: Proc) -> Moved:
    after = state._replace(offers=remove(state.offers, proc.offer))
    moved = proc._replace(has_deleted=True)
    if Bug.NONE_UNPROVEN in scenario.bugs or Bug.LOOK_BEFORE_DELETE in scenario.bugs:
        return "withdraws its offer", after, _proven(moved)
    return "withdraws its offer", after, moved._replace(at="withdraw_look")


def _withdraw_look(scenario: Scenario, state: State, proc: Proc) -> Moved:
    newest = len(state.manifest)
    is_looked_for = proc.ending != "none" or Bug.FAILED_UNSEEN not in scenario.bugs
    if is_looked_for and is_published(state, proc.name, newest):
        return "finds its commit after all", state, _found(scenario, state, proc._replace(at="found"))
    return f"sees version {newest}", state, proc._replace(at="withdraw_claim", base=newest)


def _withdraw_claim(scenario: Scenario, state: State, proc: Proc) -> Moved:
    """Read the claim of the next version: a holder that claims it from now on misses the offer when it verifies."""
    plan = lookup(state.claims, proc.base + 1)
    if plan is not None and any(member.owner == proc.name for member in plan.members):
        return f"sees itself in claim {proc.base + 1}", state, proc._replace(at="withdraw_wait")
    trusting = Bug.SINGLE_LOOK if plan is None else Bug.FOREIGN_CLAIM_PROVES
    label = f"sees {'no claim' if plan is None else 'another claim'} {proc.base + 1}"
    if trusting in scenario.bugs:
        return label, state, _without_offer(scenario, proc)
    return label, state, proc._replace(at="withdraw_second")


def _withdraw_second(scenario: Scenario, state: State, proc: Proc) -> Moved:
    if len(state.manifest) == proc.base:
        return f"still sees version {proc.base}", state, _without_offer(scenario, proc)
    return _withdraw_look(scenario, state, proc)


def _without_offer(scenario: Scenario, proc: Proc) -> Proc:
    if Bug.LOOK_BEFORE_DELETE in scenario.bugs:
        return proc._replace(at="withdraw_delete")
    return _proven(proc._replace(offer=()))


# What a holder does


def _list(scenario: Scenario, state: State, proc: Proc) -> Moved:
    """List and read the offers, check them behind the own write, and stage what holds."""
    writer = _writer(scenario, proc)
    taken, useless, all_hold = accept(scenario, state, writer, proc.base)
    if Bug.STALE_GROUP in scenario.bugs and proc.taken:
        taken = proc.taken
    if Bug.NEVER_LISTS in scenario.bugs:
        taken = ()
    if Bug.FAILED_GROUP in scenario.bugs and not all_hold:
        return "fails with its group", state, _giving_up(scenario, proc, "none")
    plan = plan_group(scenario, state, proc, proc.base, taken)
    if not plan.moves and Bug.EMPTY_GROUP not in scenario.bugs:
        # Recovery finishes it also when nobody has looked whether the offers are still there.
        taken = ()
        plan = plan_group(scenario, state, proc, proc.base, taken)
    names = " and ".join(["itself", *(member.owner for member in taken)])
    return f"stages {names}", state, proc._replace(at="claim", plan=plan, taken=taken, sweeping=useless)


def _stage(scenario: Scenario, state: State, proc: Proc) -> Moved:
    plan = plan_group(scenario, state, proc, proc.base, ())
    return f"stages upon version {proc.base}", state, proc._replace(at="claim", plan=plan)


def _claim(scenario: Scenario, state: State, proc: Proc) -> Moved:
    plan = proc.plan
    assert plan is not None
    if lookup(state.claims, plan.target) is not None:
        return f"finds claim {plan.target} taken", state, proc._replace(at="wait")
    for name in proc.lay:
        offer = lookup(state.offers, name)
        owner = None if offer is None else scenario.writer(offer.owner)
        if owner is None or owner.name == proc.name or offer.base > plan.base or offer.is_fence:
            continue
        is_due = holds(scenario, state, owner, offer.base, plan.base, frozenset(_writer(scenario, proc).tables))
        if is_due and not is_published(state, owner.name, plan.base) and name not in plan.carried:
            raise Violation("L2", f"{proc.name} has waited and claims {plan.target} without the offer of {owner.name}")
    after = state._replace(claims=insert(state.claims, plan.target, plan))
    # A writer that has met nobody goes on without another look: a stale base can only lose the compare-and-swap.
    at = "probe" if proc.attempt > 1 else _after_probe(scenario, proc)
    return f"claims {plan.target}", after, proc._replace(at=at, todo=plan.moves, lay=())


def _probe(scenario: Scenario, state: State, proc: Proc) -> Moved:
    plan = proc.plan
    assert plan is not None
    if len(state.manifest) == plan.base:
        return "probes: still current", state, proc._replace(at=_after_probe(scenario, proc))
    return "probes: moved", state, _releasing(_again(proc), plan.target)


def _after_probe(scenario: Scenario, proc: Proc) -> str:
    plan = proc.plan
    assert plan is not None
    if plan.carried and Bug.UNVERIFIED not in scenario.bugs:
        return "verify"
    if plan.carried and Bug.DROPPED_EARLY in scenario.bugs:
        return "early_drop"
    return "tables" if plan.moves else "publish"


def _verify(scenario: Scenario, state: State, proc: Proc) -> Moved:
    plan = proc.plan
    assert plan is not None
    if all(lookup(state.offers, name) is not None for name in plan.carried):
        at = "early_drop" if Bug.DROPPED_EARLY in scenario.bugs else "tables" if plan.moves else "publish"
        return "verifies its offers", state, proc._replace(at=at)
    return "misses an offer", state, proc._replace(at="take_back")


def _take_back(scenario: Scenario, state: State, proc: Proc) -> Iterator[Moved]:
    """Nothing has moved, so the claim may go without recovery, unless somebody else has ended it."""
    plan = proc.plan
    assert plan is not None
    found = lookup(state.claims, plan.target)
    if found is None or found.uuid != plan.uuid:
        yield f"finds claim {plan.target} ended", state, _again(proc)
        return
    after = state._replace(claims=remove(state.claims, plan.target))
    yield f"takes claim {plan.target} back", after, _again(proc)
    if not state.lost_answers or scenario.losing == "offer":
        return
    label = f"takes claim {plan.target} back: no answer"
    if Bug.BLIND_RETRY in scenario.bugs:
        yield label, after._replace(lost_answers=0), _releasing(_again(proc), plan.target)
        return
    # The version is used up, so that the deletion may arrive when it likes.
    flying = state._replace(lost_answers=state.lost_answers - 1, deletes=(*state.deletes, plan.target))
    yield label, flying, proc._replace(at="ending", failed="moved", todo=(), frames=(Frame("load", plan),))


def _drop_early(_: Scenario, state: State, proc: Proc) -> Moved:
    plan = proc.plan
    assert plan is not None
    offers = tuple((name, offer) for name, offer in state.offers if name not in plan.carried)
    return "deletes its offers", state._replace(offers=offers), proc._replace(at="tables")


def _sync(scenario: Scenario, state: State, proc: Proc) -> Moved:
    after = synced(scenario, state)
    return "syncs and acknowledges", after, _acknowledged(scenario, after, proc)


def _again(proc: Proc) -> Proc:
    return proc._replace(at="load", plan=None, todo=(), failed="", frames=(), sweeping=(), lay=())


def _releasing(proc: Proc, version: int) -> Proc:
    return proc._replace(releasing=tuple(sorted({*proc.releasing, version})))


def _writer(scenario: Scenario, proc: Proc) -> Writer:
    writer = scenario.writer(proc.name)
    assert writer is not None
    return writer


def _wait(scenario: Scenario, state: State, proc: Proc) -> Iterator[Moved]:
    if has_moved_on(state, proc):
        yield look_again(scenario, state, proc)


_ONE_WAY: dict[str, Callable[[Scenario, State, Proc], Moved]] = {
    "load": _load,
    "decide": _decide,
    "found": _make_sure,
    "withdraw_fence": _withdraw_fence,
    "withdraw_delete": _withdraw_delete,
    "withdraw_look": _withdraw_look,
    "withdraw_claim": _withdraw_claim,
    "withdraw_second": _withdraw_second,
    "list": _list,
    "stage": _stage,
    "claim": _claim,
    "probe": _probe,
    "verify": _verify,
    "early_drop": _drop_early,
    "sync": _sync,
}
_SEVERAL_WAYS: dict[str, Callable[[Scenario, State, Proc], Iterator[Moved]]] = {
    "offer": _offer,
    "take_back": _take_back,
    "wait": _wait,
    "withdraw_wait": _wait,
}
POSITIONS = frozenset({*_ONE_WAY, *_SEVERAL_WAYS})
