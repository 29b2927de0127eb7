"""Random loads against a graph made of dictionaries: the same rows and the same errors after every one of them."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.errors import OmnigraphError
from tests.load_graph import export, load_lines, make_graph

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"
SCHEMA = """
node Person { name: String @key  email: String? @unique  age: I32?  city: String
              @range(age, 0..99) }
node Note { text: String? }
edge Knows: Person -> Person @card(0..2) { weight: I32? }
edge Likes: Person -> Note { stars: I32?  @key(src, dst) }
"""
PROPERTIES = {
    "Person": ["name", "email", "age", "city"],
    "Note": ["text"],
    "Knows": ["weight"],
    "Likes": ["stars"],
}
EDGES = {"Knows": ("Person", "Person"), "Likes": ("Person", "Note")}
_ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")

_names = st.sampled_from(["a", "b", "c", "d"])
_numbers = st.one_of(st.none(), st.integers(-1, 2), st.sampled_from([100, "7", 1.5]))


@st.composite
def _rows(draw):
    kind = draw(st.sampled_from(["Person", "Person", "Person", "Note", "Knows", "Likes"]))
    if kind == "Person":
        data = {"name": draw(_names), "city": draw(st.sampled_from(["x", "y"]))}
        optional = {"email": st.one_of(st.none(), st.sampled_from(["e1", "e2"])), "age": _numbers}
    elif kind == "Note":
        data, optional = {}, {"text": st.sampled_from(["s", "t"]), "id": st.sampled_from(["n1", "n2"])}
    elif kind == "Knows":
        data, optional = {}, {"weight": _numbers, "id": st.sampled_from(["k1", "k2", "k3"])}
    else:
        data, optional = {}, {"stars": st.integers(0, 5)}
    for name, values in optional.items():
        if draw(st.booleans()):
            data[name] = draw(values)
    if draw(st.integers(0, 19)) == 0 and data:
        del data[draw(st.sampled_from(list(data)))]
    if kind not in EDGES:
        return {"type": kind, "data": data}
    target = st.sampled_from(["n1", "n2"]) if kind == "Likes" else _names
    return {"edge": kind, "from": draw(_names), "to": draw(target), "data": data}


_modes = st.sampled_from(["append", "append", "merge", "merge", "overwrite", "patch"])
_loads = st.lists(st.tuples(_modes, st.lists(_rows(), max_size=7)), min_size=1, max_size=6)


class RefusedError(Exception):
    """A load that the model refuses, with the code it expects."""


class Model:
    """A graph as one dictionary per type; rows that have no id of their own get a number."""

    def __init__(self):
        self.tables = {name: {} for name in PROPERTIES}
        self._made = 0

    def load(self, mode, rows):
        is_patch, mode = mode == "patch", "merge" if mode == "patch" else mode
        parsed = [self._parse(row, is_patch=is_patch) for row in rows]
        if is_patch:
            parsed = [(kind, key, self._completed(kind, key, row)) for kind, key, row in parsed]
        if mode == "append" and any(key in self.tables[kind] for kind, key, _ in parsed):
            raise RefusedError("storage.key_exists")
        after = {name: dict(table) for name, table in self.tables.items()}
        for kind in {kind for kind, _, _ in parsed} if mode == "overwrite" else ():
            after[kind] = {}
        for kind, key, row in parsed:
            after[kind][key] = row
        self._check_rules(parsed, after)
        counts = Counter((kind, key) for kind, key, _ in parsed)
        if mode != "merge" and any(count > 1 for count in counts.values()):
            raise RefusedError("storage.key_exists")
        self.tables = after

    def _parse(self, row, *, is_patch):
        kind = row.get("type") or row["edge"]
        data = row["data"]
        for name in ("age", "weight"):
            if name in data and data[name] is not None and not isinstance(data[name], int):
                raise RefusedError("load.bad_rows")
        if kind == "Person" and ("name" not in data or (not is_patch and "city" not in data)):
            raise RefusedError("load.bad_rows")
        self._made += 1
        if kind == "Person":
            key = data["name"]
        elif kind == "Likes":
            key = json.dumps([row["from"], row["to"]], separators=(",", ":"))
        else:
            key = data.get("id", self._made)
        whole = {name: data[name] for name in PROPERTIES[kind] if name in data}
        if not is_patch:
            whole = {name: data.get(name) for name in PROPERTIES[kind]}
        if kind in EDGES:
            whole |= {"src": row["from"], "dst": row["to"]}
        return kind, key, whole

    def _completed(self, kind, key, row):
        old = self.tables[kind].get(key, {})
        whole = {name: row.get(name, old.get(name)) for name in PROPERTIES[kind]}
        if kind == "Person" and whole["city"] is None:
            raise RefusedError("load.bad_rows")
        return {**whole, **{end: row[end] for end in ("src", "dst") if end in row}}

    def _check_rules(self, parsed, after):
        broken = any(
            kind == "Person" and row["age"] is not None and not 0 <= row["age"] <= 99 for kind, _, row in parsed
        )
        keyed = Counter((kind, key) for kind, key, _ in parsed if kind in {"Person", "Likes"})
        broken |= any(count > 1 for count in keyed.values())
        emails = [row["email"] for row in after["Person"].values() if row["email"] is not None]
        broken |= len(set(emails)) != len(emails)
        for kind, (source, target) in EDGES.items():
            ends = [(row["src"], row["dst"]) for row in after[kind].values()]
            broken |= any(src not in after[source] or dst not in after[target] for src, dst in ends)
        broken |= any(count > 2 for count in Counter(row["src"] for row in after["Knows"].values()).values())
        if broken:
            raise RefusedError("constraint.violated")


def _seen_in_graph(graph):
    found = {name: [] for name in PROPERTIES}
    for row in export(graph):
        kind = row.get("type") or row["edge"]
        data = dict(row["data"])
        key = data.pop("id")
        ends = {"src": row["from"], "dst": row["to"]} if kind in EDGES else {}
        found[kind].append(("*" if _ULID.fullmatch(key) else key, sorted({**data, **ends}.items())))
    return {name: sorted(rows, key=str) for name, rows in found.items()}


def _seen_in_model(model):
    return {
        name: sorted(
            (("*" if isinstance(key, int) else key, sorted(row.items())) for key, row in table.items()), key=str
        )
        for name, table in model.tables.items()
    }


@settings(max_examples=200 if LONG else 16, deadline=None)
@given(_loads)
def test_random_loads_do_what_dictionaries_do(loads):
    model = Model()
    with tempfile.TemporaryDirectory() as folder, make_graph(Path(folder) / "graph", SCHEMA) as graph:
        for mode, rows in loads:
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            expected = found = None
            try:
                model.load(mode, rows)
            except RefusedError as refusal:
                expected = str(refusal)
            try:
                word = "merge" if mode == "patch" else mode
                load_lines(graph, Path(folder) / "rows.jsonl", lines, word, patch=mode == "patch")
            except OmnigraphError as error:
                found = error.code
            assert found == expected
            assert _seen_in_graph(graph) == _seen_in_model(model)
