"""References to a state of the graph: a branch, an ancestor of its head, a commit, a tag, or a moment."""

from __future__ import annotations

from omnigraph.errors import BadValue, ValueFormatError
from omnigraph.records import record
from omnigraph.values.ids import CommitId, Ulid, is_ulid
from omnigraph.values.names import BranchName, TagName
from omnigraph.values.patterns import late_pattern
from omnigraph.values.temporal import parse_datetime

_ANCESTOR = late_pattern(r"(?P<branch>[^~]+)~(?P<steps>[0-9]{0,9})")


@record(kw_only=False)
class BranchRef:
    """The current head of a branch."""

    branch: BranchName

    def __str__(self) -> str:
        return self.branch


@record(kw_only=False)
class AncestorRef:
    """The commit ``steps`` first parents before the head of a branch."""

    branch: BranchName
    steps: int

    def __str__(self) -> str:
        return f"{self.branch}~{self.steps}"


@record(kw_only=False)
class CommitRef:
    """One commit, on whatever branch it landed."""

    commit: CommitId

    def __str__(self) -> str:
        return self.commit


@record(kw_only=False)
class TagRef:
    """The commit that a tag names."""

    tag: TagName

    def __str__(self) -> str:
        return f"tag:{self.tag}"


@record(kw_only=False)
class TimeRef:
    """The newest commit of a branch at or before a moment, in milliseconds since the epoch."""

    branch: BranchName
    at_ms: int
    text: str

    def __str__(self) -> str:
        return f"{self.branch}@{self.text}"


Ref = BranchRef | AncestorRef | CommitRef | TagRef | TimeRef


def seen_from(ref: Ref, branch: str) -> str:
    """Return the branch that a reference names, or else the one that it was asked from.

    >>> seen_from(AncestorRef(BranchName("review"), 1), "main"), seen_from(TagRef(TagName("v1")), "main")
    ('review', 'main')
    """
    return ref.branch if isinstance(ref, BranchRef | AncestorRef | TimeRef) else branch


def parse_ref(text: str) -> Ref:
    """Return what ``text`` refers to. Names cannot hold ``~``, ``@`` or ``:``, so the forms never overlap.

    Raises:
        ValueFormatError: the text has none of the forms, or its name part is not a name.

    >>> parse_ref("main~3")
    AncestorRef(branch='main', steps=3)
    >>> parse_ref("tag:v1")
    TagRef(tag='v1')
    """
    trimmed = text.strip()
    if is_ulid(trimmed):
        return CommitRef(CommitId(Ulid(trimmed)))
    if trimmed.startswith("tag:"):
        return TagRef(TagName.parse(trimmed.removeprefix("tag:")))
    if "@" in trimmed:
        branch, _, moment = trimmed.partition("@")
        return TimeRef(BranchName.parse(branch), parse_datetime(moment, truncate=True), moment)
    if "~" in trimmed:
        match = _ANCESTOR.fullmatch(trimmed)
        if match is None:
            details = BadValue(what="reference", value=trimmed[:128], expected="<branch>~<number of commits>")
            raise ValueFormatError(f"invalid reference {trimmed[:128]!r}", details=details)
        return AncestorRef(BranchName.parse(match["branch"]), int(match["steps"] or 1))
    return BranchRef(BranchName.parse(trimmed))
