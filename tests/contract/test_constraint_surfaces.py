"""The same bad change gets the same answer on every surface that can express it.

A surface is a function that takes an open session, a case and an empty folder, and tries to write the case; it must
raise what the evaluator found. What a surface cannot express is listed beside the case, with the reason.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from omnigraph.catalog.entity_ids import entity_id
from omnigraph.catalog.model import EdgeType
from omnigraph.engine.constraints import check_change
from omnigraph.engine.load import load
from omnigraph.engine.view import GraphView
from omnigraph.errors import ConstraintViolationError
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.values import MAIN, BranchName
from tests.constraint_graph import change_of, owner_of, part
from tests.session import Session
from tests.session_graph import commit_ids, create_graph, open_session, read_graph

pytestmark = pytest.mark.more

SCHEMA = """
node Person {
    name: String @key
    age: I32?
    score: F64?
    email: String? @unique
    mood: enum(glad, sad)?
    marks: [I32]?
    first: String?
    last: String?
    @range(age, 0..150)
    @range(score, ..1)
    @range(marks, 0..10)
    @check(email, "@")
    @unique(first, last)
}
node Company { name: String @key }
edge Knows: Person -> Person { kind: enum(close, far)?  @unique(src, dst) }
edge WorksAt: Person -> Company @card(1..1)
edge Likes: Person -> Company { weight: I32  @key(src, dst) }
"""
SEED = """
{"type": "Person", "data": {"name": "ada", "email": "a@x", "first": "A", "last": "L"}}
{"type": "Person", "data": {"name": "bob"}}
{"type": "Company", "data": {"name": "acme"}}
{"edge": "Knows", "from": "ada", "to": "bob", "data": {"id": "k1"}}
{"edge": "WorksAt", "from": "ada", "to": "acme", "data": {"id": "w1"}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BadChange:
    """Rows and ids of one write, the rule they break first, and what the message says."""

    name: str
    rule: str
    says: str
    writes: tuple[tuple[str, dict], ...] = ()
    # Type and id, with the predicate that selects the same entity in the mutation language.
    deletes: tuple[tuple[str, str, str], ...] = ()
    not_on: frozenset[str] = frozenset()


def person(name, **values):
    return ("Person", {"name": name, **values})


def joins(edge, source, target, **values):
    return (edge, {"src": source, "dst": target, **values})


# A file cannot take rows away, and a table that is replaced counts as empty before.
LOADS = frozenset({"load append", "load merge", "load overwrite"})
CASES = (
    BadChange(name="range min", rule="range", says="Person.age: value -1 < min 0", writes=(person("x", age=-1),)),
    BadChange(name="range max", rule="range", says="Person.age: value 151 > max 150", writes=(person("x", age=151),)),
    BadChange(
        name="range float", rule="range", says="Person.score: value 1.5 > max 1", writes=(person("x", score=1.5),)
    ),
    BadChange(name="range list", rule="range", says="Person.marks: value 11", writes=(person("x", marks=[1, 11]),)),
    BadChange(name="check", rule="check", says="@check violation on Person.email", writes=(person("x", email="none"),)),
    BadChange(
        name="enum", rule="enum", says="invalid enum value 'cross' for Person.mood", writes=(person("x", mood="cross"),)
    ),
    BadChange(
        name="enum on an edge",
        rule="enum",
        says="invalid enum value 'near' for Knows.kind",
        writes=(joins("Knows", "bob", "bob", kind="near"),),
    ),
    BadChange(
        name="unique inside",
        rule="unique",
        says="@unique violation on Person.email: value 'z@x' held by 'x' and 'y'",
        writes=(person("x", email="z@x"), person("y", email="z@x")),
    ),
    BadChange(
        name="unique against stored",
        rule="unique",
        says="@unique violation on Person.email: value 'a@x' held by 'ada' and 'x'",
        writes=(person("x", email="a@x"),),
    ),
    BadChange(
        name="unique tuple",
        rule="unique",
        says="Person.(first, last): value '(A, L)' held by 'ada' and 'x'",
        writes=(person("x", first="A", last="L"),),
    ),
    BadChange(
        name="unique ends",
        rule="unique",
        says="@unique violation on Knows.(dst, src): value '(bob, ada)'",
        writes=(joins("Knows", "ada", "bob"),),
    ),
    # A mutation that inserts a key twice replaces its own row, and a transaction holds each id once.
    BadChange(
        name="key twice",
        rule="key",
        says="@key violation on Person.name: value 'x' occurs twice",
        writes=(person("x", age=1), person("x", age=2)),
        not_on=frozenset({"commit", "mutation"}),
    ),
    BadChange(
        name="edge key twice",
        rule="key",
        says="@key violation on Likes.(dst, src): value '(acme, bob)' occurs twice",
        writes=(joins("Likes", "bob", "acme", weight=1), joins("Likes", "bob", "acme", weight=2)),
        not_on=frozenset({"commit", "mutation"}),
    ),
    BadChange(name="source", rule="endpoint", says="src 'x' not found in Person", writes=(joins("Knows", "x", "bob"),)),
    BadChange(name="target", rule="endpoint", says="dst 'x' not found in Person", writes=(joins("Knows", "bob", "x"),)),
    BadChange(
        name="target of another type",
        rule="endpoint",
        says="dst 'bob' not found in Company",
        writes=(joins("WorksAt", "bob", "bob"),),
    ),
    BadChange(
        name="cardinality inside",
        rule="cardinality",
        says="@card violation on edge WorksAt: source 'bob' has 2 edges (max 1)",
        writes=(joins("WorksAt", "bob", "acme"), joins("WorksAt", "bob", "acme")),
    ),
    BadChange(
        name="cardinality with stored",
        rule="cardinality",
        says="@card violation on edge WorksAt: source 'ada' has 2 edges (max 1)",
        writes=(joins("WorksAt", "ada", "acme"),),
    ),
    BadChange(
        name="cardinality min",
        rule="cardinality",
        says="@card violation on edge WorksAt: source 'ada' has 0 edges (min 1)",
        deletes=(("WorksAt", "w1", 'from = "ada"'),),
        not_on=LOADS,
    ),
    # A mutation takes the edges of a node along; a file can only take a node away by replacing its table.
    BadChange(
        name="orphan",
        rule="orphan",
        says="src 'ada' not found in Person",
        deletes=(("Person", "ada", 'name = "ada"'),),
        not_on=frozenset({"mutation", "load append", "load merge"}),
    ),
)


def evaluate(session: Session, case: BadChange, folder: Path) -> None:
    """The evaluator alone, on the newest state."""
    catalog = session.catalog()
    check_change(_change(catalog, case), GraphView(session.snapshot(), catalog))


def commit(session: Session, case: BadChange, folder: Path) -> None:
    """A transaction whose rows are checked on the state it is published on."""
    catalog = session.catalog()
    change = _change(catalog, case)
    branch_writer = session.store.branch_writer(BranchName(MAIN))
    txn = branch_writer.begin(WriteKind.MUTATE)
    for item in change.types.values():
        if item.rows is not None:
            txn.upsert(item.table_key, item.rows)
        if item.deletes:
            txn.delete(item.table_key, item.deletes)
    txn.add_check(lambda view: check_change(change, GraphView.of_commit(view, catalog)))
    branch_writer.commit(txn)


def mutate(session: Session, case: BadChange, folder: Path) -> None:
    """A mutation of one statement per row; values travel as parameters, as callers send them."""
    names, statements, params = [], [], {}
    for name, row in case.writes:
        assigned = []
        for column, value in row.items():
            spelled = {"src": "from", "dst": "to"}.get(column, column)
            variable = f"p{len(params)}"
            params[variable] = value
            names.append(f"${variable}: {PARAMETER_TYPES[type(value)]}")
            assigned.append(f"{spelled}: ${variable}")
        statements.append(f"insert {name} {{ {', '.join(assigned)} }}")
    statements += [f"delete {name} where {predicate}" for name, _, predicate in case.deletes]
    lines = "\n    ".join(statements)
    session.mutate(f"query q({', '.join(names)}) {{\n    {lines}\n}}", params)


def load_append(session: Session, case: BadChange, folder: Path) -> None:
    """The rows as a file of envelopes, none of which may exist."""
    _load(session, [_envelope(*write) for write in case.writes], "append", folder)


def load_merge(session: Session, case: BadChange, folder: Path) -> None:
    """The same file, rows replacing stored ones."""
    _load(session, [_envelope(*write) for write in case.writes], "merge", folder)


def load_overwrite(session: Session, case: BadChange, folder: Path) -> None:
    """The whole tables that the change would leave behind."""
    touched = {name for name, *_ in (*case.writes, *case.deletes)}
    gone = {identifier for _, identifier, _ in case.deletes}
    stored = [json.loads(line) for line in filter(None, SEED.splitlines())]
    kept = [
        line
        for line in stored
        if line.get("type", line.get("edge")) in touched
        and not gone & {line["data"].get("name"), line["data"].get("id")}
    ]
    _load(session, [*kept, *(_envelope(*write) for write in case.writes)], "overwrite", folder)


def _load(session, envelopes, mode, folder):
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps(envelope) + "\n" for envelope in envelopes))
    branch_writer = session.store.branch_writer(BranchName(MAIN))
    load(branch_writer, session.catalog(), [str(file)], mode)


def _envelope(name, row):
    if "src" not in row:
        return {"type": name, "data": row}
    data = {column: value for column, value in row.items() if column not in {"src", "dst"}}
    return {"edge": name, "from": row["src"], "to": row["dst"], "data": data}


PARAMETER_TYPES = {str: "String", int: "I32", float: "F64", list: "[I32]"}
SURFACES: dict[str, Callable[[Session, BadChange, Path], None]] = {
    "evaluator": evaluate,
    "commit": commit,
    "mutation": mutate,
    "load append": load_append,
    "load merge": load_merge,
    "load overwrite": load_overwrite,
}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    root = tmp_path_factory.mktemp("surfaces") / "graph"
    create_graph(root, SCHEMA, SEED)
    return root


@pytest.mark.parametrize(
    ("case", "surface"),
    [
        pytest.param(case, surface, id=f"{case.name}-{surface}")
        for case in CASES
        for surface in SURFACES
        if surface not in case.not_on
    ],
)
def test_every_surface_refuses_the_change_with_the_same_code_and_rule(case, surface, template, tmp_path):
    root = tmp_path / "graph"
    shutil.copytree(template, root)
    with open_session(root) as session:
        before, commits = read_graph(session), commit_ids(session)
        with pytest.raises(ConstraintViolationError) as caught:
            SURFACES[surface](session, case, tmp_path)
        error = caught.value
        assert error.row.code == "constraint.violated"
        assert error.details.items[0].rule == case.rule
        # Ids that were made for the row differ from run to run; everything before them does not.
        assert case.says in str(error)
        assert error.details.items[0].message == error.message
        assert read_graph(session) == before
        assert commit_ids(session) == commits


def test_the_table_covers_every_rule_about_values_and_sets():
    assert {case.rule for case in CASES} == {
        "range",
        "check",
        "enum",
        "unique",
        "key",
        "endpoint",
        "orphan",
        "cardinality",
    }
    for case in CASES:
        assert case.not_on < set(SURFACES)


def _change(catalog, case):
    rows: dict[str, list[dict]] = {}
    for at, (name, row) in enumerate(case.writes):
        owner = owner_of(catalog, name)
        made = f"made-{at}" if owner.key is None else entity_id(owner, row)
        rows.setdefault(name, []).append({"id": made, **row})
    deletes: dict[str, list[str]] = {}
    for name, identifier, _ in case.deletes:
        deletes.setdefault(name, []).append(identifier)
    names = sorted({*rows, *deletes}, key=lambda name: isinstance(owner_of(catalog, name), EdgeType))
    return change_of(*(part(catalog, name, rows.get(name, []), deletes=tuple(deletes.get(name, ()))) for name in names))
