"""Kernels of texts and paths: tests, pieces, replacements, and how much memory a longer text takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import PropertyType
from omnigraph.engine.query.functions.conversions import as_text
from omnigraph.engine.query.functions.kernels import PATH_TYPE, Kernel, cast_to
from omnigraph.errors import BadValue, QueryRuntimeError
from omnigraph.ir.model import Apply
from omnigraph.ir.types import PATH


def _text_test(kernel: Callable[..., Any], test: Callable[[str, str], bool]) -> Kernel:
    """Return a test of texts against a text: one kernel where all rows have the same, else pair by pair."""

    def decide(call: Apply, arguments: list[pa.Array], _: list[PropertyType]) -> pa.Array:
        texts, parts = (cast_to(array, pa.string()) for array in arguments)
        same, part = _only(parts)
        if same:
            if part is None:
                return pa.nulls(len(texts), pa.bool_())
            try:
                return kernel(texts, pattern=part)
            except pa.ArrowInvalid as problem:
                details = BadValue(what="pattern", value=part, expected="a regular expression of RE2")
                raise QueryRuntimeError(f"invalid pattern '{part}' in {call}", details=details) from problem
        pairs = zip(texts.to_pylist(), parts.to_pylist(), strict=True)
        return pa.array([None if a is None or b is None else test(a, b) for a, b in pairs], pa.bool_())

    return decide


def _only(values: pa.Array) -> tuple[bool, Any]:
    """Return whether all values are the same one, and that one."""
    if not len(values):
        return True, None
    if values.null_count:
        return values.null_count == len(values), None
    first = values[0]
    return bool(pc.all(pc.equal(values, first)).as_py()), first.as_py()


def _on_text(kernel: Callable[..., Any]) -> Kernel:
    return lambda _, arguments, __: kernel(cast_to(arguments[0], pa.string()))


def _upper(_: Apply, arguments: list[pa.Array], __: list[PropertyType]) -> pa.Array:
    texts = cast_to(arguments[0], pa.string())
    upper = pc.utf8_upper(texts)
    # Arrow knows a capital of this letter that nobody writes; others would make two letters of it.
    kept = pc.match_substring(texts, pattern="ß")
    return pc.if_else(kept, pc.replace_substring(upper, pattern="ẞ", replacement="ß"), upper)


# What a number takes as a text, and an item of a list besides its own content.
_NUMBER_CHARACTERS, _ITEM_BYTES = 24, 8


def _on_path(part: str) -> Kernel:
    return lambda _, arguments, __: pc.struct_field(cast_to(arguments[0], PATH_TYPE), part)


def _length(_: Apply, arguments: list[pa.Array], types: list[PropertyType]) -> pa.Array:
    if types[0] is PATH:
        return pc.list_value_length(pc.struct_field(arguments[0], "edges"))
    return pc.utf8_length(cast_to(arguments[0], pa.string()))


def _by_argument(arguments: list[pa.Array], act: Callable[..., pa.Array], one: Callable[..., Any]) -> pa.Array:
    """Act on texts by further arguments: at once where those are the same in all rows, else row by row."""
    texts, *rest = arguments
    if not len(texts):
        return texts
    known = [_only(array) for array in rest]
    if all(same for same, _ in known):
        values = [value for _, value in known]
        return pa.nulls(len(texts), pa.string()) if None in values else act(texts, *values)
    rows = zip(*(array.to_pylist() for array in arguments), strict=True)
    return pa.array([None if None in row else one(*row) for row in rows], pa.string())


def _substring(_: Apply, arguments: list[pa.Array], __: list[PropertyType]) -> pa.Array:
    texts = cast_to(arguments[0], pa.string())
    if len(arguments) == 2:
        return _by_argument(
            [texts, arguments[1]],
            lambda values, start: pc.utf8_slice_codeunits(values, max(0, start)),
            lambda text, start: text[max(0, start) :],
        )
    return _by_argument(
        [texts, *arguments[1:]],
        lambda values, start, count: pc.utf8_slice_codeunits(values, max(0, start), max(0, start) + max(0, count)),
        lambda text, start, count: text[max(0, start) : max(0, start) + max(0, count)],
    )


def _replace(_: Apply, arguments: list[pa.Array], __: list[PropertyType]) -> pa.Array:
    texts = [cast_to(array, pa.string()) for array in arguments]
    return _by_argument(
        texts,
        lambda values, old, new: pc.replace_substring(values, pattern=old, replacement=new) if old else values,
        lambda text, old, new: text.replace(old, new) if old else text,
    )


def _split(_: Apply, arguments: list[pa.Array], __: list[PropertyType]) -> pa.Array:
    texts = cast_to(arguments[0], pa.string())
    separator = arguments[1][0].as_py() if len(arguments[1]) else ","
    if separator is None:
        return pa.nulls(len(texts))
    if not separator:
        lists = [None if text is None else [text] for text in texts.to_pylist()]
        return pa.array(lists, pa.list_(pa.string()))
    return pc.split_pattern(texts, pattern=separator)


def _concat(_: Apply, arguments: list[pa.Array], __: list[PropertyType]) -> pa.Array:
    texts = [as_text(array) for array in arguments]
    return pc.binary_join_element_wise(*texts, "", null_handling="emit_null")


def grown_bytes(call: Apply, arguments: list[pa.Array]) -> int:
    """Return what the value of a function that makes longer texts or lists takes at most; 0 for all others."""
    if call.function in {"concat", "list"} or (call.function == "+" and pa.types.is_string(arguments[0].type)):
        return sum(array.nbytes + _NUMBER_CHARACTERS * len(array) for array in arguments)
    if call.function == "replace":
        return _replaced_bytes(*(cast_to(array, pa.string()) for array in arguments))
    if call.function == "split" and len(arguments[1]) and (separator := arguments[1][0].as_py()):
        texts = cast_to(arguments[0], pa.string())
        return int(texts.nbytes) + _ITEM_BYTES * (len(texts) + _occurrences(texts, separator))
    return 0


def _replaced_bytes(texts: pa.Array, old: pa.Array, new: pa.Array) -> int:
    (is_same, pattern), (_, replacement) = _only(old), _only(new)
    if is_same and _only(new)[0]:
        if not pattern or replacement is None:
            return int(texts.nbytes)
        return int(texts.nbytes) + _occurrences(texts, pattern) * len(replacement.encode())
    rows = zip(texts.to_pylist(), old.to_pylist(), new.to_pylist(), strict=True)
    added: Iterable[int] = (
        text.count(from_) * len(to.encode()) for text, from_, to in rows if None not in (text, from_, to) and from_
    )
    return int(texts.nbytes) + int(sum(added))


def _occurrences(texts: pa.Array, pattern: str) -> int:
    return int(pc.sum(pc.count_substring(texts, pattern=pattern)).as_py() or 0)


KERNELS: dict[str, Kernel] = {
    "contains": _text_test(pc.match_substring, lambda text, part: part in text),
    "starts_with": _text_test(pc.starts_with, str.startswith),
    "ends_with": _text_test(pc.ends_with, str.endswith),
    "matches": _text_test(pc.match_substring_regex, lambda text, part: re.search(part, text) is not None),
    "lower": _on_text(pc.utf8_lower),
    "upper": _upper,
    "trim": _on_text(pc.utf8_trim_whitespace),
    "length": _length,
    "nodes": _on_path("nodes"),
    "edges": _on_path("edges"),
    "reverse": _on_text(pc.utf8_reverse),
    "substring": _substring,
    "replace": _replace,
    "split": _split,
    "concat": _concat,
}
