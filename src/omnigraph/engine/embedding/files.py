"""Vectors in files: records of the load format with a vector each, computed from their fields before they are loaded.

No graph takes part. Lines that are no nodes, or of other types, pass as they are, byte by byte.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from omnigraph.engine.embedding.rewrite import EmbedProgress, SupportsEmbedding
from omnigraph.errors import (
    BadValue,
    FileAccessError,
    FileMissingError,
    MissingThing,
    OmnigraphError,
    UsageError,
    ValueFormatError,
)
from omnigraph.lang.document import parse_document
from omnigraph.records import record
from omnigraph.values import meant

EmbedMode = Literal["fill_missing", "reembed_selected", "reembed_all", "clean"]
_DEFAULT_OUTPUT = "./build/seed.embedded.jsonl"
_MOST_SPEC_BYTES = 1 << 20
# Records that wait for their vectors at one time.
_BATCH = 256


@record
class TypeSpec:
    """What the vector of a type is called, and which fields its text is made of."""

    target: str
    fields: tuple[str, ...]


@record
class EmbedSpec:
    """Which types get vectors, and how many numbers these have."""

    dimension: int
    types: Mapping[str, TypeSpec]

    @classmethod
    def from_json(cls, document: Any, place: str) -> EmbedSpec:
        """Return what a document says.

        Raises:
            UsageError: it is of another form.
        """
        found = _part(document, place)
        dimension, types = found.get("dimension"), found.get("types")
        if isinstance(dimension, bool) or not isinstance(dimension, int) or dimension < 1:
            raise _wrong(f"'dimension' of {place} is not a number above 0", str(dimension), "the size of the vectors")
        return cls(
            dimension=dimension,
            types={name: _type_spec(item, f"{place}, type {name}") for name, item in _part(types, place).items()},
        )


@record
class EmbedFiles:
    """What a run reads and writes, and what it makes of it."""

    source: Path
    output: Path
    spec: EmbedSpec


def read_manifest(path: str) -> EmbedFiles:
    """Return what a manifest says; its paths are relative to it.

    Raises:
        FileMissingError, FileAccessError, ConfigError, UsageError: it cannot be read, or lacks something.
    """
    document = _part(_document(path), path)
    sources, seed = document.get("sources"), document.get("seed")
    source = _part(sources, path).get("raw_seed") if sources is not None else None
    source = source if source is not None or seed is None else _part(seed, path).get("data")
    if not isinstance(source, str):
        raise _wrong(f"'{path}' does not name its records", path, "sources.raw_seed")
    artifacts = document.get("artifacts")
    output = _DEFAULT_OUTPUT if artifacts is None else _part(artifacts, path).get("embedded_seed", _DEFAULT_OUTPUT)
    if not isinstance(output, str):
        raise _wrong(f"'artifacts.embedded_seed' of '{path}' is not a path", path, "a path")
    base = Path(path).parent
    spec = EmbedSpec.from_json(document.get("embeddings"), f"embeddings of '{path}'")
    return EmbedFiles(source=base / source, output=base / output, spec=spec)


def read_spec(path: str) -> EmbedSpec:
    """Return what a file says that is the ``embeddings`` of a manifest; raises what :func:`read_manifest` does."""
    return EmbedSpec.from_json(_document(path), f"'{path}'")


@record
class Selector:
    """Which records are meant: those of a type, or of all, whose field has a value."""

    type_name: str | None
    field: str
    value: str

    @classmethod
    def parse(cls, text: str) -> Selector:
        """Return what ``[Type:]field=value`` stands for.

        Raises:
            UsageError: it is not of that form.
        """
        place, equals, value = text.partition("=")
        type_name, colon, name = place.rpartition(":")
        if not equals or not name or (colon and not type_name):
            raise _wrong(f"'{text}' selects nothing", text, "[Type:]field=value")
        return cls(type_name=type_name or None, field=name, value=value)

    def matches(self, type_name: str, data: Mapping[str, Any]) -> bool:
        """Whether a record is one of them."""
        if self.type_name not in {None, type_name} or data.get(self.field) is None:
            return False
        return rendered(data[self.field]) == self.value


@record
class FileCounts:
    """What became of the records of a file."""

    records: int = 0
    selected: int = 0
    embedded: int = 0
    cleaned: int = 0


class FileEmbedding:
    """One run over a file.

    Args:
        files: what is read, written and made.
        mode: which vectors are computed, or that they are removed.
        types: only records of these types; all of the spec when empty.
        selectors: only records that one of them matches; all when empty.

    Raises:
        UsageError: the spec has no such type.
    """

    def __init__(
        self, files: EmbedFiles, mode: EmbedMode, types: Sequence[str] = (), selectors: Sequence[Selector] = ()
    ) -> None:
        known = files.spec.types
        for name in (*types, *(one.type_name for one in selectors if one.type_name is not None)):
            if name not in known:
                near = meant(name, list(known))
                raise UsageError(
                    f"the spec has no type '{name}'",
                    details=BadValue(what="type", value=name, expected=", ".join(sorted(known))),
                    hint=near,
                )
        self._files = files
        self._mode = mode
        self._types = frozenset(types) or frozenset(known)
        self._selectors = tuple(selectors)
        self._counts = dict.fromkeys(("records", "selected", "embedded", "cleaned"), 0)

    def run(self, embedder: SupportsEmbedding, progress: Callable[[EmbedProgress], None] | None = None) -> FileCounts:
        """Write all lines to a file beside the output, which it then becomes; on failure the output is as it was.

        Raises:
            FileMissingError, FileAccessError: a file cannot be read or written.
            ValueFormatError: a line is not a record; says which.
            OmnigraphError: whatever embedding raises.
        """
        source, output = self._files.source, self._files.output
        temporary = output.with_name(f"{output.name}.tmp")
        try:
            with source.open("rb") as lines:
                output.parent.mkdir(parents=True, exist_ok=True)
                with temporary.open("wb") as stream:
                    for line in self._made(lines, embedder, progress):
                        stream.write(line)
                    stream.flush()
                    os.fsync(stream.fileno())
            temporary.replace(output)
        except OmnigraphError:
            # What a provider fails with may be an error of the system, too.
            raise
        except FileNotFoundError as problem:
            raise _missing(str(source)) from problem
        except OSError as problem:
            name = str(problem.filename or output)
            details = BadValue(what="file", value=name, expected="a file that can be read and written")
            reason = (problem.strerror or "unusable").lower()
            raise FileAccessError(f"file '{name}' is not usable: {reason}", details=details) from problem
        finally:
            temporary.unlink(missing_ok=True)
        return FileCounts(**self._counts)

    def _made(
        self, lines: Iterator[bytes], embedder: SupportsEmbedding, progress: Callable[[EmbedProgress], None] | None
    ) -> Iterator[bytes]:
        waiting: list[bytes | _Waiting] = []
        count = 0
        for number, line in enumerate(lines, 1):
            item = self._look(line, number)
            waiting.append(item)
            count += isinstance(item, _Waiting)
            if count >= _BATCH:
                yield from self._settled(waiting, embedder, progress)
                waiting, count = [], 0
        yield from self._settled(waiting, embedder, progress)

    def _look(self, line: bytes, number: int) -> bytes | _Waiting:
        if not line.strip():
            return line
        try:
            found = json.loads(line)
        except ValueError as problem:
            raise self._bad(number, "it is not JSON") from problem
        if not isinstance(found, dict) or "type" not in found:
            return line
        name, data = found["type"], found.get("data")
        if not isinstance(name, str) or not isinstance(data, dict):
            raise self._bad(number, "a line with a type has an object 'data'")
        self._counts["records"] += 1
        if name not in self._types or name not in self._files.spec.types:
            return line
        if self._selectors and not any(one.matches(name, data) for one in self._selectors):
            return line
        self._counts["selected"] += 1
        target = self._files.spec.types[name].target
        if self._mode == "clean":
            if target not in data:
                return line
            self._counts["cleaned"] += 1
            del data[target]
            return _line(found)
        if self._mode == "fill_missing" and data.get(target) not in (None, []):
            return line
        return _Waiting(record=found, type_name=name, text=record_text(name, data, self._files.spec.types[name]))

    def _settled(
        self,
        items: Sequence[bytes | _Waiting],
        embedder: SupportsEmbedding,
        progress: Callable[[EmbedProgress], None] | None,
    ) -> Iterator[bytes]:
        asked = [item for item in items if isinstance(item, _Waiting)]
        vectors = iter(())
        if asked:
            found = embedder.embed_documents(
                [item.text for item in asked], dimension=self._files.spec.dimension, model=None, field="the vector"
            )
            vectors = iter(found.tolist())
            self._counts["embedded"] += len(asked)
            if progress is not None:
                progress(EmbedProgress(embedded=self._counts["embedded"], total=self._counts["selected"]))
        for item in items:
            if isinstance(item, bytes):
                yield item
                continue
            item.record["data"][self._files.spec.types[item.type_name].target] = next(vectors)
            yield _line(item.record)

    def _bad(self, number: int, reason: str) -> ValueFormatError:
        place = f"{self._files.source}:{number}"
        details = BadValue(what="record", value=place, expected='{"type": …, "data": {…}}')
        return ValueFormatError(f"{place}: {reason}", details=details)


@record
class _Waiting:
    """A record whose vector is to be computed."""

    record: dict[str, Any]
    type_name: str
    text: str


def record_text(type_name: str, data: Mapping[str, Any], spec: TypeSpec) -> str:
    r"""Return the text that stands for a record.

    >>> record_text("Note", {"title": "a", "tags": ["b", "c"]}, TypeSpec(target="v", fields=("title", "tags", "x")))
    'type: Note\ntitle: a\ntags: b, c'
    """
    told = [f"{name}: {rendered(data[name])}" for name in spec.fields if data.get(name) is not None]
    return "\n".join([f"type: {type_name}", *told])


def rendered(value: Any) -> str:
    """Return a value of JSON as text; items of a list stand behind each other.

    >>> rendered(["a", 1, True])
    'a, 1, true'
    """
    if isinstance(value, str):
        return value
    return ", ".join(map(rendered, value)) if isinstance(value, list) else json.dumps(value, ensure_ascii=False)


def _line(found: Mapping[str, Any]) -> bytes:
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _document(path: str) -> Any:
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(_MOST_SPEC_BYTES + 1)
    except FileNotFoundError as problem:
        raise _missing(path) from problem
    except (OSError, ValueError) as problem:
        details = BadValue(what="file", value=path, expected="a readable file")
        reason = getattr(problem, "strerror", None) or "unreadable"
        raise FileAccessError(f"file '{path}' is not readable: {reason.lower()}", details=details) from problem
    # JSON is YAML, too.
    root = parse_document(data, path).root
    return None if root is None else root.plain()


def _missing(path: str) -> FileMissingError:
    return FileMissingError(f"file '{path}' was not found", details=MissingThing(what="file", name=path))


def _type_spec(document: Any, place: str) -> TypeSpec:
    found = _part(document, place)
    target, fields = found.get("target"), found.get("fields")
    if not isinstance(target, str) or not target:
        raise _wrong(f"{place} has no target", str(target), "the name of the vector")
    if not isinstance(fields, list) or not fields or not all(isinstance(item, str) and item for item in fields):
        raise _wrong(f"{place} has no fields", str(fields)[:100], "a list of fields")
    return TypeSpec(target=target, fields=tuple(fields))


def _part(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(f"{place} is not a mapping", str(value)[:100], "names with values")
    return value


def _wrong(message: str, value: str, expected: str) -> UsageError:
    return UsageError(message, details=BadValue(what="embedding", value=value, expected=expected))
