"""What a group of writes may hold in the model: which offers a holder takes along, and what must be true of them.

Kept in step with ``txn.offers`` and ``txn.publish.batch``.
"""

from __future__ import annotations

from tests.model.state import Bug, Member, Move, Plan, Proc, Scenario, State, Uuid, Writer

# Reads of these are of whole tables: whatever moves there has to be decided again.
_READERS = frozenset({"update", "rerun", "schema", "whole"})


def schema_at(scenario: Scenario, state: State, version: int) -> int:
    """Return how often the schema had changed when ``version`` was published."""
    changers = {(writer.name,) for writer in scenario.writers if writer.kind == "schema"}
    return sum(commit in changers for one in state.manifest[:version] for commit in one.commits) if changers else 0


def is_published(state: State, name: str, version: int) -> bool:
    """Whether the history of ``version`` has the commit of a writer."""
    return any((name,) in one.commits for one in state.manifest[:version])


def holds(
    scenario: Scenario, state: State, writer: Writer, decided: int, base: int, written: frozenset[int] = frozenset()
) -> bool:
    """Whether what was decided upon one version may be published upon another, behind writes of the same group."""
    if schema_at(scenario, state, decided) != schema_at(scenario, state, base):
        return False
    if writer.kind not in _READERS:
        return True
    before, now = state.manifest[decided - 1].pins, state.manifest[base - 1].pins
    return not any(before[table] != now[table] or table in written for table in writer.tables)


def accept(
    scenario: Scenario, state: State, writer: Writer, base: int
) -> tuple[tuple[Member, ...], tuple[Uuid, ...], bool]:
    """Return which offers go along upon ``base``, which nobody needs any more, and whether all hold."""
    if writer.kind == "whole" and Bug.WHOLE_TABLE not in scenario.bugs:
        return (), (), True
    members: list[Member] = []
    useless: list[Uuid] = []
    written = frozenset(writer.tables)
    all_hold = True
    for name, offer in state.offers:
        owner = scenario.writer(offer.owner)
        if offer.is_fence or owner is None or owner.name == writer.name or offer.base > base:
            continue
        is_done = is_published(state, owner.name, base)
        is_good = _may_go_along(scenario, state, owner, offer.base, base, written)
        if (is_done and Bug.REPEATED not in scenario.bugs) or not is_good:
            all_hold = all_hold and (is_good or is_done)
            if is_dead(state, owner.name):
                useless.append(name)
            continue
        if all(member.owner != owner.name for member in members):
            members.append(Member(owner.name, offer.decision, offer.base, name))
            written |= frozenset(owner.tables)
    return tuple(members), tuple(useless), all_hold


def _may_go_along(
    scenario: Scenario, state: State, owner: Writer, decided: int, base: int, written: frozenset[int]
) -> bool:
    is_same = schema_at(scenario, state, decided) == schema_at(scenario, state, base)
    if not is_same and Bug.OTHER_SCHEMA in scenario.bugs:
        return True
    if is_same and Bug.MOVED_ROWS in scenario.bugs:
        return True
    return holds(scenario, state, owner, decided, base, written)


def is_dead(state: State, name: str) -> bool:
    """Whether the owner of an offer is surely gone."""
    return all(proc.name != name or proc.at == "dead" for proc in state.procs)


def plan_group(scenario: Scenario, state: State, proc: Proc, base: int, taken: tuple[Member, ...]) -> Plan:
    """Plan one commit for each table of the group, upon a version of the manifest."""
    members = (Member(proc.name, proc.decision, proc.first), *taken)
    writers = [writer for member in members if (writer := scenario.writer(member.owner)) is not None]
    adds = {table for writer in writers if writer.kind != "whole" for table in writer.tables}
    rows = [0] * len(state.tables)
    touched = [False] * len(state.tables)
    for writer in writers:
        for table in writer.tables:
            touched[table] = True
            # Each table is staged once: beside rows that are added nothing is left of what replaces it.
            if writer.kind != "whole" or table not in adds:
                rows[table] += scenario.row(writer.name)
    pins = state.manifest[base - 1].pins
    moves = tuple(
        Move(table, pin, state.tables[table][pin - 1].content + rows[table])
        for table, pin in enumerate(pins)
        if touched[table]
    )
    return Plan(proc.name, (proc.name, proc.attempt), base, moves, members=members)


def was_published(scenario: Scenario, state: State, plan: Plan) -> bool:
    """Whether the version that a plan was to make has brought all of its commits."""
    if len(state.manifest) < plan.target:
        return False
    commits = state.manifest[plan.target - 1].commits
    members = plan.members[-1:] if Bug.LAST_COMMIT in scenario.bugs else plan.members
    return all((member.owner,) in commits for member in members)


def wrong_member(scenario: Scenario, state: State) -> tuple[str, str] | None:
    """Return what is wrong with the members of the newest version, if anything is."""
    newest, base = state.manifest[-1], len(state.manifest) - 1
    decided = {proc.name: proc.decision for proc in state.procs}
    written: frozenset[int] = frozenset()
    for member in newest.members:
        writer = scenario.writer(member.owner)
        assert writer is not None
        if decided.get(member.owner, 0) > member.decision:
            return "I10", f"{member.owner} is published as it was before it was decided again"
        if schema_at(scenario, state, member.base) != schema_at(scenario, state, base):
            return "I11", f"{member.owner} was decided under another schema"
        before, now = state.manifest[member.base - 1].pins, state.manifest[base - 1].pins
        if writer.kind in _READERS:
            moved = [table for table in writer.tables if before[table] != now[table] or table in written]
            if moved:
                return "I12", f"{member.owner} is published although table {'XY'[moved[0]]} has moved"
        written |= frozenset(writer.tables)
    return None
