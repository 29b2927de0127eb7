"""What Spark says about the columns of a pipeline, without a job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from omnigraph.catalog import compile_schema
from omnigraph.cli import main as program
from omnigraph.lang.pg import parse_schema
from omnigraph.pipelines import Pipeline, fail, quarantine
from omnigraph.pipelines.check import find_mistakes
from omnigraph.pipelines.yaml_file import read_yaml

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.core

SCHEMA = Path(__file__).parents[1] / "corpus" / "pipelines" / "schema.pg"
COLUMNS = "email string, full_name string, age int, team_code string, since date, op string, updated_at timestamp"


def customers_of(pipeline: Pipeline) -> None:
    @pipeline.source(incremental="updated_at")
    def customers(spark):
        return spark.range(1 << 40).selectExpr(
            "'a@x' AS email",
            "'A' AS full_name",
            "1 AS age",
            "'t' AS team_code",
            "current_date() AS since",
            "'U' AS op",
            "current_timestamp() AS updated_at",
        )


def told(pipeline: Pipeline, spark: SparkSession) -> list[str]:
    catalog = compile_schema(parse_schema(SCHEMA.read_text()))
    found = find_mistakes(pipeline.declaration(), catalog, spark)
    return [one.message + ("" if one.hint is None else f" ({one.hint})") for one in found]


def test_columns_that_fit_are_no_mistakes_and_start_no_job(spark: SparkSession):
    crm = Pipeline("crm")
    customers_of(crm)

    @crm.node("Person", key="slug", expect=[quarantine("has_email", "email IS NOT NULL")], dedupe="updated_at DESC")
    def person(customers):
        # It has no rows, so that even this is done at once.
        assert customers.collect() == []
        return customers.selectExpr("lower(email) AS slug", "full_name AS name", "age", "email", "updated_at")

    @crm.edge("WorksIn", deletes="op = 'D'", sequence="updated_at")
    def works_in(customers):
        return customers.selectExpr("lower(email) AS `from`", "team_code AS `to`", "since", "op", "updated_at")

    crm.view("teams", sql="WITH q AS (SELECT * FROM customers) SELECT DISTINCT team_code AS code FROM q")
    crm.node("Team", input="teams")
    crm.resolve("same", input="customers", id="email", blocking="lower(email)", compare=[("full_name", "exact", 1.0)])
    crm.node("Seat", input="same", set={"hall": "canonical_id", "number": "age", "note": "concat(email, full_name)"})
    crm.edge("Sits", input="same", src="Person(email)", dst="Seat(team_code, age)", name="sits")
    spark.sparkContext.setJobGroup("columns", "no job")
    found = told(crm, spark)
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]  # how it is unset
    assert found == []
    assert [*spark.sparkContext.statusTracker().getJobIdsForGroup("columns")] == []
    assert [table.name for table in spark.catalog.listTables() if table.name.startswith("og_")] == []


def test_every_misfit_of_a_column_is_told(spark: SparkSession):
    crm = Pipeline("crm")
    crm.source("customers", incremental="updated")(lambda spark: spark.createDataFrame([], COLUMNS))

    @crm.node("Person", expect=[quarantine("a", "emial IS NOT NULL"), fail("b", "age + 1")])
    def person(customers):
        return customers.selectExpr("full_name AS nme", "email AS age", "email", "email")

    @crm.edge("WorksIn", deletes="op", sequence="age / 2", dst="Team(array(team_code))")
    def works_in(customers):
        return customers.selectExpr("lower(email) AS frm", "team_code", "op", "age")

    @crm.edge("WorksIn", dedupe="x DESC", src="Person(lower(emial))", set={"since": "age +"})
    def others(customers):
        return customers.selectExpr("age", "struct(age) AS `to`")

    @crm.view()
    def broken(customers):
        chosen = customers.select("nope")
        return chosen.where("a = 1")

    @crm.view()
    def nothing(customers):
        return customers.columns

    crm.view("after", input="broken")
    crm.node("Team", sql="SELECT team_code AS code FROM customers WHERE a = 1")
    crm.node("Team", name="teams", input="customers", set={"title": "lowr(team_code)"}, key="team_code")
    crm.resolve(
        "same",
        input="customers",
        id="emaill",
        blocking=["soundx(email)"],
        compare=[("age", "token_overlap", 1.0), ("age", "vector_distance", 1.0), ("nme", "exact", 1.0)],
    )
    found = told(crm, spark)
    places = {one.message: one.line for one in find_mistakes(crm.declaration(), None, spark)}
    assert places["column 'nope' does not exist"] == broken.__code__.co_firstlineno + 2
    assert found == [
        "source 'customers' has no column 'updated' for incremental reads (did you mean 'updated_at'?)",
        (
            "the condition of 'a': column 'emial' does not exist: emial IS NOT NULL "
            "(similar columns: email, email, age, nme)"
        ),
        "the condition of 'b' is int64, not true or false: age + 1",
        "column 'nme' of 'person' is not a property of Person (did you mean 'name'?)",
        "two columns of 'person' are called 'email'",
        "column 'age' is string, and property 'age' of Person is I32?",
        "'person' has no column 'slug', the key of Person (add a column slug, or set it)",
        "'person' has no column 'name', which Person requires (did you mean 'nme'?)",
        "deletes is string, not true or false: op",
        "sequence must hold whole numbers, instants or text, not double: age / 2",
        "column 'frm' of 'works_in' is not a property of WorksIn (leave it out, or use it in an expression)",
        "'works_in' has no column 'from', an end of WorksIn (add a column from, or set src)",
        "dst (array(team_code)) is list<item: string>, and property 'code' of Team is String",
        "'works_in' writes WorksIn already (combine them into one step, with a view that unites their rows)",
        "dedupe: column 'x' does not exist: x DESC (similar columns: to, age)",
        "set.since: syntax error at its end: age +",
        "src: column 'emial' does not exist: lower(emial) (similar columns: age, to)",
        "column 'to' is struct<age: int32>, and an end of WorksIn is String",
        "column 'nope' does not exist (similar columns: op, age, since, email, full_name)",
        "view 'nothing' must return a DataFrame, not list",
        "column 'a' does not exist (similar columns: age, op, email, since, full_name)",
        "'Team' writes Team already (combine them into one step, with a view that unites their rows)",
        "set.title: unknown function 'lowr': lowr(team_code)",
        "compare has 'age' twice (a column is compared in one way)",
        "column 'emaill' does not exist (did you mean 'email'?)",
        "column 'nme' does not exist (its columns are email, full_name, age, team_code, since, op, updated_at)",
        "token_overlap compares texts, and 'age' is int32",
        "vector_distance compares lists of numbers, and 'age' is int32",
        "blocking.0: unknown function 'soundx': soundx(email)",
    ]


def test_sources_by_format_are_looked_at_where_they_are(spark: SparkSession, tmp_path: Path):
    (tmp_path / "people.csv").write_text("slug,nme\na,A\n")
    text = f"""
pipeline: p
sources:
  people: {{format: csv, path: {tmp_path}/people.csv, options: {{header: true}}}}
  lost: {{format: csv, path: {tmp_path}/lost.csv}}
  strange: {{format: no.such.Format, path: x}}
nodes:
  Person: {{input: people}}
"""
    declaration = read_yaml(text.encode(), "p.yaml").unwrap()
    catalog = compile_schema(parse_schema(SCHEMA.read_text()))
    assert [str(one) for one in find_mistakes(declaration, catalog, spark)] == [
        f"p.yaml:5: path does not exist: file:{tmp_path}/lost.csv",
        "p.yaml:6: unknown format 'no.such.Format'",
        "p.yaml:8: 'Person' has no column 'name', which Person requires (did you mean 'nme'?)",
    ]


def test_the_command_asks_spark_unless_it_has_to_be_quick(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "people.csv").write_text("slug,name\na,A\n")
    path = tmp_path / "p.yaml"
    source = f"{{format: csv, path: {tmp_path}/people.csv, options: {{header: true}}}}"
    path.write_text(f"pipeline: p\nsources: {{people: {source}}}\nnodes:\n  Person: {{input: people, key: slg}}\n")
    codes = []
    for arguments in (["--quick"], []):
        with pytest.raises(SystemExit) as ended:
            program.main(["pipeline", "validate", str(path), "--schema", str(SCHEMA), *arguments])
        codes.append(ended.value.code)
    said = capsys.readouterr()
    assert codes == [0, 2]
    assert said.out == "p: 2 steps, no mistakes\n"
    assert said.err.splitlines()[0] == f"error: {path}:4: key: column 'slg' does not exist: slg"
