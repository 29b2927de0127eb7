"""``omnigraph proposal``: commands about requests to merge a branch."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from omnigraph.cli.commands.history.conflicts import ConflictOptions
from omnigraph.cli.files import read_input, refuse_second_stdin
from omnigraph.cli.graphs import echo_target, graph_address, open_graph
from omnigraph.cli.lazy import Entry, new_app, new_group
from omnigraph.cli.options import (
    Actor,
    AsJson,
    CommitOptions,
    GraphOptions,
    IfCommit,
    Limit,
    Quiet,
    expand_options,
)
from omnigraph.cli.output import PlainReport, choose_output
from omnigraph.cli.usage import usage_error
from omnigraph.errors import Kind
from omnigraph.operations.proposals import (
    ApproveProposalRequest,
    CheckProposalRequest,
    CloseProposalRequest,
    CommentProposalRequest,
    GetProposalRequest,
    ListProposalsRequest,
    MergeProposalRequest,
    OpenProposalRequest,
)
from omnigraph.operations.request import Request, Response
from omnigraph.records import record

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from omnigraph.history.proposals import ProposalRecord

app = new_group(
    "Propose, check, discuss and merge branches.",
    {
        "open": Entry(app=f"{__name__}:open_app", summary="Propose to merge a branch."),
        "list": Entry(app=f"{__name__}:list_app", summary="List the proposals."),
        "show": Entry(app=f"{__name__}:show_app", summary="Show a proposal with its comments."),
        "check": Entry(app=f"{__name__}:check_app", summary="Run the checks on the merged state."),
        "comment": Entry(app=f"{__name__}:comment_app", summary="Comment on a proposal or an entity."),
        "approve": Entry(app=f"{__name__}:approve_app", summary="Approve the current head of the source."),
        "merge": Entry(app=f"{__name__}:merge_app", summary="Merge a proposal if its checks pass."),
        "close": Entry(app=f"{__name__}:close_app", summary="Close a proposal without merging it."),
    },
)

Number = Annotated[str, typer.Argument(metavar="NUMBER", help="The number of the proposal.")]


class ShownState(StrEnum):
    """Which proposals are listed."""

    OPEN = "open"
    MERGED = "merged"
    CLOSED = "closed"
    ALL = "all"


@record
class CheckOptions:
    """The checks of a proposal, from files and from the command line."""

    check_files: Annotated[
        list[str] | None,
        typer.Option(
            "--check", metavar="FILE", help="A .gq file; each query must return no row. May be repeated; - is stdin."
        ),
    ] = None
    check_texts: Annotated[
        list[str] | None,
        typer.Option("--check-string", "-e", metavar="GQ", help="The text of a check; may be repeated."),
    ] = None
    check_names: Annotated[
        list[str] | None,
        typer.Option("--check-name", metavar="NAME", help="Use only this query of the check files; may be repeated."),
    ] = None

    def read(self) -> list[bytes]:
        """Return the sources of all checks.

        Raises:
            UsageError: standard input would be read twice.
            FileMissingError, FileAccessError: a file is not there, or cannot be read.
        """
        files = self.check_files or []
        refuse_second_stdin(files)
        texts = (text.encode(errors="surrogateescape") for text in self.check_texts or [])
        return [*(read_input(path).data for path in files), *texts]


open_app = new_app()


@open_app.command("open")
@expand_options
def open_proposal(
    *,
    graph: GraphOptions,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The branch to merge from.")],
    title: Annotated[str, typer.Option("--title", "-t", metavar="TEXT", help="The title, in one line.")],
    target: Annotated[str, typer.Option("--into", metavar="BRANCH", help="The branch to merge into.")] = "main",
    description: Annotated[str, typer.Option("--description", metavar="TEXT", help="The rest.")] = "",
    checks: CheckOptions,
    required_approvals: Annotated[
        int,
        typer.Option(
            "--approvals", metavar="N", min=0, help="The number of other people who must approve it before the merge."
        ),
    ] = 0,
    actor: Actor = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Propose to merge a branch into another. The checks are stored with the proposal; nothing is merged yet."""
    request = OpenProposalRequest(
        source=source,
        title=title,
        target=target,
        description=description,
        checks=checks.read(),
        check_names=checks.check_names or (),
        required_approvals=required_approvals,
        actor=actor,
    )
    made = _write("open", request, graph, is_quiet=quiet)
    _tell(f"opened proposal {made.number}: {made.title}", made, as_json=as_json)
    return 0


list_app = new_app()


@list_app.command("list")
@expand_options
def list_proposals(
    *,
    graph: GraphOptions,
    state: Annotated[ShownState, typer.Option("--state", help="Which proposals to list.")] = ShownState.OPEN,
    limit: Limit = 20,
    after: Annotated[int | None, typer.Option("--after", metavar="N", help="Continue after this number.")] = None,
    as_json: AsJson = False,
) -> int:
    """List proposals, newest first."""
    page = _read(ListProposalsRequest(state=state.value, limit=limit, after=after), graph)
    more = [] if page.following is None else [f"more: --after {page.following}"]
    report = PlainReport(document=page.to_json(), lines=list(page.lines()), remarks=more)
    choose_output(as_json=as_json).show(report)
    return 0


show_app = new_app()


@show_app.command()
@expand_options
def show(*, graph: GraphOptions, number: Number, as_json: AsJson = False) -> int:
    """Show a proposal: its state, checks, approvals and comments."""
    request = GetProposalRequest(number=_number(number))
    found = _read(request, graph)
    _show(found, as_json=as_json)
    return 0


check_app = new_app()


@check_app.command()
@expand_options
def check(*, graph: GraphOptions, number: Number, conflicts: ConflictOptions, as_json: AsJson = False) -> int:
    """Show the result of the merge, and run the checks on the merged state. Nothing is changed.

    Exits with code 3 if there are conflicts or a check does not pass; missing approvals do not count here.
    """
    found = _read(CheckProposalRequest(number=_number(number), **conflicts.to_fields()), graph)
    is_asked = found.conflicts or conflicts.conflicts_out
    advice = conflicts.next_step(found.conflicts, _merging(graph, found.proposal.number)) if is_asked else None
    report = PlainReport(
        document=found.to_json(),
        lines=list(found.lines()),
        remarks=[] if advice is None else [f"hint: {advice}"],
    )
    choose_output(as_json=as_json).show(report)
    return 0 if found.is_passed else Kind.CONFLICT.exit_code


comment_app = new_app()


@comment_app.command()
@expand_options
def comment(
    *,
    graph: GraphOptions,
    number: Number,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text of the comment.")],
    type_name: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="The type of the entity to comment on.")
    ] = None,
    entity_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="The id of the entity to comment on.")
    ] = None,
    actor: Actor = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Comment on a proposal or, with --type and --id, on an entity; even after it was merged or closed."""
    request = CommentProposalRequest(
        number=_number(number), text=text, type_name=type_name, entity_id=entity_id, actor=actor
    )
    found = _write("comment", request, graph, is_quiet=quiet)
    _tell(f"commented on proposal {found.number}", found, as_json=as_json)
    return 0


approve_app = new_app()


@approve_app.command()
@expand_options
def approve(
    *,
    graph: GraphOptions,
    number: Number,
    head: Annotated[
        str | None,
        typer.Option("--if-commit", metavar="ID", help="Approve nothing unless the source is at this commit."),
    ] = None,
    actor: Actor = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Approve the current head of the source branch, not later commits; authors cannot approve their own."""
    request = ApproveProposalRequest(number=_number(number), head=head, actor=actor)
    found = _write("approve", request, graph, is_quiet=quiet)
    _tell(f"approved proposal {found.number} at {found.source_head}", found, as_json=as_json)
    return 0


merge_app = new_app()


@merge_app.command()
@expand_options
def merge(
    *,
    graph: GraphOptions,
    number: Number,
    conflicts: ConflictOptions,
    commit: CommitOptions,
    expected_head: IfCommit = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Merge a proposal as one commit, if it has its approvals and every check passes on exactly that state.

    Exits with code 3 on conflicts, if a check does not pass, or if approvals are missing; nothing is changed then.
    """
    request = MergeProposalRequest(
        number=_number(number), **conflicts.to_fields(), **commit.to_fields(), expected_head=expected_head
    )
    with conflicts.explaining(_merging(graph, request.number)):
        done = _write("merge", request, graph, is_quiet=quiet)
    _show(done, as_json=as_json)
    return 0


close_app = new_app()


@close_app.command()
@expand_options
def close(
    *,
    graph: GraphOptions,
    number: Number,
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why.")] = None,
    actor: Actor = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Close a proposal without merging it. It stays listed, and its branches do not change."""
    request = CloseProposalRequest(number=_number(number), reason=reason, actor=actor)
    found = _write("close", request, graph, is_quiet=quiet)
    _tell(f"closed proposal {found.number}", found, as_json=as_json)
    return 0


def _merging(graph: GraphOptions, number: int) -> list[str]:
    """Return the command that merges a proposal."""
    return ["proposal", "merge", graph_address(graph), str(number)]


def _read(request: Request[Response], graph: GraphOptions) -> Response:
    with open_graph(graph_address(graph), mode="read_only") as backend:
        return backend.execute(request)


def _write(verb: str, request: Request[Response], graph: GraphOptions, *, is_quiet: bool) -> Response:
    address = graph_address(graph)
    echo_target(f"proposal {verb}", address, is_quiet=is_quiet)
    with open_graph(address) as backend:
        return backend.execute(request)


class _Shown(Protocol):
    """A result with both of its forms."""

    def lines(self) -> Iterable[str]: ...

    def to_json(self) -> dict[str, Any]: ...


def _show(found: _Shown, *, as_json: bool) -> None:
    choose_output(as_json=as_json).show(PlainReport(document=found.to_json(), lines=list(found.lines())))


def _tell(line: str, found: ProposalRecord, *, as_json: bool) -> None:
    """Say what was done to a proposal, and how it stands now."""
    choose_output(as_json=as_json).show(PlainReport(document=found.to_brief_json(), lines=[line]))


def _number(text: str) -> int:
    """Return the number of a proposal, which may be written ``#3``."""
    digits = text.removeprefix("#")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
        raise usage_error(f"'{text}' is not the number of a proposal", value=text, expected="a number, such as 3")
    return int(digits)
