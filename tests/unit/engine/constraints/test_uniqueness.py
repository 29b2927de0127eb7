"""``@key`` and ``@unique``: inside a change, in its final image, and against what is stored."""

import pytest
from tests.constraint_graph import catalog_of, found, messages, part

USERS = catalog_of(
    """
node User { name: String @key  email: String? @unique }
node Box { w: F64?  day: Date?  at: DateTime?  flag: Bool?  big: U64?
    @unique(w) @unique(day) @unique(at) @unique(big) @unique(flag, w) }
node Pair { a: String?  b: String?  @unique(b, a) }
node Slot { tenant: String  slot: U32  @key(tenant, slot) @unique(tenant, slot) }
edge Knows: User -> User { since: I32?  @unique(src, dst) }
edge Likes: User -> User { since: I32?  @key(src, dst, since) }
edge Owns: User -> Box { @unique(dst) }
""".replace("since: I32?  @key", "since: I32  @key")
)


def user(name, email=None):
    return {"id": name, "name": name, "email": email}


def knows(identifier, src, dst):
    return {"id": identifier, "src": src, "dst": dst}


PEOPLE = [user("ada", "a@x"), user("bob", "b@x"), user("cy")]


def test_rows_without_a_value_never_clash():
    rows = [user("d"), user("e")]
    assert messages(USERS, part(USERS, "User", rows), stored={"User": PEOPLE}) == []


def test_two_rows_of_a_change_clash():
    rows = [user("d", "z@x"), user("e", "z@x"), user("f", "z@x")]
    assert messages(USERS, part(USERS, "User", rows)) == [
        "@unique violation on User.email: value 'z@x' held by 'd' and 'e'",
        "@unique violation on User.email: value 'z@x' held by 'd' and 'f'",
    ]


def test_two_rows_with_one_key_clash_even_when_they_are_the_same():
    (item,) = found(USERS, part(USERS, "User", [user("d"), user("d")])).items
    assert (item.rule, item.message) == ("key", "@key violation on User.name: value 'd' occurs twice")


def test_a_composite_key_is_shown_with_its_columns_sorted():
    rows = [{"id": '["acme","7"]', "tenant": "acme", "slot": 7}] * 2
    (item,) = found(USERS, part(USERS, "Slot", rows)).items
    assert item.rule == "key"
    assert item.message.startswith("@key violation on Slot.(slot, tenant): value '(7, acme)' occurs twice")


def test_a_stored_row_of_the_same_key_is_replaced_and_does_not_clash():
    assert messages(USERS, part(USERS, "User", [user("ada", "a@x")]), stored={"User": PEOPLE}) == []


def test_a_value_of_a_surviving_stored_row_clashes():
    assert messages(USERS, part(USERS, "User", [user("d", "a@x")]), stored={"User": PEOPLE}) == [
        "@unique violation on User.email: value 'a@x' held by 'ada' and 'd'"
    ]


def test_a_value_can_move_between_rows_inside_one_change():
    moved = part(USERS, "User", [user("ada"), user("bob", "a@x")])
    swapped = part(USERS, "User", [user("ada", "b@x"), user("bob", "a@x")])
    assert messages(USERS, moved, stored={"User": PEOPLE}) == []
    assert messages(USERS, swapped, stored={"User": PEOPLE}) == []


def test_the_value_of_a_deleted_row_is_free():
    freed = part(USERS, "User", [user("d", "a@x")], deletes=("ada",))
    assert messages(USERS, freed, stored={"User": PEOPLE}) == []


def test_a_replaced_table_holds_no_values():
    whole = part(USERS, "User", [user("d", "a@x")], replaces_all=True)
    assert messages(USERS, whole, stored={"User": PEOPLE}) == []


def test_two_versions_of_one_entity_clash_in_the_change_but_only_the_last_meets_stored_rows():
    stored = {"Box": [{"id": "old", "w": 1.0}]}
    same = part(USERS, "Box", [{"id": "n", "w": 2.0}, {"id": "n", "w": 2.0}])
    assert messages(USERS, same, stored=stored) == ["@unique violation on Box.w: value '2' held by 'n' and 'n'"]
    superseded = part(USERS, "Box", [{"id": "n", "w": 1.0}, {"id": "n", "w": 2.0}])
    assert messages(USERS, superseded, stored=stored) == []
    last = part(USERS, "Box", [{"id": "n", "w": 2.0}, {"id": "m", "w": 3.0}, {"id": "n", "w": 1.0}])
    (item,) = found(USERS, last, stored=stored).items
    assert item.message == "@unique violation on Box.w: value '1' held by 'old' and 'n'"


@pytest.mark.parametrize(
    ("column", "stored", "written", "text"),
    [
        ("w", 0.0, -0.0, "0"),
        ("day", 19723, 19723, "19723"),
        ("at", 1704067200001, 1704067200001, "1704067200001"),
        ("big", 2**64 - 1, 2**64 - 1, "18446744073709551615"),
    ],
)
def test_values_are_compared_by_their_canonical_text(column, stored, written, text):
    change = part(USERS, "Box", [{"id": "n", column: written}])
    assert messages(USERS, change, stored={"Box": [{"id": "old", column: stored}]}) == [
        f"@unique violation on Box.{column}: value '{text}' held by 'old' and 'n'"
    ]


def test_strings_are_compared_exactly():
    rows = [user("d", "A@x"), user("e", "a@x "), user("f", "")]
    assert messages(USERS, part(USERS, "User", rows), stored={"User": PEOPLE}) == []


def test_a_tuple_clashes_as_a_whole_and_a_null_in_any_column_exempts_it():
    stored = {"Pair": [{"id": "s", "a": "x", "b": "y"}]}
    free = [{"id": "1", "a": "x", "b": "z"}, {"id": "2", "a": "x"}, {"id": "3", "b": "y"}, {"id": "4", "a": "x"}]
    assert messages(USERS, part(USERS, "Pair", free), stored=stored) == []
    taken = [{"id": "5", "a": "x", "b": "y"}]
    assert messages(USERS, part(USERS, "Pair", taken), stored=stored) == [
        "@unique violation on Pair.(a, b): value '(x, y)' held by 's' and '5'"
    ]


def test_texts_with_separators_in_them_are_not_confused():
    rows = [{"id": "1", "a": "x|", "b": "y"}, {"id": "2", "a": "x", "b": "|y"}, {"id": "3", "a": "x\\", "b": "|y"}]
    assert messages(USERS, part(USERS, "Pair", rows)) == []


def test_numbers_without_a_text_are_reported_once_as_what_they_are():
    rows = [{"id": "1", "w": float("nan")}, {"id": "2", "w": float("nan")}]
    assert [item.rule for item in found(USERS, part(USERS, "Box", rows)).items] == ["type", "type"]


def test_a_unique_set_that_is_the_key_is_not_reported_twice():
    rows = [{"id": '["acme","7"]', "tenant": "acme", "slot": 7}] * 2
    assert len(found(USERS, part(USERS, "Slot", rows)).items) == 1


def test_unique_may_name_the_ends_of_an_edge():
    stored = {"User": PEOPLE, "Knows": [knows("k1", "ada", "bob")]}
    again = part(USERS, "Knows", [knows("k2", "ada", "bob")])
    assert messages(USERS, again, stored=stored) == [
        "@unique violation on Knows.(dst, src): value '(bob, ada)' held by 'k1' and 'k2'"
    ]
    other_way = part(USERS, "Knows", [knows("k2", "bob", "ada"), knows("k3", "bob", "bob")])
    assert messages(USERS, other_way, stored=stored) == []


def test_an_edge_key_is_unique_in_a_change_and_replaces_stored_edges():
    edge = {"id": '["ada","bob","1"]', "src": "ada", "dst": "bob", "since": 1}
    stored = {"User": PEOPLE, "Likes": [edge]}
    assert messages(USERS, part(USERS, "Likes", [edge]), stored=stored) == []
    (item,) = found(USERS, part(USERS, "Likes", [edge, edge]), stored=stored).items
    assert item.rule == "key"
    assert "Likes.(dst, since, src): value '(bob, 1, ada)'" in item.message


def test_many_clashes_are_counted_and_few_described():
    rows = [user(f"u{at}", "same") for at in range(50)]
    violations = found(USERS, part(USERS, "User", rows), limit=4)
    assert (violations.total, len(violations.items)) == (49, 4)
    assert violations.items[-1].entity_id == "u4"
