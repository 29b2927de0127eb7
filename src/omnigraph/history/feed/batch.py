"""``FeedBatch``: some changes of a feed, with where they begin and end, and their JSON form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import pyarrow as pa

from omnigraph.engine.results.frames import to_pandas, to_polars
from omnigraph.errors import BadValue, UsageError
from omnigraph.history.diff.change import EntityChange
from omnigraph.history.diff.schemas import SchemaStep
from omnigraph.history.feed.blocks import Cause
from omnigraph.history.feed.rows import ChangeRow, change_batches, change_columns
from omnigraph.records import record
from omnigraph.values.counts import counted
from omnigraph.values.printable import Printable


@record
class ChangeBlock(Printable):
    """Changes of one commit, or of a part of it; ``schema`` is what it made of the schema, None if nothing."""

    cause: Cause
    changes: tuple[EntityChange, ...]
    schema: SchemaStep | None = None

    def lines(self) -> Iterator[str]:
        """Yield the commit, then a line for each change."""
        yield str(self.cause.commit)
        yield from (f"  {change}" for change in self.changes)

    def to_json(self) -> dict[str, Any]:
        """Return the block as JSON values."""
        schema = {} if self.schema is None else {"schema": self.schema.to_json()}
        return {"cause": self.cause.to_json(), "changes": [change.to_json() for change in self.changes], **schema}


@record
class FeedPlace:
    """A place in a feed: behind so many commits, and so many changes of the next one."""

    sequence: int
    part: int = 0

    @property
    def order(self) -> tuple[int, int]:
        """What places of one feed are compared by."""
        return self.sequence, self.part

    def to_json(self) -> dict[str, Any]:
        """Return the place as JSON values."""
        return {"sequence": self.sequence, "part": self.part}


@record
class FeedBatch(Printable):
    """The next changes of a feed, oldest commit first. Iterating gives the changes.

    Args:
        source: identifies the feed: graph, branch and filter.
        begin: where it begins.
        end: where it ends; a batch may end inside a large commit.
        blocks: the commits with their changes; of the first and the last it may be a part.
        token: where the feed goes on, to be kept with what was done with the changes.
        is_caught_up: nothing was left at the moment of asking.
    """

    source: str
    begin: FeedPlace
    end: FeedPlace
    blocks: tuple[ChangeBlock, ...]
    token: str
    is_caught_up: bool = False

    def __iter__(self) -> Iterator[EntityChange]:
        for block in self.blocks:
            yield from block.changes

    def __len__(self) -> int:
        return sum(len(block.changes) for block in self.blocks)

    def lines(self) -> Iterator[str]:
        """Yield how much the batch holds, then each commit with its changes."""
        state = "inside a commit" if self.end.part else "caught up" if self.is_caught_up else "more follows"
        yield f"{counted(len(self), 'change')} of {counted(len(self.blocks), 'commit')}, {state}"
        for block in self.blocks:
            yield from block.lines()

    def to_arrow(self) -> pa.Table:
        """Return a row for each change; ``before`` and ``after`` are JSON texts."""
        rows = (
            ChangeRow.of(change, block.cause.commit, self.begin.sequence + 1 + number)
            for number, block in enumerate(self.blocks)
            for change in block.changes
        )
        return pa.Table.from_batches(change_batches(rows, None), change_columns(None))

    def to_pandas(self) -> Any:
        """Return a row for each change as a pandas frame; raises ``LibraryMissingError`` without pandas."""
        return to_pandas(self.to_arrow())

    def to_polars(self) -> Any:
        """Return a row for each change as a polars frame; raises ``LibraryMissingError`` without polars."""
        return to_polars(self.to_arrow())

    def to_json(self) -> dict[str, Any]:
        """Return the batch as JSON values: a line of ``changes follow``, and what ``changes apply`` takes."""
        return {
            "source": self.source,
            "begin": self.begin.to_json(),
            "end": self.end.to_json(),
            "blocks": [block.to_json() for block in self.blocks],
            "token": self.token,
            "caught_up": self.is_caught_up,
        }


@record
class ReceivedChange:
    """One change of a received batch: what the entity is afterwards, as an export would write it; None if deleted."""

    kind: str
    type_name: str
    id: str
    after: Mapping[str, Any] | None


@record
class ReceivedBatch:
    """A batch as it comes from its JSON form, by commit."""

    source: str
    begin: FeedPlace
    end: FeedPlace
    token: str
    commits: tuple[str, ...]
    changes: tuple[tuple[ReceivedChange, ...], ...]
    schemas: tuple[SchemaStep | None, ...]

    @classmethod
    def of(cls, document: Any) -> Self:
        """Return the batch of a document.

        Raises:
            UsageError: it is not such a document.
        """
        try:
            batch = cls(
                source=_text(document["source"]),
                begin=_place(document["begin"]),
                end=_place(document["end"]),
                token=_text(document["token"]),
                commits=tuple(_text(block["cause"]["graph_commit_id"]) for block in document["blocks"]),
                changes=tuple(tuple(map(received_change, block["changes"])) for block in document["blocks"]),
                schemas=tuple(_step(block.get("schema")) for block in document["blocks"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            details = BadValue(what="batch", value=str(error)[:80], expected="a line of 'omnigraph changes follow'")
            raise UsageError("this is not a batch of a change feed", details=details) from error
        if batch.end.sequence - batch.begin.sequence != len(batch.commits) - (1 if batch.end.part else 0):
            details = BadValue(what="batch", value=str(len(batch.commits)), expected="a block for each commit")
            raise UsageError("the batch lacks commits that its header lists", details=details)
        return batch

    @property
    def count(self) -> int:
        """How many changes it holds."""
        return sum(map(len, self.changes))

    def schema_steps(self, place: FeedPlace) -> Iterator[tuple[str, SchemaStep]]:
        """Yield what commits behind a place made of the schema, with their ids."""
        for number, (commit, step) in enumerate(zip(self.commits, self.schemas, strict=True)):
            if step is not None and self.begin.sequence + 1 + number > place.sequence:
                yield commit, step

    def behind(self, place: FeedPlace) -> Iterator[ReceivedChange]:
        """Yield the changes that come behind a place."""
        for number, changes in enumerate(self.changes):
            sequence = self.begin.sequence + 1 + number
            first = self.begin.part if number == 0 else 0
            if sequence > place.sequence:
                known = place.part - first if sequence == place.sequence + 1 else 0
                yield from changes[max(known, 0) :]


def joined(batches: Iterable[ReceivedBatch]) -> ReceivedBatch:
    """Return batches that follow each other as one.

    Raises:
        UsageError: they do not.
    """
    found: ReceivedBatch | None = None
    for batch in batches:
        if found is None:
            found = batch
            continue
        if batch.source != found.source or batch.begin != found.end:
            details = BadValue(what="batch", value=str(batch.begin), expected=str(found.end))
            raise UsageError("the batches do not follow each other", details=details)
        commits, changes, schemas = found.commits, found.changes, found.schemas
        if batch.begin.part and commits and batch.commits:
            # The rest of the commit that the batch before ended in.
            changes = (*changes[:-1], (*changes[-1], *batch.changes[0]), *batch.changes[1:])
            commits, schemas = (*commits, *batch.commits[1:]), (*schemas, *batch.schemas[1:])
        else:
            commits, changes = (*commits, *batch.commits), (*changes, *batch.changes)
            schemas = (*schemas, *batch.schemas)
        found = ReceivedBatch(
            source=batch.source,
            begin=found.begin,
            end=batch.end,
            token=batch.token,
            commits=commits,
            changes=changes,
            schemas=schemas,
        )
    if found is None:
        details = BadValue(what="batches", value="none", expected="at least one batch")
        raise UsageError("no batch was passed", details=details)
    return found


def whole_commits(documents: Iterable[Any]) -> Iterator[Sequence[Any]]:
    """Yield documents of batches in groups that end behind a commit; the last one ends where the input does."""
    waiting: list[Any] = []
    for document in documents:
        waiting.append(document)
        # What is not a document of a batch is refused when it is applied.
        end = document.get("end") if isinstance(document, Mapping) else None
        if not (isinstance(end, Mapping) and end.get("part")):
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def _step(document: Any) -> SchemaStep | None:
    if document is None:
        return None
    types = {_text(key): tuple(map(_text, names)) for key, names in document["types"].items()}
    return SchemaStep(types=types, gone=tuple(map(_text, document["gone"])))


def _place(document: Any) -> FeedPlace:
    numbers = document["sequence"], document["part"]
    if not all(type(number) is int and number >= 0 for number in numbers):
        msg = f"place {document}"
        raise ValueError(msg)
    return FeedPlace(sequence=numbers[0], part=numbers[1])


def received_change(document: Any) -> ReceivedChange:
    """Return a change as it comes from its JSON form; raises ``KeyError``, ``TypeError`` or ``ValueError``."""
    kind, name, entity_id = document["kind"], _text(document["type"]["name"]), _text(document["id"])
    if kind not in {"node", "edge"} or document["op"] not in {"insert", "update", "delete"}:
        msg = f"{kind} {document['op']}"
        raise ValueError(msg)
    if document["op"] == "delete":
        return ReceivedChange(kind=kind, type_name=name, id=entity_id, after=None)
    after = document["after"]
    data = {"id": entity_id, **after["properties"]}
    if kind == "node":
        return ReceivedChange(kind=kind, type_name=name, id=entity_id, after={"type": name, "data": data})
    ends = {end: _text(after["endpoints"][end]) for end in ("from", "to")}
    return ReceivedChange(kind=kind, type_name=name, id=entity_id, after={"edge": name, **ends, "data": data})


def _text(value: Any) -> str:
    if not isinstance(value, str):
        msg = f"{value!r} instead of text"
        raise TypeError(msg)
    return value
