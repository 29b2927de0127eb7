"""Records that cannot be understood, as lists and repairs show them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

from omnigraph.errors import OmnigraphError
from omnigraph.records import record
from omnigraph.values.printable import Printable

# What to do about one.
WAY_OUT = "omnigraph repair tells what is known of it, and settles it with --confirm"

DamagedKind = Literal["branch", "tag", "merge", "proposal"]


@record
class DamagedRecord(Printable):
    """A small record of a graph that cannot be understood.

    Args:
        kind: the thing that it describes.
        name: the branch or tag, the commit of the merge, or the number of the proposal.
        file: its key.
        code: what everything that needs it fails with.
        problem: why it cannot be understood.
        evidence: what the rest of the graph says of it; empty in a list.
        settlement: what repair makes of it, None in a list. ``rebuilt``: the rest of the graph proves
            what it said. ``set_aside``: what it said is nowhere else, so that the file is put away. ``refused``: there
            is no proof that going on is safe; ``evidence`` says why.
        is_settled: whether that was done.
        quarantine: where its bytes are then; None if the file was missing.
    """

    kind: DamagedKind
    name: str
    file: str
    code: str
    problem: str
    evidence: str = ""
    settlement: Literal["rebuilt", "set_aside", "refused"] | None = None
    is_settled: bool = False
    quarantine: str | None = None

    @classmethod
    def of(cls, kind: DamagedKind, name: str, file: str, error: OmnigraphError) -> DamagedRecord:
        """Return the record of a file that cannot be understood, and why."""
        content = getattr(error.details, "found", "")
        problem = f"{error.message}{f' ({content})' if content else ''}"
        return cls(kind=kind, name=name, file=file, code=error.code, problem=problem)

    def lines(self) -> Iterator[str]:
        """Yield what is damaged, and what can be done or was done about it."""
        if self.settlement is None:
            yield f"{self.name} damaged={self.code} file={self.file}"
            return
        done = {"rebuilt": "rebuilt", "set_aside": "set aside", "refused": "left alone"}
        plain = {"rebuilt": "can be rebuilt", "set_aside": "can be set aside", "refused": "left alone"}
        action = (done if self.is_settled else plain)[self.settlement]
        place = "" if self.quarantine is None else f" kept={self.quarantine}"
        yield f"damaged {self.kind} {self.name}: {action}; {self.problem}; {self.evidence}{place}"

    def to_brief_json(self) -> dict[str, Any]:
        """Return the record as lists show it."""
        parts = {"kind": self.kind, "name": self.name, "file": self.file, "code": self.code}
        return {**parts, "problem": self.problem}

    def to_json(self) -> dict[str, Any]:
        """Return the record as a repair shows it."""
        return {
            **self.to_brief_json(),
            "evidence": self.evidence,
            "settlement": self.settlement,
            "is_settled": self.is_settled,
            "quarantine": self.quarantine,
        }


def damaged_json(entries: Iterable[object]) -> dict[str, Any]:
    """Return what a document says of the damaged records of a list, or nothing."""
    damaged = [one.to_brief_json() for one in entries if isinstance(one, DamagedRecord)]
    return {"damaged": damaged} if damaged else {}
