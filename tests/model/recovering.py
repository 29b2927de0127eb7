"""Recovery in the model: the steps of ``Recoverer.resolve`` on one plan, whoever runs it.

The names of the steps follow the code: load, observe, then forward, undo or heal, and the release. Writers run this
for their own plan when their window fails, recoverers for a claim they took over.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.groups import was_published
from tests.model.state import Bug, Frame, Move, Plan, Proc, Scenario, Seen, State, commit_id, insert, lookup, remove
from tests.model.storage import Violation, commit_table, publish, synced

# What a step did, with the frames that take the place of the innermost recovery: none when it has ended.
Stepped = tuple[str, State, tuple[Frame, ...]]


def actor_of(scenario: Scenario, proc: Proc) -> str:
    """Under whose name a process acts; a recoverer that was restarted is somebody else."""
    return proc.name if scenario.writer(proc.name) else f"{proc.name}.{proc.turn}"


def recovery_steps(scenario: Scenario, state: State, proc: Proc, frame: Frame) -> Iterator[Stepped]:
    """Yield what the innermost recovery of ``proc`` can do next."""
    match frame.at:
        case "load" | "heal_wait":
            is_taken = len(state.manifest) == frame.base and lookup(state.claims, frame.base + 1) is not None
            if frame.at == "load" or not is_taken:
                yield _load(scenario, state, frame)
        case "observe":
            yield _observe(scenario, state, proc, frame)
        case "heal":
            yield _observe_current(scenario, state, proc, frame)
        case "undo" | "heal_undo":
            yield from _undo(scenario, state, frame)
        case "heal_claim":
            yield _claim_undo(scenario, state, frame)
        case "forward" | "publish_undo" | "heal_publish":
            yield _publish(scenario, state, frame)
        case "heal_release" | "heal_drop" | "release":
            yield _release(state, frame)
        case _:
            raise AssertionError(frame.at)


def _load(scenario: Scenario, state: State, frame: Frame) -> Stepped:
    """Read the manifest. When the plan's version is taken, only what its tables hold beyond their pins matters."""
    base = len(state.manifest)
    if frame.plan.members:
        published = was_published(scenario, state, frame.plan)
    else:
        published = any(commit_id(version.uuid) == frame.plan.commit_id for version in state.manifest)
    if base >= frame.plan.target:
        # Whoever published it may have died before it was on the disk.
        state = synced(scenario, state)
    if not frame.plan.moves and frame.plan.swept:
        # A cleanup that died: what it was about to record is recorded, unless its version is taken.
        ended = (Frame("release", frame.plan, forward=True),)
        forward = (Frame("forward", frame.plan, base=base, lost=frame.lost),)
        return f"loads version {base}", state, ended if base >= frame.plan.target else forward
    at = "heal" if published or base >= frame.plan.target else "observe"
    if not frame.plan.moves:
        return _load_tableless(state, frame._replace(base=base, forward=published))
    return f"loads version {base}", state, (Frame(at, frame.plan, base=base, forward=published, lost=frame.lost),)


def _load_tableless(state: State, frame: Frame) -> Stepped:
    """End a plan that leaves every row as it was: no table tells how far its writer has come, so it is finished."""
    label = f"loads version {frame.base}, without a table to look at"
    if frame.base >= frame.plan.target:
        return label, state, _ended(frame, forward=frame.forward)
    return label, state, (frame._replace(at="forward"),)


def _observe(scenario: Scenario, state: State, proc: Proc, frame: Frame) -> Stepped:
    """Read the head of one table of the plan; after the last one, decide."""
    move = frame.plan.moves[len(frame.seen)]
    versions = state.tables[move.table]
    landed = len(versions) == move.before + 1 and versions[move.before].uuid == frame.plan.uuid
    # A plan that is itself an undo was staged on drift: what it would be undone to is the pin, never its own base.
    pin = move.before if Bug.STAGED_BASE_UNDO in scenario.bugs else state.manifest[frame.base - 1].pins[move.table]
    seen = (*frame.seen, Seen(move.table, pin, len(versions), landed))
    label = f"sees {'XY'[move.table]} at version {len(versions)}"
    if len(seen) < len(frame.plan.moves):
        return label, state, (frame._replace(seen=seen),)
    landed_all = all(one.landed for one in seen)
    if landed_all or (Bug.PARTIAL_FORWARD in scenario.bugs and any(one.landed for one in seen)):
        return label, state, (frame._replace(at="forward", seen=()),)
    moved = tuple(one for one in seen if one.head > one.pin or Bug.UNDO_EVERYTHING in scenario.bugs)
    if not moved and Bug.UNUSED_VERSION in scenario.bugs:
        return label, state, _ended(frame, forward=False)
    undo = _plan_undo(scenario, state, proc, frame, moved)
    at = "undo" if moved else "publish_undo"
    return label, state, (frame._replace(at=at, seen=(), undo=undo, todo=undo.moves),)


def _observe_current(scenario: Scenario, state: State, proc: Proc, frame: Frame) -> Stepped:
    """Read the head of one table against the pin of the loaded manifest; after the last one, plan what to undo."""
    table = frame.plan.moves[len(frame.seen)].table
    pin, head = state.manifest[frame.base - 1].pins[table], len(state.tables[table])
    seen = (*frame.seen, Seen(table, pin, head, landed=False))
    label = f"compares {'XY'[table]} at version {head} with its pin {pin}"
    if len(seen) < len(frame.plan.moves):
        return label, state, (frame._replace(seen=seen),)
    moved = tuple(one for one in seen if one.head > one.pin)
    if not moved:
        return label, state, _ended(frame, forward=frame.forward)
    undo = _plan_undo(scenario, state, proc, frame, moved)
    return label, state, (frame._replace(at="heal_claim", seen=(), undo=undo, todo=undo.moves),)


def _plan_undo(scenario: Scenario, state: State, proc: Proc, frame: Frame, moved: tuple[Seen, ...]) -> Plan:
    actor = actor_of(scenario, proc)
    moves = tuple(Move(one.table, one.head, state.tables[one.table][one.pin - 1].content) for one in moved)
    staged_on = tuple((move.table, move.before) for move in moves)
    return Plan(actor, (actor, frame.base, staged_on), frame.base, moves)


def _undo(scenario: Scenario, state: State, frame: Frame) -> Iterator[Stepped]:
    assert frame.undo is not None
    for move in frame.todo:
        landed, after = commit_table(scenario, state, frame.undo, move, is_undo=True)
        todo = tuple(other for other in frame.todo if other is not move)
        failed = frame.failed or not landed
        label = _named(f"undoes {'XY'[move.table]} on version {move.before}", landed)
        if todo:
            yield label, after, (frame._replace(todo=todo, failed=failed),)
        elif failed:
            yield label, after, _lost(scenario, frame)
        else:
            at = "heal_publish" if frame.at == "heal_undo" else "publish_undo"
            yield label, after, (frame._replace(at=at, todo=()),)


def _publish(scenario: Scenario, state: State, frame: Frame) -> Stepped:
    plan = frame.plan if frame.undo is None else frame.undo
    won, after = publish(scenario, state, plan)
    label = _named("publishes the plan" if frame.undo is None else "publishes the undo", won)
    if not won:
        return label, after, _lost(scenario, frame)
    after = synced(scenario, after)
    if frame.at == "heal_publish":
        return label, after, (frame._replace(at="heal_release", undo=None),)
    return label, after, _ended(frame, forward=frame.at == "forward")


def _claim_undo(scenario: Scenario, state: State, frame: Frame) -> Stepped:
    assert frame.undo is not None
    version = frame.undo.target
    holder = lookup(state.claims, version)
    if holder is None or Bug.SHARED_CLAIM in scenario.bugs:
        after = state._replace(claims=insert(state.claims, version, frame.undo))
        return f"claims {version} for its undo", after, (frame._replace(at="heal_undo"),)
    return f"finds claim {version} taken", state, (frame._replace(at="heal_wait", undo=None, todo=()),)


def _release(state: State, frame: Frame) -> Stepped:
    """Delete the takeovers, then, in a step of its own, the sidecar."""
    if frame.at != "release":
        version = frame.base + 1
        after = state._replace(claims=remove(state.claims, version), turns=remove(state.turns, version))
        left = _again(frame) if frame.at == "heal_drop" else _ended(frame, forward=frame.forward)
        return f"releases claim {version} of its undo", after, left
    plan = frame.plan
    if lookup(state.turns, plan.target) is not None:
        after = state._replace(turns=remove(state.turns, plan.target))
        return f"deletes the takeovers of claim {plan.target}", after, (frame,)
    undone = state.undone
    if not frame.forward and plan.uuid not in undone:
        if any(version.uuid == plan.uuid for version in state.manifest):
            raise Violation("I5", f"{plan.uuid} is published and recorded as rolled back")
        undone = tuple(sorted((*undone, plan.uuid), key=repr))
    after = state._replace(claims=remove(state.claims, plan.target), undone=undone)
    return f"releases claim {plan.target}", after, ()


def _again(frame: Frame) -> tuple[Frame, ...]:
    return (Frame("load", frame.plan, lost=frame.lost + 1),)


def _lost(scenario: Scenario, frame: Frame) -> tuple[Frame, ...]:
    """Look again; an undo that had a claim of its own is ended first, like any other plan whose window failed."""
    if frame.undo is None or not frame.at.startswith("heal") or Bug.ABANDONED_UNDO in scenario.bugs:
        return _again(frame)
    if Bug.DROPPED_UNDO in scenario.bugs:
        return (Frame("heal_drop", frame.plan, base=frame.base, lost=frame.lost),)
    return (*_again(frame), Frame("load", frame.undo))


def _ended(frame: Frame, *, forward: bool) -> tuple[Frame, ...]:
    return (Frame("release", frame.plan, forward=forward),)


def _named(label: str, success: bool) -> str:
    return label if success else f"{label}: lost"
