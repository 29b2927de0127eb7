"""The shapes of everything under ``__recovery``: what is read there must fit before anything is made of it.

A sidecar may have been damaged or written by hand. Checking the types of all of it at the door keeps a bad value from
surfacing later as an error that nobody can place.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class WriterShape(TypedDict):
    """A writer's identity."""

    host: str
    pid: int
    started: str


class SignShape(TypedDict):
    """A sign of life: a renewal or a takeover."""

    writer: WriterShape
    at_ms: int


class PinShape(TypedDict):
    """A pin."""

    location: str
    branch: str | None
    version: int


class StagedShape(TypedDict):
    """A staged table commit; its Lance operation is checked where it is decoded."""

    before: PinShape
    after: PinShape
    kind: str
    uuid: str
    operation_id: str
    transaction: dict[str, Any]
    row_count: int
    files: list[str]


class ActionShape(TypedDict):
    """One table's part of a plan."""

    kind: str
    table_key: str
    commit: StagedShape | None


class BatchShape(TypedDict):
    """Which piece of a stream a commit holds."""

    app: str
    number: int


class CommitShape(TypedDict):
    """A graph commit."""

    id: str
    parent: str | None
    actor: str | None
    created_at_ms: int
    manifest_version: int
    operation: str
    branch: str
    merged_parent: str | None
    message: str | None
    published_at_ms: int
    touched: list[str]
    batch: NotRequired[BatchShape]


class EntryShape(TypedDict):
    """A table entry of the next manifest."""

    table_key: str
    object_id: str
    pin: PinShape
    row_count: int


class TombstoneShape(TypedDict):
    """A dropped table of the next manifest."""

    table_key: str
    object_id: str
    pin: PinShape
    dropped_by: str
    dropped_at_ms: int


class RenameShape(TypedDict):
    """A table that the next manifest has under another key."""

    old_key: str
    new_key: str


class SchemaShape(TypedDict):
    """An accepted schema."""

    source: str
    compiled: str
    hash: str


class FloorShape(TypedDict):
    """What a cleanup records."""

    floor: int
    swept: int
    forgotten: list[str]


class ChangeShape(TypedDict):
    """What the publish does to the manifest."""

    commits: list[CommitShape]
    put_tables: list[EntryShape]
    drop_tables: list[TombstoneShape]
    rename_tables: list[RenameShape]
    schema: SchemaShape | None
    raise_epoch: bool
    floor: NotRequired[FloorShape]


class PlanShape(TypedDict):
    """A publish plan."""

    format: int
    operation_id: str
    kind: str
    actor: str | None
    branch: str
    incarnation: str
    base_version: int
    base_commit: str
    epoch: int
    schema_hash: str
    actions: list[ActionShape]
    change: ChangeShape
    read_set: list[str]
    publish_uuid: str
    writer: WriterShape
    created_at_ms: int
