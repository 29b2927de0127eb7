"""A source text of either language: decoding, limits, and places that people can find."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import field
from functools import cached_property

from omnigraph.errors import Diagnostic, LimitExceeded, Place, SourceEncodingError, SourceTooLargeError
from omnigraph.records import record
from omnigraph.values.patterns import late_pattern

# Parsing is linear but not free: these bounds keep a hostile text from holding a process for minutes.
MAX_SOURCE_BYTES = 1 << 20
MAX_NESTING = 64
# A place in a file of one endless line must not print the file.
_SHOWN_CHARACTERS = 160
_LINE_END = late_pattern("\n")


@record(kw_only=False)
class Span:
    """A half-open range ``[start, end)`` of character offsets into a source text."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        """Return the span from the start of this one to the end of ``other``."""
        return Span(self.start, other.end)


NOWHERE = Span(0, 0)


@record
class Ident:
    """A name with the place where it stands; places take no part in equality."""

    text: str
    span: Span = field(default=NOWHERE, compare=False)


@record
class Comment:
    """A ``//`` or ``/* */`` comment, kept beside the tree so that the formatter can put it back."""

    text: str
    span: Span = field(default=NOWHERE, compare=False)


@record(kw_only=False, slots=False)
class SourceText:
    """A decoded text with the name people know it by."""

    name: str
    text: str = field(repr=False)

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(match.end() for match in _LINE_END.finditer(self.text))]

    def place(self, span: Span) -> Place:
        """Describe ``span`` for an error: byte range, line, column, the line itself and how much to underline."""
        start = min(span.start, len(self.text))
        end = max(min(span.end, len(self.text)), start)
        line_index = bisect_right(self._line_starts, start) - 1
        line_start = self._line_starts[line_index]
        line_end = self.text.find("\n", line_start)
        line_text = self.text[line_start : line_end if line_end >= 0 else len(self.text)].rstrip("\r")
        text_start = _window_start(len(line_text), start - line_start)
        first_byte = len(self.text[:start].encode())
        return Place(
            source=self.name,
            start=first_byte,
            end=first_byte + max(1, len(self.text[start:end].encode())),
            line=line_index + 1,
            column=start - line_start + 1,
            text=line_text[text_start : text_start + _SHOWN_CHARACTERS],
            width=max(1, min(end, line_start + len(line_text)) - start),
            text_start=text_start,
        )


def _window_start(length: int, at: int) -> int:
    if length <= _SHOWN_CHARACTERS:
        return 0
    return max(0, min(at - _SHOWN_CHARACTERS // 2, length - _SHOWN_CHARACTERS))


def read_source(data: bytes | str, name: str) -> SourceText:
    """Turn raw input into a :class:`SourceText`, refusing what no source may be.

    Raises:
        SourceTooLargeError: more than ``MAX_SOURCE_BYTES``.
        SourceEncodingError: not UTF-8, or a byte order mark, or a NUL character.
    """
    # A str can hold lone surrogates (from a surrogateescape'd argument); they are no UTF-8 either.
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    if len(raw) > MAX_SOURCE_BYTES:
        head = SourceText(name, raw[:MAX_SOURCE_BYTES].decode("utf-8", "replace"))
        place = head.place(Span(len(head.text), len(head.text)))
        raise SourceTooLargeError(
            f"source {name} is too large: {len(raw)} bytes, the limit is {MAX_SOURCE_BYTES}",
            details=LimitExceeded(resource="source_bytes", limit=MAX_SOURCE_BYTES, actual=len(raw), place=place),
        )
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        before = SourceText(name, raw[: error.start].decode("utf-8") + "\N{REPLACEMENT CHARACTER}")
        place = before.place(Span(len(before.text) - 1, len(before.text)))
        found = Diagnostic(place=place, found=f"byte 0x{raw[error.start]:02x}")
        raise SourceEncodingError("source is not valid UTF-8", details=found) from error
    source = SourceText(name, text)
    _refuse_character(source, text.find("\0"), "NUL character")
    _refuse_character(source, 0 if text.startswith("\ufeff") else -1, "byte order mark")
    return source


def _refuse_character(source: SourceText, at: int, what: str) -> None:
    if at >= 0:
        found = Diagnostic(place=source.place(Span(at, at + 1)), found=what, suggestion=f"remove the {what}")
        raise SourceEncodingError(f"the source contains a {what}", details=found)
