"""Command lines that run in the process of the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from omnigraph.cli.operator import scope


@pytest.fixture(autouse=True)
def forgotten_command_line() -> Iterator[None]:
    """Forget after a test what its command lines said, as if their process had ended."""
    yield
    for choose in (scope.choose_profile, scope.choose_server, scope.choose_cluster, scope.choose_graph):
        choose(None)
    scope._named_actor.set(None)
