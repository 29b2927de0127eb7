"""The few numbers of maintenance that a deployment may want to change."""

from __future__ import annotations

import os
from collections.abc import Mapping

from omnigraph.errors import BadValue, ValueFormatError
from omnigraph.records import record
from omnigraph.txn.branches import SETTLE_S
from omnigraph.values import check_number, check_whole

CONCURRENCY_VARIABLE = "OMNIGRAPH_MAINTENANCE_CONCURRENCY"
AUTO_VARIABLE = "OMNIGRAPH_AUTO_MAINTENANCE"
_DEFAULT_THREADS = 8
_DEFAULT_EVERY = 64
_MAX_THREADS = 256
_LONGEST_S = 100 * 365 * 86400.0


@record
class MaintenanceSettings:
    """Settings of maintenance.

    Args:
        threads: how many pieces of work run side by side.
        auto_every: after how many commits of this process to a branch its tables are tidied up in the background;
            0 switches that off.
        auto_max_rows: leave out background work that would rewrite more rows at once.
        unnamed_age_s: how old a file that no state names must be before a cleanup removes it; a write that takes
            longer than that from its first file to its commit has to upload again.
        settle_s: how long a cleanup waits for branches that are being made; less only where nobody makes any.

    Raises:
        UsageError: a value is of another type, or out of bounds.
    """

    threads: int = _DEFAULT_THREADS
    auto_every: int = _DEFAULT_EVERY
    auto_max_rows: int = 1 << 18
    unnamed_age_s: float = 7 * 86400.0
    settle_s: float = SETTLE_S

    def __post_init__(self) -> None:
        check_whole("threads", self.threads, least=1, most=_MAX_THREADS)
        check_whole("auto_every", self.auto_every)
        check_whole("auto_max_rows", self.auto_max_rows)
        check_number("unnamed_age_s", self.unnamed_age_s, most=_LONGEST_S)
        check_number("settle_s", self.settle_s, most=_LONGEST_S)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> MaintenanceSettings:
        """Return the settings that the environment asks for.

        Raises:
            ValueFormatError: a variable holds no number, or none that makes sense.
        """
        found = os.environ if environment is None else environment
        return cls(
            threads=_number(found, CONCURRENCY_VARIABLE, _DEFAULT_THREADS, least=1, most=_MAX_THREADS),
            auto_every=_number(found, AUTO_VARIABLE, _DEFAULT_EVERY, least=0),
        )


def _number(environment: Mapping[str, str], name: str, default: int, *, least: int, most: int = 1 << 31) -> int:
    text = environment.get(name, "").strip()
    if not text:
        return default
    number = int(text) if text.isascii() and text.isdigit() and len(text) < len(str(most)) + 1 else -1
    if not least <= number <= most:
        details = BadValue(what=name, value=text, expected=f"a number from {least} to {most}")
        raise ValueFormatError(f"not a number that {name} can have: {text!r}", details=details)
    return number
