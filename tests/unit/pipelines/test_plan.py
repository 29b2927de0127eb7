"""The SQL of declarations without Spark, the order of steps, plans and examples."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from omnigraph.catalog import Catalog, compile_schema
from omnigraph.errors import PipelineInvalidError, UsageError
from omnigraph.lang.pg import parse_schema
from omnigraph.pipelines import Pipeline, quarantine
from omnigraph.pipelines.check import find_mistakes, validate
from omnigraph.pipelines.example import example_text
from omnigraph.pipelines.files import load_declaration
from omnigraph.pipelines.model import ComparisonMethod
from omnigraph.pipelines.order import ordered_steps
from omnigraph.pipelines.plan import plan_of
from omnigraph.pipelines.sql import EndExpression, end_of, tables_in
from omnigraph.spark.resolution.model import METHODS

TABLES = {
    "SELECT * FROM a": ("a",),
    "SELECT x, y FROM a, b JOIN c ON a.x = c.y, d": ("a", "b", "c", "d"),
    "WITH q AS (SELECT * FROM a), r(x, y) AS (SELECT 1, 2) SELECT * FROM q, r, b": ("a", "b"),
    "SELECT * FROM (SELECT * FROM a) s LEFT JOIN (b CROSS JOIN c) USING (k)": ("a", "b", "c"),
    "SELECT trim(BOTH 'x' FROM y), extract(YEAR FROM d) FROM a WHERE x IS NOT DISTINCT FROM z": ("a",),
    "SELECT 'FROM b', \"FROM c\" -- FROM d\nFROM a /* FROM e */": ("a",),
    "SELECT * FROM a LATERAL VIEW explode(xs) t AS c, d WHERE c IN (SELECT k FROM b)": ("a", "b"),
    "SELECT * FROM lake.db.a, range(5), `b c`": ("b c",),
    "SELECT a, b FROM a UNION ALL SELECT b, c FROM b ORDER BY b, c": ("a", "b"),
    "FROM a SELECT b, c": ("a",),
    "SELECT * FROM a, A": ("a", "A"),
    "SELECT 1": (),
    "VALUES (1), (2)": (),
}


@pytest.mark.parametrize("sql", TABLES)
def test_the_inputs_of_a_statement_are_its_tables(sql: str):
    assert tables_in(sql) == TABLES[sql]


def test_an_end_names_a_type_only_if_there_is_one():
    assert end_of("Person(lower(a), concat(b, ','))", ["Person"]) == EndExpression(
        type_name="Person", expressions=("lower(a)", "concat(b, ',')")
    )
    for text in ("lower(email)", "Person(a) || Person(b)", "a"):
        assert end_of(text, ["Person"]) == EndExpression(type_name=None, expressions=(text,))
    with pytest.raises(UsageError, match="never closed"):
        end_of("Person(a", ["Person"])


def test_methods_are_those_of_resolutions():
    assert get_args(ComparisonMethod) == METHODS


def catalog() -> Catalog:
    folder = Path(__file__).parents[2] / "corpus" / "pipelines"
    return compile_schema(parse_schema((folder / "schema.pg").read_text()))


def example() -> Pipeline:
    pipeline = Pipeline("crm", publish="audit")
    pipeline.edge("WorksIn", sql="SELECT * FROM grown", missing_end="stub", name="works")
    pipeline.node("Person", input="grown", expect=quarantine("named", "name <> ''"), removes_missing=True)
    pipeline.view("grown", sql="SELECT * FROM people WHERE age > 17")
    pipeline.source("people", format="csv", path="people/", incremental="files")
    pipeline.check("nobody", query="query q() { match { $p: Person } return { $p.slug } }")
    pipeline.after(algorithm="pagerank", edges="Knows", write="score")
    return pipeline


def test_a_plan_shows_what_each_type_is_made_of():
    plan = plan_of(example().declaration())
    assert [step.name for step in plan.steps] == ["people", "grown", "Person", "works"]
    assert str(plan).splitlines()[1:] == [
        "├─ node Person",
        "│  ├─ quarantine unless name <> '' (named)",
        "│  ├─ merge rows, a full refresh removes missing ones",
        "│  └─ view grown",
        "│     └─ source people",
        "│        ├─ read csv people/",
        "│        └─ only new files",
        "├─ edge WorksIn (works)",
        "│  ├─ make stubs of missing ends",
        "│  ├─ merge rows",
        "│  └─ view grown, see above",
        "├─ check nobody",
        "├─ after pagerank: pagerank into score",
        "└─ merge pipelines/crm/RUN into main if all checks pass",
    ]
    told = plan.to_json()
    assert (told["writes"], told["digest"]) == (["Person", "works"], example().declaration().digest)
    assert [step["kind"] for step in told["steps"]] == ["source", "view", "node", "edge"]


def test_what_cannot_run_has_no_plan():
    declaration = example().declaration()
    with pytest.raises(PipelineInvalidError, match="a stub of Person would lack 'name'"):
        plan_of(declaration, catalog())
    pipeline = Pipeline("p")
    pipeline.view("a", sql="SELECT * FROM b")
    pipeline.view("b", sql="SELECT * FROM a")
    with pytest.raises(PipelineInvalidError, match="steps need each other: a → b → a"):
        ordered_steps(pipeline.declaration())


def test_checks_are_functions_whose_exceptions_have_lines():
    pipeline = example()

    @pipeline.check("broken")
    def broken():
        return "query".nothing  # type: ignore[attr-defined]  # what it raises

    @pipeline.check("another")
    def another():
        return 5

    found = [one for one in find_mistakes(pipeline.declaration(), catalog()) if one.step in {"broken", "another"}]
    assert [one.message for one in found] == [
        "AttributeError: 'str' object has no attribute 'nothing'",
        "the function of a check must return the text of a query, not int",
    ]
    assert found[0].line == broken.__code__.co_firstlineno + 2


@pytest.mark.parametrize("name", ["first.py", "first.yaml", "an example.yml"])
@pytest.mark.parametrize("has_schema", [True, False])
def test_an_example_validates(tmp_path: Path, name: str, has_schema: bool):
    given = catalog() if has_schema else None
    path = tmp_path / name
    path.write_text(example_text(str(path), given, "graphs/crm" if has_schema else None))
    declaration = load_declaration(path)
    validate(declaration, given)
    assert declaration.graph == ("graphs/crm" if has_schema else None)
    types = {step.type_name for step in declaration.types}
    assert types == ({"Event", "Person", "Seat", "Knows", "SameAs"} if has_schema else {"Person", "Team", "WorksIn"})
