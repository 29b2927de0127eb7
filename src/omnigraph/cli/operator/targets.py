"""Where a scope leads: servers and clusters by the addresses that the config gives their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from omnigraph.cli.operator.config import OperatorConfig, Scope
from omnigraph.errors import BadValue, UsageError


def resolve_target(config: OperatorConfig, scope: Scope) -> str:
    """Return the address that a scope leads to.

    Raises:
        UsageError: it names a server or a cluster that the config does not know.
    """
    match scope.kind:
        case "store":
            return scope.written
        case "server":
            return scope.written if "://" in scope.written else _known(scope, config.servers)
        case "cluster":
            # A cluster may also be a folder or a storage root.
            return config.clusters.get(scope.written, scope.written)
        case _:
            assert_never(scope.kind)


def _known(scope: Scope, known: Mapping[str, str]) -> str:
    if scope.written in known:
        return known[scope.written]
    raise UsageError(
        f"{scope.origin} names an unknown {scope.kind} name={scope.written}",
        details=BadValue(what=scope.kind, value=scope.written, expected=", ".join(known) or f"a {scope.kind}"),
        hint=f"there are {', '.join(known)}" if known else f"the operator config defines no {scope.kind}",
    )
