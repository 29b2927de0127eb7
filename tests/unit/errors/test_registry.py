"""The error table is what HTTP, exit codes, clients and docs are made from, so it must be complete and lossless."""

import json
import pickle
from dataclasses import fields, is_dataclass
from typing import get_args, get_type_hints

import pytest

import omnigraph.errors
from omnigraph.errors import (
    BY_CODE,
    BadValue,
    Details,
    Diagnostic,
    DiagnosticError,
    Effect,
    InternalError,
    Kind,
    OmnigraphError,
    Place,
    QueryTypeError,
    Retry,
    UsageError,
    error_from_json,
)

CLASSES = tuple(BY_CODE.values())


def _sample(hint):
    """A non-default value of any type that details use."""
    if hint is str:
        return "text é"
    if hint is int:
        return 7
    if hint is float:
        return 0.5
    if hint is bool:
        return True
    if is_dataclass(hint):
        return _sample_details(hint)
    options = [option for option in get_args(hint) if option not in {type(None), Ellipsis}]
    if getattr(hint, "__origin__", None) is tuple:
        return (_sample(options[0]), _sample(options[0]))
    return _sample(options[0])


def _sample_details(cls):
    hints = get_type_hints(cls)
    return cls(**{field.name: _sample(hints[field.name]) for field in fields(cls)})


def _sample_error(cls):
    return cls(
        "it went wrong name='x'",
        details=_sample_details(cls.row.details),
        hint="do this",
        retry=Retry.AFTER_REFRESH,
        effect=Effect.UNKNOWN,
    )


def _exported(root):
    return {thing for thing in vars(omnigraph.errors).values() if isinstance(thing, type) and issubclass(thing, root)}


def test_the_room_exports_every_registered_class_and_its_details():
    assert _exported(OmnigraphError) == {*CLASSES, OmnigraphError, DiagnosticError}
    assert {cls.row.details for cls in CLASSES} <= _exported(Details)


def test_every_class_says_what_a_caller_needs():
    for cls in CLASSES:
        row = vars(cls)["row"]
        assert BY_CODE[row.code] is cls
        assert isinstance(row.kind, Kind), cls
        assert isinstance(row.retry, Retry), cls
        assert isinstance(row.effect, Effect), cls


def test_a_second_class_with_the_same_code_is_refused():
    with pytest.raises(TypeError, match="CopyError and UsageError have the same code 'usage'"):
        type("CopyError", (OmnigraphError,), {"row": UsageError.row})
    assert BY_CODE["usage"] is UsageError


def test_a_class_below_a_registered_one_needs_a_row_of_its_own():
    with pytest.raises(TypeError, match="NarrowError needs a row of its own"):
        type("NarrowError", (UsageError,), {})


def test_kinds_pair_one_to_one_with_exit_codes_and_words():
    assert sorted(kind.exit_code for kind in Kind) == list(range(1, len(Kind) + 1))
    assert len({kind.word for kind in Kind}) == len(Kind)
    assert all(Kind.from_word(kind.word) is kind for kind in Kind)
    with pytest.raises(ValueError, match="unknown error kind"):
        Kind.from_word("nope")


def test_only_internal_and_integrity_share_an_http_status():
    statuses = [kind.http_status for kind in Kind if kind is not Kind.INTEGRITY]
    assert len(set(statuses)) == len(statuses)
    assert Kind.INTEGRITY.http_status == Kind.INTERNAL.http_status == 500


def test_json_and_pickle_give_an_equal_error_back():
    for cls in CLASSES:
        error = _sample_error(cls)
        over_the_wire = error_from_json(json.loads(json.dumps(error.to_json())))
        assert over_the_wire == error
        assert type(over_the_wire) is cls
        pickled = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
        assert pickled == error
        assert str(pickled) == str(error)
        assert hash(pickled) == hash(error)


def test_every_class_says_when_it_occurs_and_ends_in_error():
    for cls in CLASSES:
        assert cls.__doc__, cls
        assert cls.__name__.endswith("Error")
        assert cls.row.code == cls.row.code.lower()


def test_a_code_from_a_newer_version_keeps_its_message():
    error = error_from_json({"code": "future.thing", "message": "what", "hint": "upgrade"})
    assert isinstance(error, InternalError)
    assert "future.thing: what" in str(error)


def test_details_of_the_wrong_type_are_refused_at_once():
    with pytest.raises(TypeError, match="carries BadValue, not Diagnostic"):
        UsageError("x", details=Diagnostic())


def test_fields_that_a_newer_version_added_to_details_are_ignored():
    error = UsageError("x", details=BadValue(what="a", value="b", expected="c"))
    data = error.to_json()
    data["details"]["extra"] = 1
    assert error_from_json(data) == error


def test_errors_that_differ_in_any_fact_are_not_equal():
    assert InternalError("a") != InternalError("b")
    assert InternalError("a") != InternalError("a", effect=Effect.STAGED)
    assert InternalError("a") != "a"
    assert Details() == Details()


def test_an_error_stays_in_a_set_when_its_effect_is_found_out_later():
    """The publisher learns what a failed commit left behind after it has caught the error."""
    error = InternalError("a")
    seen = {error}
    error.effect = Effect.UNKNOWN
    assert error in seen


def test_a_diagnostic_prints_place_line_caret_and_suggestion():
    place = Place(source="q.gq", start=4, end=7, line=2, column=3, text="\tab cde", width=2)
    error = QueryTypeError("type error: T1", details=Diagnostic(rule="T1", place=place, suggestion="did you mean x?"))
    assert str(error).splitlines() == [
        "q.gq:2:3: type error: T1",
        "2 | \tab cde",
        "  | \t ^^",
        "  = suggestion: did you mean x?",
    ]
    assert error.message == "type error: T1"


def test_a_diagnostic_without_a_place_prints_its_message_and_suggestion():
    error = QueryTypeError("no place", details=Diagnostic(suggestion="look elsewhere"))
    assert str(error) == "no place\nsuggestion: look elsewhere"
