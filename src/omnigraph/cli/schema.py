"""``omnigraph schema``: commands about schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from omnigraph.cli.lazy import Entry, LazyGroup, new_app

_ALIASES = {"get": "show"}


class _Commands(LazyGroup):
    entries: ClassVar[Mapping[str, Entry]] = {
        "plan": Entry(
            module="omnigraph.cli.schema_plan", summary="Show the steps to another schema.", capability="direct"
        ),
        "apply": Entry(
            module="omnigraph.cli.schema_apply",
            summary="Bring a graph to another schema, rows included.",
            capability="any",
        ),
        "show": Entry(
            module="omnigraph.cli.schema_show", summary="Print the schema that a graph follows.", capability="any"
        ),
    }

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that the arguments name, by its name or its alias."""
        return super().resolve_command(ctx, [_ALIASES.get(args[0], args[0]), *args[1:]])


app = new_app(cls=_Commands)


@app.callback()
def schema() -> None:
    """Show, plan and apply schemas."""
