"""LIST answered from a sorted index of keys.

The backend walks every key of the bucket and spends a quarter of a millisecond on each key it returns. A test that
measures what a listing costs would then measure that, and a long session would slow down with every object it leaves
behind. The objects themselves stay the backend's; only their names are kept here, in order.
"""

from __future__ import annotations

import base64
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final
from xml.sax.saxutils import escape

from omnigraph.records import record
from omnigraph.testing.s3.wire import Response

_PAGE: Final = 1000
_KNOWN: Final = frozenset({"list-type", "prefix", "delimiter", "max-keys", "start-after", "continuation-token"})


@record
class Entry:
    """What a listing tells about one object."""

    etag: str
    size: int
    last_modified: str


class KeyIndex:
    """The keys of one bucket in order, kept in step with a store that is asked one key at a time."""

    def __init__(self) -> None:
        self._keys: list[str] = []

    def rebuild(self, keys: Iterable[str]) -> None:
        """Take over the keys of the store."""
        self._keys = sorted(keys)

    def refresh(self, key: str, *, exists: bool) -> None:
        """Note whether ``key`` exists."""
        place = bisect_left(self._keys, key)
        found = place < len(self._keys) and self._keys[place] == key
        if exists and not found:
            insort(self._keys, key)
        elif found and not exists:
            del self._keys[place]

    def scan(self, prefix: str, after: str, delimiter: str) -> Iterator[tuple[str, bool]]:
        """Yield (name, is a common prefix) below ``prefix`` and behind ``after``, in order."""
        place = max(bisect_left(self._keys, prefix), bisect_right(self._keys, after))
        while place < len(self._keys) and self._keys[place].startswith(prefix):
            key = self._keys[place]
            cut = key.find(delimiter, len(prefix)) if delimiter else -1
            if cut < 0:
                yield key, False
                place += 1
                continue
            folder = key[: cut + len(delimiter)]
            if folder > after:
                yield folder, True
            place = bisect_left(self._keys, folder[:-1] + chr(ord(folder[-1]) + 1), place)


def can_answer(query: Mapping[str, str]) -> bool:
    """Whether a request for a listing asks for nothing beyond what :func:`list_objects` knows."""
    return query.get("list-type") == "2" and query.keys() <= _KNOWN and query.get("max-keys", "1").isdecimal()


def list_objects(bucket: str, query: Mapping[str, str], index: KeyIndex, entry_of: Callable[[str], Entry]) -> Response:
    """Answer a LIST of version 2."""
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    page = min(int(query.get("max-keys", _PAGE)), _PAGE)
    token = query.get("continuation-token", "")
    after = base64.b64decode(token).decode() if token else query.get("start-after", "")
    contents: list[str] = []
    folders: list[str] = []
    last, truncated = "", False
    for name, is_folder in index.scan(prefix, after, delimiter):
        if len(contents) + len(folders) >= page:
            truncated = page > 0
            break
        last = name
        if is_folder:
            folders.append(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>")
        else:
            contents.append(_contents(name, entry_of(name)))
    fields = [("Name", bucket), ("Prefix", prefix), ("MaxKeys", str(page)), ("KeyCount", str(len(contents + folders)))]
    fields += [("IsTruncated", "true" if truncated else "false")]
    fields += [("Delimiter", delimiter)] if delimiter else []
    fields += [("NextContinuationToken", base64.b64encode(last.encode()).decode())] if truncated else []
    head = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in fields)
    body = (
        '<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"{head}{''.join(contents)}{''.join(folders)}</ListBucketResult>"
    )
    return Response(status=200, headers=(("Content-Type", "application/xml"),), body=body.encode())


def _contents(key: str, entry: Entry) -> str:
    return (
        f"<Contents><Key>{escape(key)}</Key><LastModified>{entry.last_modified}</LastModified>"
        f"<ETag>{escape(entry.etag)}</ETag><Size>{entry.size}</Size><StorageClass>STANDARD</StorageClass></Contents>"
    )
