"""One line of JSON, read so strictly that no two readers can disagree about what it says."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from omnigraph.engine.rows.problem import RowProblem, kind_of

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_DECODER = msgspec.json.Decoder()
# A string of valid JSON, and the colon behind it when it names a member. Possessive, so that a hostile line costs
# neither time nor memory for going back.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"[ \t\r\n]*+(:?)', re.DOTALL)


def read_object(line: bytes, number: int) -> dict[str, Any] | RowProblem:
    """Return the one JSON object that a line holds.

    Refused besides malformed text: a byte order mark, invalid UTF-8, numbers that no double can hold, members that
    are named twice at any depth, and anything after the object.
    """
    if line.startswith(_BYTE_ORDER_MARK):
        return _malformed(number, "it starts with a byte order mark")
    try:
        # Texts that nobody turns into a string would pass unchecked otherwise, names of unknown members among them.
        line.decode()
        value = _DECODER.decode(line)
    except UnicodeDecodeError as error:
        return _malformed(number, f"invalid UTF-8 at byte {error.start}")
    except RecursionError:
        return _malformed(number, "it is nested too deeply")
    except (msgspec.DecodeError, ValueError) as error:
        return _malformed(number, _reason(error))
    if not isinstance(value, dict):
        return RowProblem(line=number, rule="json", message=f"a line must be one JSON object, got {kind_of(value)}")
    if _count_members(value) != line.count(b":"):
        # Colons inside of texts; only now is it worth telling them from those behind member names.
        return _find_duplicate(line, value, number) or value
    return value


def _find_duplicate(line: bytes, value: dict[str, Any], number: int) -> RowProblem | None:
    if _STRING.findall(line).count(b":") == _count_members(value):
        return None
    name = _duplicate_name(line)
    about = "" if name is None else f" {name!r}"
    return RowProblem(line=number, rule="json", message=f"duplicate JSON member{about}", property=name)


def _duplicate_name(line: bytes) -> str | None:
    found: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        names = [name for name, _ in pairs]
        found.extend(name for at, name in enumerate(names) if name in names[:at])

    try:
        json.loads(line, object_pairs_hook=look, parse_int=str, parse_float=str)
    except (RecursionError, ValueError):
        # The line was read already, so only its depth can be in the way; the name is a courtesy.
        return None
    return found[0] if found else None


def _count_members(value: Any) -> int:
    count, waiting = 0, [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            count += len(item)
            waiting.extend(child for child in item.values() if isinstance(child, dict | list))
        else:
            waiting.extend(child for child in item if isinstance(child, dict | list))
    return count


def _reason(error: Exception) -> str:
    text = str(error).removeprefix("JSON is malformed: ")
    return text[:1].lower() + text[1:]


def _malformed(number: int, reason: str) -> RowProblem:
    return RowProblem(line=number, rule="json", message=f"invalid strict JSON at line {number}: {reason}")
