"""Logs of a server: one line for each event, with the request it belongs to, and without places of storage."""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, TextIO

from omnigraph.runtime import current_call
from omnigraph.values.temporal import format_datetime

_DECISION = ("action", "target_branch", "allowed", "rule")
# What a line may say besides its text.
FIELDS = (
    "request_id",
    "graph",
    "actor",
    "method",
    "route",
    "status",
    "ms",
    "operation",
    "branch",
    "commit",
    *_DECISION,
)
LEVEL_VARIABLE = "OMNIGRAPH_LOG"
FORMAT_VARIABLE = "OMNIGRAPH_LOG_FORMAT"


class Redaction:
    """Keeps places of storage out of texts: each is replaced by the name of its graph."""

    def __init__(self) -> None:
        self._names: tuple[tuple[str, str], ...] = ()

    def hide(self, places: Mapping[str, str]) -> None:
        """Hide these places from now on, each behind the id of its graph."""
        # The longest first: one place may be the beginning of another.
        known = {*self._names, *((place.rstrip("/"), f"<graph {name}>") for name, place in places.items())}
        self._names = tuple(sorted((one for one in known if one[0]), key=lambda one: -len(one[0])))

    def clean(self, text: str) -> str:
        """Return the text without the places."""
        for place, name in self._names:
            text = text.replace(place, name)
        return text


class LogFormatter(logging.Formatter):
    """Writes records as JSON lines, or as text for a person."""

    def __init__(self, redaction: Redaction, *, is_json: bool) -> None:
        super().__init__()
        self._redaction = redaction
        self._is_json = is_json

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        clean = self._redaction.clean
        told: dict[str, Any] = {
            "time": format_datetime(int(record.created * 1000)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": clean(record.getMessage()),
        }
        for name in FIELDS:
            value = getattr(record, name, None)
            if value is not None:
                told[name] = clean(value) if isinstance(value, str) else value
        if "request_id" not in told and current_call().request_id is not None:
            told["request_id"] = current_call().request_id
        if record.exc_info is not None and record.exc_info[1] is not None:
            told["error"] = clean(_brief(record.exc_info[1]))
        if self._is_json:
            return json.dumps(told, ensure_ascii=True)
        rest = " ".join(f"{name}={json.dumps(told[name])}" for name in (*FIELDS, "error") if name in told)
        message = json.dumps(told["message"])[1:-1]
        return f"{told['time']} {record.levelname} {message} {rest}".rstrip()


def _brief(error: BaseException) -> str:
    """Return where an error came from, without the places of files, and what it says."""
    frames = traceback.extract_tb(error.__traceback__)
    where = " < ".join(f"{PurePath(one.filename).stem}.{one.name}:{one.lineno}" for one in reversed(frames[-8:]))
    return f"{type(error).__name__}: {error} ({where})"


def configure_logs(
    redaction: Redaction, environment: Mapping[str, str] | None = None, to: TextIO | None = None
) -> None:
    """Send the logs of the package to standard error: text for a terminal, JSON for everything else.

    ``OMNIGRAPH_LOG`` is the level, ``OMNIGRAPH_LOG_FORMAT`` is ``json`` or ``text``.
    """
    environment = os.environ if environment is None else environment
    stream = sys.stderr if to is None else to
    level = logging.getLevelNamesMapping().get(environment.get(LEVEL_VARIABLE, "info").upper(), logging.INFO)
    asked = environment.get(FORMAT_VARIABLE, "").lower()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LogFormatter(redaction, is_json=asked == "json" or (asked != "text" and not stream.isatty())))
    others = max(level, logging.WARNING)
    for name, least in (("omnigraph", level), ("asyncio", others), ("mcp", others)):
        # The event loop and the protocol of agents tell of their troubles in the same form, on one line and without
        # places of files.
        log = logging.getLogger(name)
        log.handlers[:] = [handler]
        log.setLevel(least)
        log.propagate = False
    # It tells of every stream that was broken off, with a traceback; ours says what is to know.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
