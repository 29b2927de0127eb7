"""Small records that cannot be understood: what the rest of the graph says of them, and how each is settled.

A ref is written again if one line of the manifest is surely that of its branch: that line says where the branch started
and where it is. What a tag or the record of a merge said is nowhere else, so that the file is put away. The events of a
proposal are numbered without gaps, so that another event takes the place of a damaged one. The bytes are kept first.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from omnigraph.errors import BranchMissingError, FormatMismatch, ManifestCorruptError, OmnigraphError
from omnigraph.records import record
from omnigraph.txn.branches.incarnation import MAIN_INCARNATION, BranchIncarnation, lance_branch_name
from omnigraph.txn.branches.refs import REF, BranchRecord
from omnigraph.txn.branches.tags import TAG
from omnigraph.txn.claims.store import keep_damaged, quarantine_key
from omnigraph.txn.graph_store import GraphStore
from omnigraph.txn.manifest.file import LOCATION, LoadedManifest
from omnigraph.txn.manifest.merged import RECORD
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.proposals import (
    EVENT,
    BranchPoint,
    Closed,
    Commented,
    DamagedEvent,
    Happening,
    Opened,
)
from omnigraph.values import MAIN, BranchName, CommitId, Ulid, is_ulid
from omnigraph.values.counts import counted
from omnigraph.values.damage import WAY_OUT, DamagedRecord

_log = logging.getLogger(__name__)

REPAIRER = "omnigraph:repair"
_NEWER = "a newer version of omnigraph seems to have written it: use that one"
_NAMED = re.compile(rb'"commit":"([0-9A-Z]{26})"')

Act = Callable[[], object]
# What is damaged, its bytes, and what settles it.
Case = tuple[DamagedRecord, bytes | None, Act | None]


@record
class _Line:
    """A line of the manifest that may be that of a branch without a ref; ``has_own``: versions of its own."""

    line: BranchIncarnation
    parent: BranchIncarnation
    newest: int
    base: LoadedManifest
    has_own: bool


class DamagedRecords:
    """The small records of one graph that cannot be understood."""

    def __init__(self, store: GraphStore) -> None:
        self._stores = store.stores
        self._branches = store.open_branches
        self._tags = store.tags
        self._merges = store.merges
        self._proposals = store.proposals

    def find(self) -> tuple[DamagedRecord, ...]:
        """Return them with what settling each would come to; nothing is changed."""
        return tuple(damaged for damaged, _, _ in self._cases())

    def settle(self) -> tuple[DamagedRecord, ...]:
        """Settle what can be settled, and keep the bytes; doing it again is harmless."""
        return tuple(self._settle(*case) for case in list(self._cases()))

    def refuse_lost_lines(self) -> None:
        """Refuse to remove anything while there is a branch whose ref is missing.

        Raises:
            ManifestCorruptError: there is one.
        """
        for damaged, _, _ in self._lost_refs():
            details = FormatMismatch(what=damaged.file, expected=f"the ref of branch '{damaged.name}'", found="nothing")
            raise ManifestCorruptError(damaged.problem, details=details, hint=WAY_OUT)

    def _settle(self, damaged: DamagedRecord, data: bytes | None, act: Act | None) -> DamagedRecord:
        if act is None:
            return damaged
        quarantine = None
        if data is not None:
            is_durable = self._stores.settings.is_durable
            quarantine = keep_damaged(self._stores.control, damaged.file, data, is_durable=is_durable)
        self._stores.runtime.failpoints.hit("txn.settle.after_keep")
        act()
        _log.warning("settled damaged record %s: %s, kept as %s", damaged.file, damaged.settlement, quarantine)
        return replace(damaged, is_settled=True, quarantine=quarantine)

    def _cases(self) -> Iterator[Case]:
        yield from self._refs()
        yield from self._lost_refs()
        for damaged, one in self._tags.damaged():
            settled = self._set_aside(damaged, self._named_by(one.data))
            yield _case(settled, one.data, partial(self._tags.drop, one), is_newer=TAG.is_newer(one.data))
        for damaged, data in self._merges.damaged():
            evidence = "merges whose base depends on what it brought are refused from then on"
            settled = self._set_aside(damaged, evidence)
            yield _case(settled, data, partial(self._merges.drop, damaged.file), is_newer=RECORD.is_newer(data))
        for damaged, event in self._proposals.damaged():
            evidence = f"it is event {event.number} of proposal {event.proposal}"
            key = None if event.data is None else quarantine_key(damaged.file, event.data)
            act = partial(self._replace_event, event, key)
            yield _case(self._set_aside(damaged, evidence), event.data, act, is_newer=EVENT.is_newer(event.data or b""))

    def _set_aside(self, damaged: DamagedRecord, evidence: str) -> DamagedRecord:
        return replace(damaged, settlement="set_aside", evidence=evidence)

    def _named_by(self, data: bytes) -> str:
        """Tell what a damaged tag seems to name, so that it can be made again; nothing relies on it."""
        match = _NAMED.search(data)
        if match is None:
            return "what it named is nowhere else"
        return f"it seems to have named commit {match[1].decode()}: look at that, and tag it again"

    def _replace_event(self, event: DamagedEvent, key: str | None) -> None:
        """Put something in the place of a damaged event that says so."""
        where = "there was none" if key is None else f"its bytes are kept as {key}"
        if event.number > 1:
            text = f"event {event.number} of this proposal was damaged, and what it said is not known: {where}"
            self._proposals.replace(event, [Commented(text=text)], REPAIRER)
            return
        head = self._branches.snapshot(BranchName(MAIN)).state.head
        nowhere = BranchPoint(branch=head.branch, incarnation=head.incarnation, head=head.commit)
        opened = Opened(
            title="damaged: what this proposal asked for is not known",
            description=where,
            source=nowhere,
            target=nowhere,
            texts=(),
            checks=(),
            required_approvals=0,
        )
        made: list[Happening] = [opened]
        if event.is_last:
            made.append(Closed(reason="it was damaged"))
        self._proposals.replace(event, made, REPAIRER)

    def _refs(self) -> Iterator[Case]:
        for damaged, one in self._branches.refs.damaged():
            name = BranchName(one.name)
            lines, problems = self._lines_of(name)
            act: Act | None = None
            chosen = _choose(lines, one.data, has_ended=self._branches.refs.has_had(name))
            if problems:
                settled = replace(damaged, settlement="refused", evidence="; ".join(problems))
            elif chosen is not None:
                ref = self._ref_of(chosen, one.number)
                settled = replace(damaged, settlement="rebuilt", evidence=_evidence_of(chosen, ref))
                act = partial(self._branches.refs.put_back, ref)
            elif lines:
                names = ", ".join(f"'{one.line.lance_branch}'" for one in lines)
                evidence = f"each of {counted(len(lines), 'line')} of the manifest may be that of the branch: {names}"
                settled = replace(damaged, settlement="refused", evidence=evidence)
            else:
                settled = self._set_aside(damaged, "no line of the manifest is that of such a branch")
                act = partial(self._branches.refs.drop, one)
            yield _case(settled, one.data, act, is_newer=REF.is_newer(one.data))

    def _lost_refs(self) -> Iterator[Case]:
        """Yield the branches that have published something, and whose refs are missing."""
        names_in_use = self._branches.refs.ever()
        for text in sorted(self._stores.datasets.branches_since(LOCATION, 0)):
            line = _parsed(text)
            if line.name in names_in_use:
                continue
            start = self._stores.datasets.branch_start(LOCATION, text)
            try:
                newest = self._newest(line)
            except OmnigraphError:
                # Deleted after it was merged, or left by a creator that died; cleanup knows what to do about it.
                continue
            head = self._head(newest)
            if start is None or head.manifest_version <= start.version:
                # Nothing was written to it: its creator has not written the ref yet, or died before.
                continue
            if head.branch in names_in_use:
                continue
            details = FormatMismatch(what=text, expected="a ref", found="")
            problem = ManifestCorruptError(f"the ref of branch '{head.branch}' is missing", details=details)
            damaged = self._branches.refs.described(head.branch, problem)
            lines, problems = self._lines_of(head.branch)
            if problems or len(lines) != 1:
                evidence = "; ".join(problems) or "several lines of the manifest may be that of the branch"
                yield replace(damaged, settlement="refused", evidence=evidence), None, None
                continue
            ref = self._ref_of(lines[0], 1)
            act = partial(self._branches.refs.put_back, ref)
            yield replace(damaged, settlement="rebuilt", evidence=_evidence_of(lines[0], ref)), None, act

    def _free_lines(self) -> set[str]:
        """Return the lines of the manifest that are those of no branch with a ref that can be understood."""
        return set(self._stores.datasets.branches_since(LOCATION, 0)) - self._lines_with_refs().keys()

    def _lines_with_refs(self) -> Mapping[str | None, BranchIncarnation]:
        lines: dict[str | None, BranchIncarnation] = {None: MAIN_INCARNATION}
        for name in self._branches.refs.names():
            try:
                ref = None if name.is_main else self._branches.refs.find(name)
            except ManifestCorruptError:
                continue
            if ref is not None:
                lines[ref.lance_branch] = ref.line
        return lines

    def _newest(self, line: BranchIncarnation) -> LoadedManifest:
        latest = self._stores.datasets.latest_version(LOCATION, line.lance_branch)
        return self._branches.load_ended(line, latest)

    def _head(self, newest: LoadedManifest) -> Commit:
        line = self._branches.commit_line(newest)
        return line.at(len(line) - 1)

    def _lines_of(self, name: BranchName) -> tuple[list[_Line], list[str]]:
        """Return the lines that may be that of a branch, and what keeps others from being looked at."""
        lines, problems, with_refs = [], [], self._lines_with_refs()
        for text in sorted(self._free_lines()):
            line = BranchIncarnation(name=name, incarnation=text.rpartition(".")[2], lance_branch=text)
            if lance_branch_name(name, line.incarnation) != text or not is_ulid(line.incarnation.upper()):
                continue
            start = self._stores.datasets.branch_start(LOCATION, text)
            if start is None:
                # Its creator died.
                continue
            try:
                newest = self._newest(line)
                parent = with_refs.get(start.branch) or _parsed(start.branch or "")
                base = self._branches.load_ended(parent, start.version)
            except BranchMissingError:
                # It says that it was deleted after it was merged.
                continue
            except OmnigraphError as error:
                problems.append(f"line '{text}' of the manifest cannot be read: {error.message}")
                continue
            head = self._head(newest)
            if head.manifest_version > start.version and head.branch != name:
                # Of another name that is too long to be part of that of its line.
                continue
            version = newest.state.version
            lines.append(_Line(line=line, parent=parent, newest=version, base=base, has_own=version > start.version))
        return lines, problems

    def _ref_of(self, chosen: _Line, number: int) -> BranchRecord:
        state = chosen.base.state
        return BranchRecord(
            name=chosen.line.name,
            incarnation=chosen.line.incarnation,
            lance_branch=chosen.line.lance_branch,
            parent_name=chosen.parent.name,
            parent_incarnation=chosen.parent.incarnation,
            parent_lance_branch=chosen.parent.lance_branch,
            forked_at=state.head.commit,
            forked_version=state.version,
            forked_depth=len(self._branches.commit_line(chosen.base)),
            created_at_ms=CommitId(Ulid.parse(chosen.line.incarnation.upper())).timestamp_ms,
            actor=None,
            number=number,
        )


def _case(damaged: DamagedRecord, data: bytes | None, act: Act | None, *, is_newer: bool) -> Case:
    return (replace(damaged, settlement="refused", evidence=_NEWER), data, None) if is_newer else (damaged, data, act)


def _choose(lines: list[_Line], data: bytes, *, has_ended: bool) -> _Line | None:
    """Return the line that is surely that of a branch whose ref has these bytes, or None."""
    named = [one for one in lines if one.line.incarnation.encode() in data]
    if len(named) == 1:
        return named[0]
    if len(lines) == 1:
        return lines[0]
    # No writer publishes to a line that has no ref; what has nothing of its own was left by a creator that died.
    own = [one for one in lines if one.has_own]
    return own[0] if len(own) == 1 and not has_ended else None


def _evidence_of(chosen: _Line, ref: BranchRecord) -> str:
    where = f"line '{chosen.line.lance_branch}' of the manifest starts at version {ref.forked_version}"
    return f"{where} of branch '{ref.parent_name}' and is at version {chosen.newest}; who created it is not known"


def _parsed(line: str) -> BranchIncarnation:
    name, _, incarnation = line.rpartition(".")
    return BranchIncarnation(name=BranchName(name), incarnation=incarnation, lance_branch=line)
