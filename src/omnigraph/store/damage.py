"""Finding out which object is damaged, when something that was stored cannot be read.

Lance often says what is wrong with a file and not which file it is. So whoever meets damage looks: first into what
Lance says, then at the files of the version that it was reading. Only the road of an error pays for that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from lance import LanceDataset

_MAGIC = {".lance": b"LANC", ".manifest": b"LANC", ".arrow": b"ARROW1"}
_TREE = "/tree/"
_FILES = 10_000


def damaged_object(location: str, told: str, handle: LanceDataset | None) -> str:
    """Return the key of the object that is damaged, or ``location`` when that cannot be told.

    Args:
        location: what was read, below the graph's root.
        told: what Lance said.
        handle: the version that was read.
    """
    named = re.search(rf"{re.escape(location)}(?:/[\w.\-~,]+)+\.\w+", unquote(told))
    if named is not None:
        return named.group()
    if handle is None:
        return location
    try:
        found = next((name for name, path, size in _files(handle) if _is_damaged(path, size)), None)
    except Exception:  # noqa: BLE001 - this is the road of another error, which must not be lost
        return location
    return location if found is None else f"{location}/{found}"


def _files(handle: LanceDataset) -> Iterator[tuple[str, Path, int | None]]:
    """Yield the files of a version on a local disk: the name below its dataset, the path, and the recorded size."""
    root = Path(str(handle.uri).removeprefix("file://"))
    if not root.is_dir():
        return
    # A branch lists files of the line that it came from under the same names.
    text, tree, branch = str(root).partition(_TREE)
    places = [(root, f"tree/{branch}/" if tree else ""), *([(Path(text), "")] if tree else [])]
    for number, fragment in enumerate(handle.get_fragments()):
        if number > _FILES:
            return
        metadata: Any = fragment.metadata
        for file in metadata.files:
            yield from _placed(places, f"data/{file.path}", getattr(file, "file_size_bytes", None))
        if metadata.deletion_file is not None:
            yield from _placed(places, metadata.deletion_file.path(metadata.id), None)
    for index in handle.describe_indices():
        for segment in index.segments:
            for place, prefix in places:
                folder = place / "_indices" / str(segment.uuid)
                for path in sorted(folder.glob("*.lance")):
                    yield f"{prefix}_indices/{segment.uuid}/{path.name}", path, None


def _placed(places: list[tuple[Path, str]], name: str, size: int | None) -> Iterator[tuple[str, Path, int | None]]:
    for place, prefix in places:
        if (place / name).exists():
            yield f"{prefix}{name}", place / name, size
            return
    place, prefix = places[0]
    yield f"{prefix}{name}", place / name, size


def _is_damaged(path: Path, size: int | None) -> bool:
    """Whether a file is missing, is not as long as it was, or does not end as files of its kind do."""
    if not path.is_file():
        return True
    found = path.stat().st_size
    magic = _MAGIC.get(path.suffix, b"")
    if found < len(magic) or (size is not None and found != size):
        return True
    with path.open("rb") as file:
        file.seek(found - len(magic))
        return file.read() != magic
