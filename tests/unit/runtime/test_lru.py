"""The one bounded cache: what leaves, when, and who is told."""

from __future__ import annotations

from omnigraph.runtime import LRUCache


def test_the_least_recently_used_value_makes_room():
    cache = LRUCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert [cache.get(key) for key in "abc"] == [1, None, 3]
    assert len(cache) == 2


def test_values_are_bounded_by_their_size_together():
    dropped = []
    cache = LRUCache(max_size=10, size_of=len, on_drop=dropped.append)
    for text in ("aaaa", "bbbb", "cccc"):
        cache.put(text[0], text)
    assert (cache.size, dropped) == (8, ["aaaa"])
    cache.put("b", "b")
    assert (cache.size, len(cache)) == (5, 2)


def test_a_value_that_is_too_large_alone_is_not_kept_and_drops_no_other():
    cache = LRUCache(max_size=3, size_of=len)
    cache.put("a", "aa")
    cache.put("b", "bbbb")
    assert (cache.get("a"), cache.get("b"), cache.size) == ("aa", None, 2)
    cache.put("a", "aaaa")
    assert (cache.get("a"), cache.size) == (None, 0)
