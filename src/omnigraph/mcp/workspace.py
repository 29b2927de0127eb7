"""Where agents write: a fresh branch of their own unless they name one, and how what they wrote is reviewed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Annotated, Any, TypeVar

import msgspec

from omnigraph.errors import BranchExistsError, Effect, OmnigraphError
from omnigraph.mcp.tool import Arguments, Step, ToolCall
from omnigraph.operations.history import CreateBranchRequest, DeleteBranchRequest
from omnigraph.policy.own import own_branches
from omnigraph.records import record
from omnigraph.runtime import Runtime
from omnigraph.values import BranchName

_Done = TypeVar("_Done")
# Who writes where nobody is known by a name.
NOBODY = "agent"
_NAME_DIGITS = 8

BranchToWrite = Annotated[
    str | None,
    msgspec.Meta(description="An existing branch to write to. Left out, a fresh branch is created for this write."),
]
IdempotencyKey = Annotated[
    Annotated[str, msgspec.Meta(min_length=1, max_length=255, pattern="^[ -~]*$")] | None,
    msgspec.Meta(description="A text of your choice: the same call sent again under it changes the graph once."),
]


class Write(Arguments, kw_only=True, frozen=True):
    """What every tool takes that changes rows."""

    branch: BranchToWrite = None
    base: Annotated[
        str | None, msgspec.Meta(description="Where a fresh branch begins; the branch of the server, usually main.")
    ] = None
    workspace: Annotated[
        str | None,
        msgspec.Meta(description="The last part of the name of a fresh branch; chosen for you if not given."),
    ] = None
    message: Annotated[str | None, msgspec.Meta(description="What the commit says.")] = None
    expected_head: Annotated[
        str | None, msgspec.Meta(description="Change nothing unless the branch is at this commit.")
    ] = None
    idempotency_key: IdempotencyKey = None


@record
class Place:
    """Where a write goes: the branch, where it began if it is fresh, and whether this call made it."""

    branch: str
    base: str | None
    is_new: bool


def write_somewhere(call: ToolCall, given: Write, verb: str, write: Callable[[Place], _Done]) -> tuple[Place, _Done]:
    """Do a write on the branch that it names, or else on a fresh one, which goes again if nothing was written.

    Raises:
        OmnigraphError: the branch cannot be made, or the write fails.
    """
    place = _place(call, given, verb)
    try:
        return place, write(place)
    except OmnigraphError as error:
        if place.is_new and error.effect is Effect.NONE:
            # Only if nothing can have been written. Whatever keeps it from going: an empty branch harms nobody.
            with suppress(OmnigraphError):
                call.execute(DeleteBranchRequest(name=place.branch))
        raise


def _place(call: ToolCall, given: Write, verb: str) -> Place:
    if given.branch is not None:
        return Place(branch=str(BranchName.parse(given.branch)), base=None, is_new=False)
    base = call.branch_of(given.base)
    prefix = own_branches(call.graph.actor or NOBODY)
    name = prefix + (given.workspace.strip() if given.workspace is not None else _fresh_name(verb, given))
    try:
        call.execute(CreateBranchRequest(name=name, source=base))
    except BranchExistsError:
        if given.idempotency_key is None:
            raise
        # The call was sent before; its write is found by the key.
        return Place(branch=name, base=base, is_new=False)
    return Place(branch=name, base=base, is_new=True)


def _fresh_name(verb: str, given: Write) -> str:
    if given.idempotency_key is not None:
        digest = hashlib.blake2b(given.idempotency_key.encode(), digest_size=_NAME_DIGITS // 2)
        return f"{verb}-{digest.hexdigest()}"
    return f"{verb}-{str(Runtime.system().ids.ulid()).lower()[-_NAME_DIGITS:]}"


def review_steps(place: Place, protected: frozenset[str]) -> tuple[Step, ...]:
    """Return how what was written is looked at, and brought to where the branch began."""
    if place.base is None:
        return ()
    ends: Mapping[str, Any] = {"source": place.branch, "target": place.base}
    asks = ", which a person is asked about" if place.base in protected else ""
    return (
        Step(tool="diff", arguments={"before": place.base, "after": place.branch}, why="see every change"),
        Step(tool="merge_preview", arguments=dict(ends), why="see what a merge would do, and conflicts"),
        Step(tool="merge", arguments=dict(ends), why=f"bring it into {place.base}{asks}"),
    )
