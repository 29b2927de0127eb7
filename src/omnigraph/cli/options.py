"""Options that several commands share, so that they read the same everywhere."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.operator.scope import choose_profile, default_actor

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Store = Annotated[
    str | None,
    typer.Option("--store", metavar="URI", help="The graph's storage: a path, file:// or s3://bucket/prefix."),
]
Uri = Annotated[str | None, typer.Argument(metavar="[URI]", help="The graph: a path, file:// or s3://bucket/prefix.")]
Branch = Annotated[str, typer.Option("--branch", metavar="NAME", help="The branch to work on.")]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME",
        help="The graph that the operator config gives this name.",
        callback=choose_profile,
        expose_value=False,
    ),
]
Actor = Annotated[
    str | None,
    typer.Option(
        "--as",
        metavar="ACTOR",
        help="Who asks for it, kept with the commit; the operator by default.",
        callback=default_actor,
    ),
]
DesiredSchema = Annotated[
    str, typer.Option("--schema", metavar="FILE", help="The schema to move to; - reads standard input.")
]
AllowDataLoss = Annotated[
    bool, typer.Option("--allow-data-loss", help="Make every drop a hard one, which cannot be undone.")
]
QueryFile = Annotated[
    str | None, typer.Option("--query", metavar="FILE", help="The file that holds the query; - reads standard input.")
]
QueryText = Annotated[str | None, typer.Option("--query-string", "-e", metavar="GQ", help="The query itself.")]
Params = Annotated[str | None, typer.Option("--params", metavar="JSON", help="Parameters, as a JSON object.")]
ParamsFile = Annotated[
    str | None,
    typer.Option("--params-file", metavar="FILE", help="Parameters, as a JSON file; - reads standard input."),
]
Param = Annotated[
    list[str] | None,
    typer.Option("--param", metavar="NAME=VALUE", help="One parameter: JSON, or else text; may be repeated."),
]
UriOption = Annotated[
    str | None, typer.Option("--uri", metavar="URI", help="The graph: a path, file:// or s3://bucket/prefix.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Do not say which graph the command works on.")]
Consent = Annotated[bool, typer.Option("--yes", help="Go ahead with what cannot be undone, on a remote graph too.")]
Limit = Annotated[int, typer.Option("--limit", "-n", metavar="N", help="How many at most.")]
IfCommit = Annotated[
    str | None, typer.Option("--if-commit", metavar="ID", help="Change nothing unless the branch is at this commit.")
]
Message = Annotated[str | None, typer.Option("--message", "-m", metavar="TEXT", help="What the commit says.")]
Kinds = Annotated[list[str] | None, typer.Option("--kind", metavar="KIND", help="Only node or edge; may repeat.")]
Types = Annotated[list[str] | None, typer.Option("--type", metavar="TYPE", help="Only this type; may repeat.")]
Ops = Annotated[list[str] | None, typer.Option("--op", metavar="OP", help="Only insert, update or delete; may repeat.")]
Resolve = Annotated[
    str | None,
    typer.Option("--resolve", metavar="WAY", help="Decide rows changed on both sides: ours, theirs or properties."),
]
