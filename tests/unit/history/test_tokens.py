"""Tokens survive the way there and back, and nothing else passes for one."""

import base64
import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import ChangeCursorError
from omnigraph.history.diff.change import ChangedType, EntityChange
from omnigraph.history.feed.tokens import (
    MAX_TOKEN,
    CommitPage,
    FeedCursor,
    FeedPage,
    FeedScope,
    Position,
    decode_token,
    encode_token,
)

TYPE = ChangedType(id="t" * 43, name="Person")
SCOPE = FeedScope.of("graph", "main", "main", "f" * 64)


def change(chosen):
    return EntityChange(kind="node", type=TYPE, id=chosen, op="update")


def page(chosen):
    return FeedPage(
        graph=SCOPE.graph,
        branch=SCOPE.branch,
        incarnation=SCOPE.incarnation,
        filter=SCOPE.filter,
        cut="01" + "A" * 24,
        last="01" + "B" * 24,
        current="01" + "C" * 24,
        position=Position.after(change(chosen), 7),
    )


def cursor():
    return FeedCursor(
        graph=SCOPE.graph, branch=SCOPE.branch, incarnation=SCOPE.incarnation, filter=SCOPE.filter, last="x"
    )


def sealed(body):
    return base64.urlsafe_b64encode(body + hashlib.sha256(body).digest()).rstrip(b"=").decode()


@given(st.text(max_size=400).filter(lambda text: text.isprintable() or text.isascii()))
def test_a_token_comes_back_as_it_went_and_is_never_too_long(chosen):
    token = page(chosen)
    text = encode_token(token)
    assert decode_token(text) == token
    assert len(text) <= MAX_TOKEN
    assert token.position.names(chosen)
    assert not token.position.names(chosen + "x")


@pytest.mark.parametrize("chosen", ["é" * 200, "€" * 200, "𝄞" * 200, "a" * 257])
def test_a_long_id_stands_in_a_token_as_a_prefix_and_a_digest(chosen):
    position = Position.after(change(chosen), 1)
    assert position.id_digest is not None
    assert 61 <= len(position.id.encode()) <= 64
    assert chosen.startswith(position.id)
    assert position.names(chosen)
    assert not position.names(position.id)


@given(st.data())
def test_a_damaged_token_is_refused(data):
    text = encode_token(page("ann"))
    place = data.draw(st.integers(0, len(text) - 1))
    letter = data.draw(st.characters(codec="utf-8").filter(lambda found: found != text[place]))
    for damaged in (text[:place] + letter + text[place + 1 :], text[:place], text + letter, letter):
        with pytest.raises(ChangeCursorError, match=r"^change cursor rejected: "):
            decode_token(damaged)


@given(
    st.binary(max_size=60)
    | st.recursive(st.none() | st.integers() | st.text(max_size=5), st.lists).map(
        lambda value: json.dumps(value).encode()
    )
)
def test_whatever_is_sealed_must_have_the_form_of_a_token(body):
    with pytest.raises(ChangeCursorError):
        decode_token(sealed(body))


@pytest.mark.parametrize("edit", [{"version": 2}, {"extra": 1}, {"type": "other"}, {"last": 3}, {"last": None}])
def test_a_token_with_another_content_is_refused(edit):
    raw = base64.urlsafe_b64decode(encode_token(cursor()) + "==")[:-32]
    with pytest.raises(ChangeCursorError):
        decode_token(sealed(json.dumps({**json.loads(raw), **edit}).encode()))


@pytest.mark.parametrize("text", ["", "=", "a" * 5000, "\ud800", "é", "[" * 4000, encode_token(cursor()) + "="])
def test_what_is_no_token_at_all_is_refused(text):
    with pytest.raises(ChangeCursorError):
        decode_token(text)


@pytest.mark.parametrize(
    "other",
    [
        FeedScope.of("other", "main", "main", "f" * 64),
        FeedScope.of("graph", "other", "main", "f" * 64),
        FeedScope.of("graph", "main", "other", "f" * 64),
        FeedScope.of("graph", "main", "main", "e" * 64),
    ],
)
def test_a_token_belongs_to_one_graph_branch_incarnation_and_filter(other):
    SCOPE.check(cursor())
    with pytest.raises(ChangeCursorError, match="it belongs to another"):
        other.check(cursor())


def test_kinds_of_tokens_are_told_apart():
    commit = CommitPage(graph="g", commit="c", filter="f", position=Position.after(change("a"), 1))
    assert type(decode_token(encode_token(commit))) is CommitPage
    assert type(decode_token(encode_token(cursor()))) is FeedCursor


SCOPE_TEXT = (
    f'"version":1,"graph":"{SCOPE.graph}","purpose":"changes/forward","branch":"{SCOPE.branch}",'
    f'"incarnation":"{SCOPE.incarnation}","filter":"{SCOPE.filter}"'
)
PLACES = f'"cut":"01{"A" * 24}","last":"01{"B" * 24}","current":"01{"C" * 24}"'
LONG_POSITION = (
    f'{{"type_id":"{"t" * 43}","id":"{"a" * 64}","id_digest":"{hashlib.sha256(b"a" * 300).hexdigest()}",'
    '"rank":1,"index":7}'
)
COMMIT_PAGE = CommitPage(graph="g", commit="c", filter="f", position=Position.after(change("é"), 1))


@pytest.mark.parametrize(
    ("token", "body"),
    [
        (
            COMMIT_PAGE,
            '{"type":"commit-page","version":1,"graph":"g","commit":"c","filter":"f","position":{"type_id":"'
            + "t" * 43
            + '","id":"é","id_digest":null,"rank":1,"index":1}}',
        ),
        (
            page("a" * 300),
            f'{{"type":"feed-page",{SCOPE_TEXT},{PLACES},"position":{LONG_POSITION}}}',
        ),
        (cursor(), f'{{"type":"feed-cursor",{SCOPE_TEXT},"last":"x"}}'),
    ],
)
def test_a_token_is_written_exactly_like_this(token, body):
    assert encode_token(token) == sealed(body.encode())
    assert decode_token(sealed(body.encode())) == token
