"""Histories with merges as dictionaries: states, logs and authors, written without regard to cost."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count

from tests.prop.model_merge import combine_values, merge_values, take_source


@dataclass(frozen=True)
class ModelProperty:
    """A property as a branch has it: all numbers that it was ever added under, and whether it was widened."""

    ids: frozenset
    is_wide: bool = False


@dataclass
class ModelCommit:
    """One commit: its parents, the rows that it left, and per row and property who wrote the value.

    A row is a mapping from property to value, so that commits may come to know other properties than their parents.
    ``written`` holds pairs: the commit whose value it is, and the merge that brought it to this line, if one did. The
    commit is None for a value that was never set: the row is older than the property.
    """

    id: str
    parent: str | None
    merged: str | None = None
    rows: dict = field(default_factory=dict)
    written: dict = field(default_factory=dict)
    properties: dict = field(default_factory=dict)

    def name_of(self, found: ModelProperty) -> str | None:
        """What this state calls a property of another one."""
        return next((name for name, one in self.properties.items() if one.ids & found.ids), None)

    def rows_as(self, properties: dict) -> dict:
        """The rows with the properties of another state."""
        names = {name: self.name_of(found) for name, found in properties.items()}
        return {entity_id: {name: row.get(old) for name, old in names.items()} for entity_id, row in self.rows.items()}


class UndecidedError(Exception):
    """Schemas that do not go together."""


class LineageModel:
    """Branches that write, merge, undo and go."""

    def __init__(self, first, names=()):
        self._numbers = count()
        properties = {name: self.fresh() for name in names}
        self.commits = {first: ModelCommit(id=first, parent=None, properties=properties)}
        self.heads = {"main": first}

    def fresh(self):
        """A property that was never there before."""
        return ModelProperty(frozenset({next(self._numbers)}))

    def properties(self, branch):
        """The properties of the newest state of a branch, by name."""
        return self.commits[self.heads[branch]].properties

    def rows(self, branch):
        """The rows of the newest state of a branch."""
        return self.commits[self.heads[branch]].rows

    def commit(self, branch, commit_id, rows, merged=None, properties=None):
        """Add a commit that leaves ``rows``, with other properties if some are given."""
        parent = self.commits[self.heads[branch]]
        source = None if merged is None else self.commits[merged]
        known = parent.properties if properties is None else properties
        made = ModelCommit(id=commit_id, parent=parent.id, merged=merged, rows=rows, properties=known)
        for entity_id, row in rows.items():
            made.written[entity_id] = {
                name: _written(made, parent, source, entity_id, name, value) for name, value in row.items()
            }
        self.commits[commit_id] = made
        self.heads[branch] = commit_id

    def merged_rows(self, base, source, target, resolve):
        """What a merge of two states makes of the rows and properties, and whether that is decided."""
        commits = [self.commits[commit] for commit in (base, source, target)]
        try:
            properties = merged_properties(*commits, {"theirs": 1, "ours": 2}.get(resolve))
        except UndecidedError:
            return {}, commits[2].properties, False
        states = [_plain(commit.rows_as(properties)) for commit in commits]
        merged, conflicts = merge_values(*states)
        if resolve == "properties":
            combined = combine_values(*states, conflicts)
            merged = merged | combined
            conflicts = {entity_id: kind for entity_id, kind in conflicts.items() if entity_id not in combined}
        elif resolve == "theirs":
            merged, conflicts = take_source(merged, states[1], conflicts), {}
        elif resolve == "ours":
            conflicts = {}
        return {entity_id: dict(row) for entity_id, row in merged.items()}, properties, not conflicts

    def line(self, branch):
        """The commits of a branch along first parents, newest first."""
        at, found = self.heads[branch], []
        while at is not None:
            found.append(at)
            at = self.commits[at].parent
        return found

    def ancestors(self, start):
        """Every commit that is reachable from one, that one included."""
        found, waiting = set(), [start]
        while waiting:
            at = waiting.pop()
            if at is not None and at not in found:
                found.add(at)
                waiting += [self.commits[at].parent, self.commits[at].merged]
        return found

    def best_bases(self, one, other):
        """The common ancestors that are no proper ancestor of another one."""
        common = self.ancestors(one) & self.ancestors(other)
        return {at for at in common if not any(at != than and at in self.ancestors(than) for than in common)}


def _plain(rows):
    return {entity_id: tuple(sorted(row.items())) for entity_id, row in rows.items()}


def _written(made, parent, source, entity_id, name, value):
    found = made.properties.get(name)
    old = name if found is None else parent.name_of(found)
    before = parent.rows.get(entity_id)
    if before is not None and before.get(old) == value:
        return parent.written[entity_id].get(old, (None, None))
    new = name if found is None or source is None else source.name_of(found)
    theirs = None if source is None else source.rows.get(entity_id)
    if theirs is not None and new is not None and theirs.get(new) == value:
        return source.written[entity_id][new][0], made.id
    return made.id, None


def merged_properties(base, source, target, prefer):
    """The properties of two states that come from a third one; ``prefer`` is the place of the side that decides."""
    sides = [base, source, target]
    groups = _groups(sides)
    merged, names = [], []
    for group in groups:
        there = [side.properties.get(name) for side, name in zip(sides, group, strict=True)]
        name, found = _merged_property(sides, group, there, prefer)
        if found is not None:
            merged.append(replace(found, ids=frozenset().union(*(one.ids for one in there if one is not None))))
            names.append((name, group))
    for _ in range(2):
        twice = {name for name, _ in names if [other for other, _ in names].count(name) > 1}
        if twice and prefer is not None:
            names = [(group[prefer] or name if name in twice else name, group) for name, group in names]
    found = [name for name, _ in names]
    if len(set(found)) != len(found):
        raise UndecidedError
    return dict(zip(found, merged, strict=True))


def _groups(sides):
    """The names that each thing has on the three sides; what both added under one name is one thing."""
    groups = []
    for place, side in enumerate(sides):
        for name, found in side.properties.items():
            known = [at for at, ids, _ in groups if ids & found.ids]
            if known:
                groups[known[0]][1].update(found.ids)
                groups[known[0]][2][place] = name
            else:
                groups.append((len(groups), set(found.ids), [name if at == place else None for at in range(3)]))
    names = [group[2] for group in groups]
    for mine in [group for group in names if group[0] is None and group[1] is None]:
        for theirs in [group for group in names if group[0] is None and group[2] is None and group[1] == mine[2]]:
            mine[1] = theirs[1]
            names.remove(theirs)
    return names


def _merged_property(sides, group, there, prefer):
    base, source, target = there
    if (source is None) != (target is None):
        kept = 1 if target is None else 2
        if base is None:
            return group[kept], there[kept]
        is_changed = (group[kept], there[kept].is_wide) != (group[0], base.is_wide)
        if is_changed or _wrote(sides[0], sides[kept], group[0], group[kept]):
            if prefer is None:
                raise UndecidedError
            return (group[kept], there[kept]) if prefer == kept else (None, None)
        return None, None
    if source is None:
        return None, None
    name = _decided(*group, prefer)
    is_wide = _decided(None if base is None else base.is_wide, source.is_wide, target.is_wide, prefer)
    if not is_wide and (source.is_wide or target.is_wide):
        raise UndecidedError
    return name, replace(target, is_wide=is_wide)


def _decided(base, source, target, prefer):
    if source in (base, target):
        return target
    if base == target:
        return source
    if prefer is None:
        raise UndecidedError
    return source if prefer == 1 else target


def _wrote(base, side, old, new):
    """Whether a side set values of a property."""
    return any(
        row.get(new) is not None if entity_id not in base.rows else row.get(new) != base.rows[entity_id].get(old)
        for entity_id, row in side.rows.items()
    )
