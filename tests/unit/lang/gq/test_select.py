"""Which declaration of a file a name means."""

from __future__ import annotations

import pytest

from omnigraph.errors import MissingThing, QueryNotFoundError
from omnigraph.lang.gq import parse_queries, select_query
from omnigraph.lang.gq.ast import QueryFile


def declared(*names: str) -> QueryFile:
    texts = [f"query {name}() {{ delete P where a = {number} }}" for number, name in enumerate(names)]
    return parse_queries("\n".join(texts), "some.gq")


def test_a_name_selects_its_declaration():
    assert select_query(declared("a", "b", "c"), "b").name.text == "b"


def test_the_first_of_several_declarations_of_a_name_is_selected():
    tree = declared("a", "b", "a")
    assert select_query(tree, "a") is tree.queries[0]


def test_an_unknown_name_is_an_error_with_the_near_ones():
    with pytest.raises(QueryNotFoundError, match=r"query 'find_persn' was not found in some\.gq") as caught:
        select_query(declared("other", "find_person", "find_persons"), "find_persn")
    assert caught.value.details == MissingThing(what="query", name="find_persn", near=("find_person", "find_persons"))


def test_without_a_name_the_only_declaration_is_selected():
    assert select_query(declared("a"), None).name.text == "a"


def test_without_a_name_several_declarations_are_an_error():
    with pytest.raises(QueryNotFoundError, match="declares several queries; name one of them") as caught:
        select_query(declared("a", "b"), None)
    assert caught.value.details == MissingThing(what="query", name="", near=("a", "b"))


def test_two_declarations_of_one_name_are_several():
    with pytest.raises(QueryNotFoundError, match="several"):
        select_query(declared("a", "a"), None)


@pytest.mark.parametrize("name", [None, "a"])
def test_an_empty_file_has_nothing_to_select(name: str | None):
    with pytest.raises(QueryNotFoundError):
        select_query(declared(), name)


def test_the_error_is_a_key_error_too():
    with pytest.raises(KeyError):
        select_query(declared("a"), "b")


def test_names_are_told_apart_by_case():
    with pytest.raises(QueryNotFoundError):
        select_query(declared("findPerson"), "findperson")
