"""A place must be findable: by byte for tools, by line and caret for people."""

import pytest

from omnigraph.errors import QuerySyntaxError, SourceEncodingError, SourceTooLargeError
from omnigraph.lang.gq import parse_queries
from omnigraph.lang.source import MAX_SOURCE_BYTES, SourceText, Span, read_source


def test_a_place_counts_bytes_for_tools_and_characters_for_people():
    place = SourceText("f", "é\nab ü c").place(Span(5, 6))
    assert (place.start, place.end, place.line, place.column, place.text) == (6, 8, 2, 4, "ab ü c")


def test_an_empty_span_at_the_end_still_points_somewhere():
    place = SourceText("f", "ab").place(Span(2, 2))
    assert (place.line, place.column, place.width, place.end - place.start) == (1, 3, 1, 1)


def test_of_an_endless_line_only_the_part_around_the_place_is_shown():
    text = "x" * 5000 + "!" + "y" * 5000
    place = SourceText("f", text).place(Span(5000, 5001))
    assert place.column == 5001
    assert len(place.text) == 160
    assert place.text[place.column - 1 - place.text_start] == "!"


def test_the_caret_of_a_cropped_line_stands_under_the_place():
    with pytest.raises(QuerySyntaxError) as caught:
        parse_queries(" " * 3000 + "oops" + " " * 3000)
    _, line, caret = str(caught.value).splitlines()[:3]
    assert line[caret.index("^") :].startswith("oops")
    assert len(line) < 200


def test_a_window_ends_with_the_line():
    place = SourceText("f", "z" * 400).place(Span(399, 400))
    assert (place.text_start, len(place.text)) == (240, 160)


@pytest.mark.parametrize(
    ("data", "line", "column"),
    [(b"ab\n\xffc", 2, 1), (b"\xc3", 1, 1), ("a\0b", 1, 2), ("\ufeffnode", 1, 1), ("a\ud800", 1, 2)],
)
def test_text_that_no_source_may_hold_is_refused_with_its_place(data, line, column):
    with pytest.raises(SourceEncodingError) as caught:
        read_source(data, "f")
    place = caught.value.details.place
    assert (place.line, place.column) == (line, column)


def test_a_source_past_the_limit_is_refused_by_name_and_size():
    with pytest.raises(SourceTooLargeError) as caught:
        read_source(b"x" * (10 << 20), "big.pg")
    assert caught.value.details.limit == MAX_SOURCE_BYTES
    assert caught.value.details.actual == 10 << 20
    assert caught.value.details.place.line == 1
