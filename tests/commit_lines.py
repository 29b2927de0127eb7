"""Histories made of commits alone, without a graph behind them."""

from __future__ import annotations

from omnigraph.txn.manifest.rows import Commit
from omnigraph.values import MAIN, BranchName, CommitId


class History:
    """Branches that commit, fork and merge; every commit has a name to be known by."""

    def __init__(self, prefix=""):
        self.commits = {}
        self.heads = {}
        # What merges brought, by the merge, along first parents, and what the target had.
        self.records = {}
        self._names = {}
        self._prefix = prefix
        self.commit(MAIN, "genesis")

    def commit(self, branch, name, merged=None):
        """Add a commit to a branch and return its id."""
        number = len(self._names)
        commit_id = CommitId(f"{self._prefix}{number:05}")
        parent = self.heads.get(branch)
        version = 1 if parent is None else self.commits[parent].manifest_version + 1
        self.commits[commit_id] = Commit(
            id=commit_id,
            parent=parent,
            actor=None,
            created_at_ms=number,
            manifest_version=version,
            operation="mutate",
            branch=BranchName(branch),
            merged_parent=merged,
            message=None,
            published_at_ms=0,
            touched=(),
        )
        self._names[commit_id] = name
        self.heads[branch] = commit_id
        return commit_id

    def fork(self, branch, source):
        """Begin a branch where another one stands."""
        self.heads[branch] = self.heads[source]

    def merge(self, target, source, name, at=None):
        """Join a branch, or a commit of it, into another branch."""
        merged = at or self.heads[source]
        had, stretch = self.ancestors(self.heads[target]), []
        while merged is not None and merged not in had:
            stretch.append(self.commits[merged])
            merged = self.commits[merged].parent
        made = self.commit(target, name, merged=at or self.heads[source])
        self.records[made] = tuple(stretch), had
        return made

    def brought(self, merges):
        """The commits that merges brought, as their records say."""
        return [commit for merge in merges for commit in self.records.get(merge.id, ((), ()))[0]]

    def ancestors(self, start):
        """Every commit that is reachable, written without regard to order or cost."""
        found, open_ids = set(), [start]
        while open_ids:
            commit_id = open_ids.pop()
            if commit_id is None or commit_id in found or commit_id not in self.commits:
                continue
            found.add(commit_id)
            commit = self.commits[commit_id]
            open_ids += [commit.parent, commit.merged_parent]
        return found

    def forget(self, branch):
        """Delete a branch together with the commits that no other branch has on its line."""
        del self.heads[branch]
        kept = {commit.id for name in self.heads for commit in self.line(name)}
        self.commits = {commit_id: commit for commit_id, commit in self.commits.items() if commit_id in kept}

    def line(self, branch):
        """The commits of a branch along first parents, newest first."""
        at = self.heads[branch]
        while at is not None:
            commit = self.commits[at]
            yield commit
            at = commit.parent

    def name(self, commit_id):
        """What a commit was called."""
        return self._names[commit_id]
