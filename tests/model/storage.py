"""The atomic steps that storage offers, and the invariants that hold after each publish."""

from __future__ import annotations

from tests.model.groups import wrong_member
from tests.model.state import Bug, ManifestVersion, Move, Plan, Scenario, State, TableVersion


class Violation(Exception):  # noqa: N818 - a finding of the checker, not an error of a program
    """An invariant does not hold."""

    def __init__(self, invariant: str, message: str) -> None:
        super().__init__(f"{invariant}: {message}")
        self.invariant = invariant
        # The steps between the last state of the search and the one that broke it.
        self.last_steps: tuple[str, ...] = ()


def commit_table(scenario: Scenario, state: State, plan: Plan, move: Move, *, is_undo: bool) -> tuple[bool, State]:
    """Land a table commit at the one version it was staged for; landing it again is success."""
    versions = state.tables[move.table]
    if len(versions) == move.before:
        return True, _append(state, move.table, TableVersion(plan.uuid, move.content))
    if versions[move.before].uuid == plan.uuid:
        return True, state
    if is_undo and Bug.LOOSE_UNDO in scenario.bugs:
        return True, _append(state, move.table, TableVersion(plan.uuid, move.content))
    if not is_undo and Bug.LOOSE_COMMIT in scenario.bugs:
        added = move.content - versions[move.before - 1].content
        return True, _append(state, move.table, TableVersion(plan.uuid, versions[-1].content + added))
    return False, state


def publish(scenario: Scenario, state: State, plan: Plan) -> tuple[bool, State]:
    """The compare-and-swap on the manifest's version; sending the same uuid again is success."""
    newest = len(state.manifest)
    if newest > plan.base:
        if state.manifest[plan.base].uuid == plan.uuid:
            return True, state
        if Bug.BLIND_PUBLISH not in scenario.bugs:
            return False, state
    pins = list(state.manifest[plan.base - 1].pins)
    for move in plan.moves:
        pins[move.table] = move.before + 1
    swept = max(plan.swept, state.manifest[plan.base - 1].swept)
    version = ManifestVersion(plan.uuid, plan.base, tuple(pins), swept, plan.members)
    published = state._replace(manifest=(*state.manifest, version))
    check_published(scenario, published)
    return True, published


def check_published(scenario: Scenario, state: State) -> None:
    """The newest manifest version pins exactly what its history says."""
    newest = state.manifest[-1]
    commits = [commit for version in state.manifest[1:] for commit in version.commits]
    if len(set(commits)) != len(commits):
        raise Violation("I7", f"a commit is published twice: {commits}")
    if newest.uuid in state.undone:
        raise Violation("I5", f"{newest.uuid} is published after recovery recorded that it was rolled back")
    check_outcomes(state)
    _check_pins(scenario, state)
    wrong = wrong_member(scenario, state)
    if wrong is not None:
        raise Violation(*wrong)
    check_files(state)
    if newest.parent != len(state.manifest) - 1:
        raise Violation("I4", f"version {len(state.manifest)} was made upon version {newest.parent}")


def _check_pins(scenario: Scenario, state: State) -> None:
    commits = {commit for version in state.manifest for commit in version.commits}
    newest = state.manifest[-1]
    expected = [0] * len(state.tables)
    for writer in scenario.writers:
        if (writer.name,) in commits:
            for table in writer.tables:
                expected[table] += scenario.row(writer.name)
    for table, (pin, versions) in enumerate(zip(newest.pins, state.tables, strict=True)):
        if pin > len(versions):
            raise Violation("I1", f"table {'XY'[table]} is pinned at version {pin}, which does not exist")
        if versions[pin - 1].content != expected[table]:
            found = oct(versions[pin - 1].content)
            raise Violation("I1", f"table {'XY'[table]} pins rows {found}, its commits are {oct(expected[table])}")


def check_outcomes(state: State) -> None:
    """What writers were told holds in the newest manifest."""
    commits = {commit for version in state.manifest for commit in version.commits}
    for proc in state.procs:
        if proc.outcome == "acked" and (proc.name,) not in commits:
            raise Violation("I2", f"{proc.name} was acknowledged and is not in the history")
        if proc.outcome == "none" and (proc.name,) in commits:
            raise Violation("I5", f"{proc.name} was told that its write had no effect, and it is published")


def check_files(state: State) -> None:
    """Nothing that is published names a file that a cleanup has removed."""
    named = dict(state.files)
    for version in state.manifest:
        if named.get(version.uuid) in state.removed and version.uuid in named:
            raise Violation("I9", f"{version.uuid} is published, and a cleanup has removed {named[version.uuid]}")


def synced(scenario: Scenario, state: State) -> State:
    """Make everything that is published survive a power cut."""
    return state._replace(synced=len(state.manifest)) if scenario.power_cuts else state


def cut_power(state: State) -> State:
    """Of versions that were not synced, and of tables beyond what the others pin, nothing is left."""
    pins = state.manifest[state.synced - 1].pins
    tables = tuple(versions[:pin] for versions, pin in zip(state.tables, pins, strict=True))
    return state._replace(
        manifest=state.manifest[: state.synced],
        tables=tables,
        flights=(),
        puts=(),
        deletes=(),
        power_cuts=state.power_cuts - 1,
    )


def drift(state: State) -> tuple[int, ...]:
    """The tables whose head is not what the newest manifest pins."""
    pins = state.manifest[-1].pins
    return tuple(table for table, versions in enumerate(state.tables) if len(versions) != pins[table])


def _append(state: State, table: int, version: TableVersion) -> State:
    tables = list(state.tables)
    tables[table] = (*tables[table], version)
    return state._replace(tables=tuple(tables))
