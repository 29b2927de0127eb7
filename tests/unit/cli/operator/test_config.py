"""The operator config: what it may hold, where mistakes are, and what is ignored."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.cli.operator.config import Alias, Defaults, OperatorConfig, parse_config
from omnigraph.errors import ConfigError, OmnigraphError

PATH = Path("home/config.yaml")
# Far past what a text may nest.
DEEP = "[" * 5000 + "]" * 5000

FULL = """
operator: { actor: act-mira }
profiles:
  local: { store: g.omni }
  bucket: { store: s3://acme/g }
defaults: { output: csv, table_max_column_width: 60, table_cell_layout: wrap, store: /srv/g }
aliases:
  hot:
    profile: local
    file: q.gq
    query: open_items
    args: [owner, since]
    params: { state: on, n: 3, ratio: 1.5, day: 2026-01-05, ids: ["1", null, true], "0x1F": no }
    format: json
"""


def parse(text: str | bytes) -> OperatorConfig:
    return parse_config(text.encode() if isinstance(text, str) else text, PATH)


def test_everything_has_its_place_and_its_type():
    config = parse(FULL)
    assert config.actor == "act-mira"
    assert [profile.storage() for profile in config.profiles.values()] == ["home/g.omni", "s3://acme/g"]
    assert config.defaults == Defaults(
        output="csv", table_max_column_width=60, table_cell_layout="wrap", store="/srv/g"
    )
    alias = config.aliases["hot"]
    assert (alias.file, alias.args, alias.format, alias.mutation) == ("home/q.gq", ("owner", "since"), "json", False)
    assert config.warnings == ()


def test_words_are_words_as_in_the_second_version_of_yaml():
    assert parse(FULL).aliases["hot"].params == {
        "state": "on",
        "n": 3,
        "ratio": 1.5,
        "day": "2026-01-05",
        "ids": ["1", None, True],
        "0x1F": "no",
    }


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "operator:\ndefaults: ~\naliases: {}\n"])
def test_nothing_is_an_empty_config(text: str):
    assert parse(text) == OperatorConfig(path=PATH)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("operator:\n  actor: 'mira\n", 3, "not valid YAML"),
        ("a: 1\n\tb: 2\n", 2, "not valid YAML"),
        ("- a\n", 1, "the config is not a mapping"),
        ("operator:\n  actor: 42\n", 2, "operator.actor is not text"),
        ("operator:\n  actor: ''\n", 2, "operator.actor is not text"),
        ("\nprofiles: [day]\n", 2, "profiles is not a mapping"),
        ("profiles:\n  day: eu\n", 2, "profiles.day is not a mapping"),
        ("profiles:\n  day:\n    store: [x]\n", 3, "profiles.day.store is not text"),
        ("defaults:\n  output: xml\n", 2, "defaults.output is not one of table, kv, csv, jsonl, json"),
        ("defaults:\n  table_max_column_width: 0\n", 2, "table_max_column_width is not a whole number from 1"),
        ("defaults: {table_max_column_width: true}", 1, "table_max_column_width is not a whole number from 1"),
        ("defaults: {table_cell_layout: cut}", 1, "defaults.table_cell_layout is not one of truncate, wrap"),
        ("aliases:\n  a:\n    args: [x, x]\n", 3, r"aliases.a.args\[1\] is not text that occurs only once"),
        ("aliases: {a: {params: [1]}}", 1, "aliases.a.params is not a mapping"),
        ("aliases: {a: {mutation: 1}}", 1, "aliases.a.mutation is not true or false"),
        ("operator: {}\noperator: {}\n", 2, "key 'operator' occurs twice"),
        ("operator: &x {}\ndefaults: *x\n", 1, "YAML anchors and aliases are not supported"),
        ("operator: !!python/object:os.system {}\n", 1, "YAML tags are not supported"),
        ("a: 1\n---\nb: 2\n", 3, "more than one YAML document"),
        (f"aliases: {{a: {{params: {{x: {DEEP}}}}}}}", 1, "nested more than 64 levels deep|not valid YAML"),
    ],
)
def test_mistake_is_told_with_file_line_and_key(text: str, line: int, message: str):
    with pytest.raises(ConfigError, match=message) as caught:
        parse(text)
    place = caught.value.details.place
    assert place is not None
    assert (place.source, place.line) == ("home/config.yaml", line)
    assert str(caught.value).startswith(f"home/config.yaml:{line}:")


@pytest.mark.parametrize("data", [b"\xff\xfe", b"a: \x00", b"#" * (1 << 21), b"%", b"? [a]\n: 1", b"a: \xc2\x81"])
def test_bytes_that_are_no_config_are_refused_by_an_error_of_ours(data: bytes):
    with pytest.raises(OmnigraphError):
        parse(data)


def test_unknown_keys_are_one_warning_each_at_any_level():
    config = parse(
        "telemetry: on\noperator:\n  actor: a\n  nick: b\naliases:\n  x: {querry: q}\nfleets: {eu: {root: u}}\n"
    )
    assert config.actor == "a"
    assert config.warnings == tuple(
        f"unknown key `{key}` (a typo, or from a later version); ignored in home/config.yaml:{line}"
        for key, line in (("telemetry", 1), ("fleets", 7), ("operator.nick", 4), ("aliases.x.querry", 6))
    )


@pytest.mark.parametrize("binding", ["", "server: a, store: b", "store: ~", "store: a, default_graph: g"])
def test_profile_is_looked_at_when_it_is_used(binding: str):
    profile = parse(f"profiles:\n  odd: {{{binding}}}\n").profiles["odd"]
    with pytest.raises(ConfigError, match="profile 'odd' "):
        profile.check()


def test_alias_complains_at_its_place():
    alias = parse("aliases:\n  a: {store: g}\n").aliases["a"]
    assert isinstance(alias, Alias)
    assert str(alias.problem("is odd", expected="x")).startswith("home/config.yaml:2:3: alias 'a' is odd")
