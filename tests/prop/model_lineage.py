"""Histories with merges as dictionaries: states, logs and authors, written without regard to cost."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.prop.model_merge import combine_values, merge_values, take_source


@dataclass
class ModelCommit:
    """One commit: its parents, the rows that it left, and per row and property who wrote the value.

    A row is a mapping from property to value, so that commits may come to know other properties than their parents.
    ``written`` holds pairs: the commit whose value it is, and the merge that brought it to this line, if one did.
    """

    id: str
    parent: str | None
    merged: str | None = None
    rows: dict = field(default_factory=dict)
    written: dict = field(default_factory=dict)


class LineageModel:
    """Branches that write, merge, undo and go."""

    def __init__(self, first):
        self.commits = {first: ModelCommit(id=first, parent=None)}
        self.heads = {"main": first}

    def rows(self, branch):
        """The rows of the newest state of a branch."""
        return self.commits[self.heads[branch]].rows

    def commit(self, branch, commit_id, rows, merged=None):
        """Add a commit that leaves ``rows``."""
        parent = self.commits[self.heads[branch]]
        source = None if merged is None else self.commits[merged]
        made = ModelCommit(id=commit_id, parent=parent.id, merged=merged, rows=rows)
        for entity_id, row in rows.items():
            made.written[entity_id] = {
                name: _written(made, parent, source, entity_id, name, value) for name, value in row.items()
            }
        self.commits[commit_id] = made
        self.heads[branch] = commit_id

    def merged_rows(self, base, source, target, resolve):
        """What a merge of two states makes of the rows, and whether that is decided."""
        states = [_plain(self.commits[commit].rows) for commit in (base, source, target)]
        merged, conflicts = merge_values(*states)
        if resolve == "properties":
            combined = combine_values(*states, conflicts)
            merged = merged | combined
            conflicts = {entity_id: kind for entity_id, kind in conflicts.items() if entity_id not in combined}
        elif resolve == "theirs":
            merged, conflicts = take_source(merged, states[1], conflicts), {}
        elif resolve == "ours":
            conflicts = {}
        return {entity_id: dict(row) for entity_id, row in merged.items()}, not conflicts

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
    before = parent.rows.get(entity_id)
    if before is not None and before.get(name) == value:
        return parent.written[entity_id].get(name, (made.id, None))
    theirs = None if source is None else source.rows.get(entity_id)
    if theirs is not None and theirs.get(name) == value:
        return source.written[entity_id][name][0], made.id
    return made.id, None
