"""Fragments that tasks wrote beside tables, noted in the scratch place: a load that ends early removes them.

The driver hears of what a task wrote when its whole job has ended. A job that is cut off tells nothing, but its tasks
have noted every fragment as soon as it was there.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from omnigraph.runtime import Runtime
from omnigraph.store.scratch import ScratchPlace
from omnigraph.store.tables.pins import TablePin
from omnigraph.store.tables.portable import TableTicket, discard_fragments

_NOTES = "fragments/"


def note_fragments(scratch: ScratchPlace, ticket: TableTicket, fragments: Sequence[str]) -> None:
    """Take down fragments that were written for a table."""
    if fragments:
        pin = ticket.pin
        note = {"location": pin.location, "branch": pin.branch, "version": pin.version, "fragments": list(fragments)}
        scratch.put(f"{_NOTES}{Runtime.system().ids.ulid()}", msgspec.json.encode(note))


def discard_noted(scratch: ScratchPlace) -> None:
    """Remove all fragments that were taken down; no commit may name one of them, now or later."""
    for name in scratch.names():
        data = scratch.get(name) if name.startswith(_NOTES) else None
        if data is not None:
            note = msgspec.json.decode(data)
            pin = TablePin(location=note["location"], branch=note["branch"], version=note["version"])
            discard_fragments(TableTicket(storage=scratch.storage, pin=pin), note["fragments"])
