"""What stands between a command and a write: the echo of its target, and consent to what cannot be undone."""

from __future__ import annotations

import sys

from omnigraph.cli.output import write_line
from omnigraph.errors import BadValue, UsageError
from omnigraph.store.location import Storage

_CONSENT = frozenset({"y", "yes"})


def echo_target(label: str, address: str, *, is_quiet: bool) -> None:
    """Say on standard error which graph a write goes to."""
    if not is_quiet:
        where = "local" if Storage.open(address).is_local else "remote"
        write_line(f"omnigraph {label} → {address} (direct, {where})", sys.stderr)


def ask_consent(label: str, address: str, *, is_given: bool, as_json: bool) -> None:
    """Return if a destructive write may go ahead: always on this machine, elsewhere with ``--yes`` or an answer.

    Raises:
        UsageError: it may not.
    """
    if is_given or Storage.open(address).is_local:
        return
    if not as_json and sys.stdin.isatty():
        sys.stderr.write(f"{label} cannot be undone on {address}; go on? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() in _CONSENT:
            return
    details = BadValue(what="consent", value="", expected="--yes")
    raise UsageError(f"{label} cannot be undone on a remote graph", details=details, hint="give --yes to go ahead")
