"""A cleanup in the model: it lists, records on the manifest what it will sweep, looks again, and only then removes.

Kept in step with ``engine.maintenance.cleanup`` and ``txn.floor``. What a writer uploads is invisible to everybody but
a cleanup, which cannot tell an upload that is about to be named from one that nobody will ever name.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.state import Bug, Plan, Proc, Scenario, State, Uuid, insert, lookup, remove
from tests.model.storage import check_files, publish

Moved = tuple[str, State, Proc]


def upload(scenario: Scenario, state: State, proc: Proc, plan: Plan) -> tuple[State, Proc]:
    """Name the files of a plan: those of an earlier attempt if its tables stand as they did, and new ones otherwise."""
    attempt, upon = proc.staged
    name, number = plan.uuid
    is_swept = upon < state.manifest[-1].swept and Bug.UNCHECKED_SWEEP not in scenario.bugs
    pins, before = state.manifest[-1].pins, state.manifest[upon - 1].pins if upon else ()
    if not upon or is_swept or any(pins[move.table] != before[move.table] for move in plan.moves):
        attempt, upon = number, plan.base
    files = tuple(sorted((*state.files, (plan.uuid, (name, attempt)))))
    return state._replace(files=files), proc._replace(staged=(attempt, upon))


def cleaning_steps(scenario: Scenario, state: State, proc: Proc) -> Iterator[Moved]:
    """Yield what a cleanup can do next."""
    match proc.at:
        case "list":
            yield _list(scenario, state, proc)
        case "record":
            yield _claim(scenario, state, proc)
        case "record_wait":
            plan = proc.plan
            assert plan is not None
            if len(state.manifest) != plan.base or lookup(state.claims, plan.target) is None:
                yield "looks again", state, _planned(scenario, state, proc)
        case "record_publish":
            yield _publish(scenario, state, proc)
        case "survey":
            yield _survey(scenario, state, proc)
        case "remove":
            after = state._replace(removed=tuple(sorted({*state.removed, *proc.listed})))
            check_files(after)
            yield f"removes {len(proc.listed)} files", after, _done(proc)


def _list(scenario: Scenario, state: State, proc: Proc) -> Moved:
    proc = proc._replace(listed=_uploads(state), first=len(state.manifest) + 1)
    if Bug.UNRECORDED_SWEEP in scenario.bugs:
        return "lists files", state, proc._replace(at="survey")
    return "lists files", state, _planned(scenario, state, proc)


def _planned(scenario: Scenario, state: State, proc: Proc) -> Proc:
    """Plan to record what is swept upon the newest version, as often as a writer tries."""
    if proc.attempt == scenario.attempts:
        return _done(proc)
    base, attempt = len(state.manifest), proc.attempt + 1
    return proc._replace(at="record", attempt=attempt, plan=Plan(proc.name, (proc.name, attempt), base, (), proc.first))


def _claim(scenario: Scenario, state: State, proc: Proc) -> Moved:
    plan = proc.plan
    assert plan is not None
    if lookup(state.claims, plan.target) is not None and Bug.SHARED_CLAIM not in scenario.bugs:
        return f"finds claim {plan.target} taken", state, proc._replace(at="record_wait")
    after = state._replace(claims=insert(state.claims, plan.target, plan))
    return f"claims {plan.target}", after, proc._replace(at="record_publish")


def _publish(scenario: Scenario, state: State, proc: Proc) -> Moved:
    """Record it, and let the claim go in the same step: nothing else has moved."""
    plan = proc.plan
    assert plan is not None
    won, after = publish(scenario, state, plan)
    after = after._replace(claims=remove(after.claims, plan.target))
    if not won:
        return "records: lost", after, _planned(scenario, after, proc)
    return (
        f"records that uploads upon versions before {plan.swept} are swept",
        after,
        proc._replace(at="survey", plan=None),
    )


def _survey(scenario: Scenario, state: State, proc: Proc) -> Moved:
    """Keep what a published version names, and what landed past the pins and may yet be published."""
    listed = _uploads(state) if Bug.LATE_LIST in scenario.bugs else proc.listed
    files, pins = dict(state.files), state.manifest[-1].pins
    live = {files.get(version.uuid) for version in state.manifest}
    for table, versions in enumerate(state.tables):
        live |= {files.get(version.uuid) for version in versions[pins[table] :]}
    doomed = tuple(file for file in listed if file not in live and file not in state.removed)
    return f"finds {len(doomed)} files that nothing names", state, proc._replace(at="remove", listed=doomed)


def _uploads(state: State) -> tuple[Uuid, ...]:
    return tuple(sorted({file for _, file in state.files}))


def _done(proc: Proc) -> Proc:
    return Proc(name=proc.name, at="done", turn=proc.turn)
