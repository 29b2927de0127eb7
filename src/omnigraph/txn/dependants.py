"""Who needs a branch: a mark for every branch that was forked from it and every tag that names a commit of it.

A mark is written before the thing it stands for and may outlive it, so it only says where to look. Looking there
costs a deletion one listing, however many branches and tags a graph has. Main cannot be deleted and needs no marks.
"""

from __future__ import annotations

from typing import Literal

from omnigraph.records import record
from omnigraph.runtime import Counters
from omnigraph.store.control import ControlObjects
from omnigraph.txn.lines import BranchLine

DEPENDANTS_PREFIX = "__dependants"

DependantKind = Literal["branch", "tag"]
_KINDS: dict[str, DependantKind] = {"branch": "branch", "tag": "tag"}


@record
class Dependant:
    """A branch or tag that may need another branch; ``identity`` tells it from a later one of the same name."""

    kind: DependantKind
    name: str
    identity: str


class DependantMarks:
    """The marks of one graph."""

    def __init__(self, control: ControlObjects, *, is_durable: bool) -> None:
        self._control = control
        self._is_durable = is_durable

    def add(self, line: BranchLine, dependant: Dependant, counters: Counters) -> None:
        """Say that ``dependant`` is about to need a branch."""
        if not line.name.is_main:
            self._control.put(_key(line, dependant), b"{}", counters, sync=self._is_durable)

    def remove(self, line: BranchLine, dependant: Dependant, counters: Counters) -> None:
        """Take a mark back, when the thing it stood for is gone."""
        if not line.name.is_main:
            self._control.delete(_key(line, dependant), counters)

    def of(self, line: BranchLine, counters: Counters) -> tuple[Dependant, ...]:
        """Return whoever may need a branch, by name."""
        found = []
        for key in self._control.list_keys(_folder(line), counters):
            kind, _, rest = key.rpartition("/")[2].removesuffix(".json").partition("~")
            name, _, identity = rest.rpartition("~")
            known = _KINDS.get(kind)
            if known is not None:
                found.append(Dependant(kind=known, name=name.replace(",", "/"), identity=identity))
        return tuple(found)

    def clear(self, line: BranchLine, counters: Counters) -> None:
        """Remove every mark of a branch that is gone."""
        self._control.delete_prefix(_folder(line), counters)


def _folder(line: BranchLine) -> str:
    return f"{DEPENDANTS_PREFIX}/{line.name.replace('/', ',')}~{line.incarnation}"


def _key(line: BranchLine, dependant: Dependant) -> str:
    return f"{_folder(line)}/{dependant.kind}~{dependant.name.replace('/', ',')}~{dependant.identity}.json"
