"""Pins and fragments as data: which version of which dataset, and the files that a version lists."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any, cast

import msgspec
from lance.fragment import DataFile, FragmentMetadata

from omnigraph.records import record


class TablePin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One immutable state of a dataset: its place below the root, its Lance branch (``None`` is main), its version.

    A version number means something only together with its branch: a branch continues its parent's numbers.
    """

    location: str
    branch: str | None
    version: int

    def at(self, version: int) -> TablePin:
        """Return another version of the same dataset and branch.

        >>> TablePin(location="nodes/1", branch=None, version=3).at(4).version
        4
        """
        return TablePin(location=self.location, branch=self.branch, version=version)

    @property
    def is_detached(self) -> bool:
        """Whether the version stands beside the line of its branch: it is never the newest, and none follows it."""
        return self.version >= FIRST_DETACHED


# Lance gives detached versions random numbers from here on.
FIRST_DETACHED = 1 << 63
_PACKED = "base64"
# Which versions created and last changed the rows of a fragment.
ROW_VERSIONS = ("created_at_version_meta", "last_updated_at_version_meta")
_ROW_META = ("row_id_meta", *ROW_VERSIONS)


@record
class FragmentRef:
    """One fragment of a dataset version, or one that is staged for the next."""

    metadata: FragmentMetadata = field(repr=False, compare=False)
    files: tuple[str, ...]
    row_count: int

    @classmethod
    def of(cls, metadata: FragmentMetadata) -> FragmentRef:
        """Return the reference to what Lance describes."""
        return cls(metadata=metadata, files=data_paths(metadata), row_count=metadata.num_rows)

    def json(self) -> dict[str, Any]:
        """Return the fragment as JSON values; :meth:`from_json` is the way back."""
        return fragment_to_json(self.metadata)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FragmentRef:
        """Rebuild what :meth:`json` gave."""
        return cls.of(fragment_from_json(data))


def data_paths(metadata: FragmentMetadata) -> tuple[str, ...]:
    """Return the names of a fragment's data files."""
    # The public attribute makes a class on every access, which a table of many fragments feels at each open.
    return tuple(file._path for file in metadata.files)  # noqa: SLF001 - the plain field behind it


def fragment_to_json(metadata: FragmentMetadata) -> dict[str, Any]:
    """Return Lance's description of a fragment as JSON values, row metadata packed."""
    if metadata.overlays:
        data: dict[str, Any] = metadata.to_json()
        return {name: _pack(value) if name in _ROW_META else value for name, value in data.items()}
    # What Lance's own way gives, which copies every part of every file one by one.
    deletion, row_ids = metadata.deletion_file, metadata.row_id_meta
    versions = (getattr(metadata, name) for name in ROW_VERSIONS)
    return {
        "id": metadata.id,
        "files": [_file_to_json(file) for file in metadata.files],
        "overlays": [],
        "physical_rows": metadata.physical_rows,
        "deletion_file": None if deletion is None else deletion.asdict(),
        "row_id_meta": None if row_ids is None else _pack(cast("Any", row_ids).asdict()),
        **{
            name: None if found is None else _pack(json.loads(found.json()))
            for name, found in zip(ROW_VERSIONS, versions, strict=True)
        },
    }


def _file_to_json(file: DataFile) -> dict[str, Any]:
    plain = {name: list(value) if isinstance(value, list) else value for name, value in vars(file).items()}
    plain["path"] = plain.pop("_path")
    return plain


class _Path(str):
    """The name of a file, which old programs call to get it."""

    __slots__ = ()

    def __call__(self) -> str:
        return str(self)

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)


def _make_paths_cheap() -> None:
    # Lance makes a class for each look at the name of a file, and looks at every name that a commit holds.
    setattr(DataFile, "path", property(lambda file: _Path(file._path)))  # noqa: B010, SLF001 - the plain field behind it


_make_paths_cheap()


def fragment_from_json(data: Mapping[str, Any]) -> FragmentMetadata:
    """Rebuild what :func:`fragment_to_json` gave."""
    plain = {name: _unpack(value) if name in _ROW_META else value for name, value in data.items()}
    return FragmentMetadata.from_json(json.dumps(plain))


def with_field_numbers(fragment: FragmentMetadata, numbers: Mapping[int, int]) -> FragmentMetadata:
    """Return a fragment whose files say other numbers for their columns; ``numbers`` maps old ones to new ones."""
    plain = fragment.to_json()
    files = [{**file, "fields": [numbers[number] for number in file["fields"]]} for file in plain["files"]]
    return FragmentMetadata.from_json(json.dumps({**plain, "files": files}))


def _pack(meta: Any) -> Any:
    # Lance writes bytes as a list of numbers, four times their size, and plans carry many of them.
    match meta:
        case {"Inline": list(raw)}:
            return {_PACKED: base64.b64encode(bytes(raw)).decode(), "as": "Inline"}
        case {"inline": list(raw)}:
            return {_PACKED: base64.b64encode(bytes(raw)).decode(), "as": "inline"}
        case _:
            return meta


def _unpack(meta: Any) -> Any:
    if isinstance(meta, Mapping) and _PACKED in meta:
        return {meta["as"]: list(base64.b64decode(meta[_PACKED]))}
    return meta
