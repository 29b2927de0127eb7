"""The ways in which the cases of a read corpus are run: a read gives the same rows in all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle
from typing import Any

from omnigraph.engine.query.options import QueryOptions
from omnigraph.engine.query.planner import RULES
from omnigraph.engine.query.runner import ReadCall
from omnigraph.errors import OmnigraphError
from tests.session import Session

MODES = ("indexed", "csr")


def ways_to_read(session: Session, text: str, params: Any, *, leaves_rules_out: bool) -> Iterator[QueryOptions]:
    """Both modes with every rule; if asked, also without each rule that has a part in the plan, the modes in turns.

    Rules rewrite plans, whatever is indexed: one state of the indexes is enough to run without each of them.
    """
    yield from (QueryOptions(mode=mode) for mode in MODES)
    plan = _plan(session, text, params, frozenset()) if leaves_rules_out else None
    if plan is None:
        return
    for rule, mode in zip(RULES, cycle(MODES), strict=False):
        rules_off = frozenset({rule})
        if _plan(session, text, params, rules_off) != plan:
            yield QueryOptions(mode=mode, rules_off=rules_off)


def _plan(session: Session, text: str, params: Any, rules_off: frozenset[str]) -> Any:
    """Return the plan of a read; None if it has none, because the text or a parameter is refused."""
    call = ReadCall(
        text=text,
        name=None,
        params=params,
        params_form="strict",
        branch="main",
        at=None,
        options=QueryOptions(rules_off=rules_off),
        source_name="case",
    )
    try:
        return replace(session.prepare(call).plan, rules=())
    except OmnigraphError:
        return None
