"""Pipelines declared by decorators, and the same ones declared in YAML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph.errors import FileMissingError, PipelineInvalidError, UsageError
from omnigraph.pipelines import Declaration, Pipeline, drop, fail, quarantine, warn
from omnigraph.pipelines.declare import Rows
from omnigraph.pipelines.files import load_declaration, read_declared
from omnigraph.pipelines.given import KEYS
from omnigraph.pipelines.model import ByColumn, ByFiles, Place
from omnigraph.pipelines.yaml_file import read_yaml

SPEC = """\
from omnigraph.pipelines import Pipeline, drop, fail, quarantine

crm = Pipeline("crm", graph="s3://acme/crm.omni", publish="audit")

@crm.source(incremental="updated_at")               # any Spark DataFrame; or format=…, path=…, options=…
def customers(spark):
    return spark.read.parquet("s3://raw/customers/")

@crm.node("Person", key="slug", expect=[quarantine("has_email", "email IS NOT NULL"),
                                        fail("sane_age", "age BETWEEN 0 AND 130")])
def person(customers):                              # parameters name sources or other steps
    return customers.selectExpr("lower(email) AS slug", "full_name AS name", "age", "email")

@crm.edge("WorksIn", deletes="op = 'D'", sequence="updated_at")
def works_in(customers):
    return customers.selectExpr("lower(email) AS `from`", "team_code AS `to`", "since", "op", "updated_at")

@crm.check("every team has somebody")               # a read that must return no row on the new state
def empty_teams():
    return "query q() { match { $t: Team  not { $p worksIn $t } } return { $t.code } }"
"""


def write(folder: Path, text: str, name: str = "pipeline.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def told(error: PipelineInvalidError) -> list[tuple[int, str]]:
    return [(item.line, item.message) for item in error.details.items]


def test_the_example_declares_what_it_says(tmp_path: Path):
    path = write(tmp_path, SPEC)
    found = load_declaration(path)
    assert (found.name, found.graph, found.publish, found.branch) == ("crm", "s3://acme/crm.omni", "audit", "main")
    (source,) = found.sources
    assert (source.name, source.incremental, source.place) == (
        "customers",
        ByColumn(column="updated_at"),
        Place(file=str(path), line=5),
    )
    person, works_in = found.types
    assert (person.kind, person.type_name, person.key, person.inputs) == ("node", "Person", "slug", ("customers",))
    assert [(one.name, one.outcome, one.condition, one.place and one.place.line) for one in person.expect] == [
        ("has_email", "quarantine", "email IS NOT NULL", 9),
        ("sane_age", "fail", "age BETWEEN 0 AND 130", 10),
    ]
    assert (works_in.name, works_in.deletes, works_in.sequence) == ("works_in", "op = 'D'", "updated_at")
    assert (works_in.mode, works_in.missing_end, works_in.place.line) == ("merge", "fail", 14)
    (check,) = found.checks
    assert check.name == "every team has somebody"
    assert check.function is not None
    assert check.function().startswith("query q()")


def test_a_decorator_leaves_the_function_as_it_is():
    pipeline = Pipeline("p")

    @pipeline.view
    def doubled(numbers):
        return numbers * 2

    assert doubled(4) == 8
    assert pipeline.declaration().views[0].inputs == ("numbers",)
    assert repr(pipeline) == "<Pipeline 'p' with 1 parts>"


def unplaced(declaration: Declaration) -> Declaration:
    nowhere = Place(file="", line=1)

    def bare(step):
        expect = {"expect": tuple(replace(one, place=None) for one in step.expect)} if hasattr(step, "expect") else {}
        return replace(step, place=nowhere, **expect)

    parts = ("sources", "views", "resolves", "types", "checks", "afters")
    kept = {name: tuple(bare(step) for step in getattr(declaration, name)) for name in parts}
    return replace(declaration, place=nowhere, **kept)


def test_python_and_yaml_declare_the_same_values():
    folder = Path(__file__).parents[2] / "corpus" / "pipelines"
    text = (folder / "shape.case").read_text().split("--- pipeline\n")[1].split("--- expect")[0]
    crm = Pipeline("crm", publish="audit", quarantine="s3://acme/rejected")
    crm.source(
        "customers",
        format="parquet",
        path=["raw/a/", "raw/b/"],
        options={"mergeSchema": True},
        incremental="updated_at",
    )
    crm.source("log", format="csv", path="log/", incremental="files")
    crm.source("table", format="jdbc", options={"url": "jdbc:x", "dbtable": "t"})
    crm.view("grown", sql="SELECT * FROM customers WHERE age > 17", cache=True)
    crm.resolve(
        "same",
        input="grown",
        id="email",
        blocking=["lower(email)"],
        compare=[("name", "jaro_winkler", 2), ("email", "exact", 1.0)],
        threshold=0.9,
        review=0.7,
    )
    crm.node(
        "Person",
        name="person",
        input="same",
        key="lower(email)",
        set={"name": "trim(full_name)"},
        deletes="op = 'D'",
        sequence="updated_at",
        on_delete="refuse",
        expect=[
            quarantine("has_email", "email IS NOT NULL", max_ratio=0.01),
            fail("sane_age", "age BETWEEN 0 AND 130"),
        ],
    )
    crm.node("Team", sql="SELECT DISTINCT team AS code FROM customers", dedupe="code DESC")
    crm.node("Event", input="log", mode="append")
    crm.node("Seat", input="table")
    crm.edge("WorksIn", input="customers", src="Person(lower(email))", dst="team", missing_end="quarantine")
    crm.edge("Sits", input="table", src="Person(owner)", dst="Seat(hall, number)")
    crm.check(
        "every team has somebody",
        query="query q() { match { $t: Team  not { $p worksIn $t } } return { $t.code } }",
    )
    crm.check("nobody is old", query="query q() { match { $p: Person  $p.age > 130 } return { $p.slug } }")
    crm.after("rank", algorithm="pagerank", edges=["Knows"], arguments={"damping": 0.9}, write="Person.score")
    crm.after("grow", mutation='query q() { update Person set { age: 18 } where slug = "x" }')
    written = read_yaml(text.encode(), "crm.yaml").unwrap()
    assert unplaced(crm.declaration()) == unplaced(written)
    assert crm.declaration().digest == written.digest
    assert written.sources[1].incremental == ByFiles()
    assert len([*written]) == 15


def test_keywords_of_python_are_the_keys_of_yaml():
    of_type = {*Rows.__annotations__} - {"name"}
    assert {*KEYS["node"]} == of_type | {"type", "on_delete"}
    assert {*KEYS["edge"]} == of_type | {"type", "src", "dst", "missing_end"}
    for kind in ("source", "view", "resolve", "check", "after"):
        keywords = getattr(Pipeline, kind).__kwdefaults__
        assert {*keywords} == {*KEYS[kind]}, kind


def test_every_mistake_of_a_declaration_is_told_at_once():
    pipeline = Pipeline("p", publish="later")  # type: ignore[arg-type]  # what people write
    pipeline.source("a", path="x")
    pipeline.source(incremental="n")
    pipeline.node("Person", input="a", ky="x", mode="upsert")  # type: ignore[call-arg]  # what people write
    pipeline.node("Team", input="a", expect=["code IS NOT NULL"])  # type: ignore[list-item]  # what people write
    pipeline.node("Seat", input="a", expect=[warn("", "x"), drop("y", "y", max_ratio=7)])

    @pipeline.view
    def anything(*frames):
        return frames[0]

    @pipeline.source(format="csv")
    def files(spark, more):
        return spark, more

    @pipeline.check("c")
    def with_parameter(spark):
        return spark

    with pytest.raises(PipelineInvalidError) as caught:
        pipeline.declaration()
    assert [message for _, message in told(caught.value)] == [
        "publish must be direct | audit | propose, not 'later'",
        "a source needs a format",
        "this source has no name",
        "unknown key 'ky'",
        "mode must be merge | append | overwrite | patch, not 'upsert'",
        "expect contains 'code IS NOT NULL', which is not an expectation",
        "the name of an expectation must be text, not ''",
        "max_ratio of 'y' must be a number from 0 to 1, not 7",
        "the parameters of a function name its inputs, so that it cannot have *args or **kwargs",
        "a source with a function takes no format",
        "the function of a source takes only the session, not (spark, more)",
        "the function of a check takes no parameters; it returns the text of a query",
    ]
    assert str(caught.value).splitlines()[0] == "pipeline 'p' has 12 mistakes"
    assert {Path(item.file).name for item in caught.value.details.items} == {"test_declare.py"}


RAISING = {
    "x = 1\n": (1, "the file declares no pipeline"),
    "from omnigraph.pipelines import Pipeline\na = Pipeline('a')\nb = Pipeline('b')\n": (
        1,
        "the file declares 2 pipelines: 'a', 'b'",
    ),
    "import nowhere_at_all\n": (1, "ModuleNotFoundError: No module named 'nowhere_at_all'"),
    "x = 1\ndef f():\n    return {}['k']\n\nf()\n": (3, "KeyError: 'k'"),
    "x = (1\n": (1, "not valid Python: '(' was never closed"),
    "import sys\nsys.exit(3)\n": (2, "SystemExit: 3"),
    "from omnigraph.pipelines import Pipeline\nPipeline(5)\n": (2, "name must be text, not int"),
    "from omnigraph.pipelines import Pipeline\np = Pipeline('p')\np.after(algorthm='x')\n": (
        3,
        "TypeError: Pipeline.after() got an unexpected keyword argument 'algorthm'",
    ),
}


@pytest.mark.parametrize("text", RAISING)
def test_what_a_file_raises_is_a_mistake_at_its_line(tmp_path: Path, text: str):
    path = write(tmp_path, text)
    with pytest.raises(PipelineInvalidError) as caught:
        read_declared(path)
    assert told(caught.value) == [RAISING[text]]
    assert caught.value.details.items[0].file == str(path)


def test_a_file_runs_as_a_module_beside_its_neighbours(tmp_path: Path):
    write(tmp_path, "FORMAT = 'orc'\n", "neighbour_of_a_pipeline.py")
    path = write(
        tmp_path,
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "from neighbour_of_a_pipeline import FORMAT\n"
        "from omnigraph.pipelines import Pipeline\n"
        "@dataclass\nclass Setting:\n    path: str = 'data/'\n"
        "p = Pipeline('p')\nalias = p\np.source('s', format=FORMAT, path=Setting().path)\n",
    )
    found = load_declaration(path)
    assert (found.sources[0].format, found.sources[0].paths) == ("orc", ("data/",))
    again = load_declaration(path)
    assert again.digest == found.digest


def test_files_that_are_no_declarations_are_refused(tmp_path: Path):
    with pytest.raises(UsageError, match="neither Python nor YAML"):
        load_declaration(tmp_path / "pipeline.txt")
    with pytest.raises(FileMissingError, match="was not found"):
        load_declaration(tmp_path / "pipeline.py")


def test_the_digest_follows_the_text_of_functions_and_not_their_places(tmp_path: Path):
    first = load_declaration(write(tmp_path, SPEC, "a.py"))
    moved = load_declaration(write(tmp_path, "# moved\n" + SPEC, "b.py"))
    other = load_declaration(write(tmp_path, SPEC.replace("full_name AS name", "nick AS name"), "c.py"))
    assert first.digest == moved.digest
    assert first.digest != other.digest


def test_values_that_python_and_yaml_write_differently_are_equal():
    pipeline = Pipeline("p")
    pipeline.after(algorithm="fast_rp", arguments={"weights": [0.0, 1.0]}, write="v")
    (after,) = pipeline.declaration().afters
    assert (after.name, after.arguments["weights"]) == ("fast_rp", (0.0, 1.0))
    assert isinstance(after.arguments, Mapping)


def test_a_resolution_that_keeps_its_entities_is_declared_alike():
    crm = Pipeline("crm")
    crm.source("s", format="csv", path="s/")
    crm.resolve(
        "people", input="s", blocking="name", compare=["name"], threshold=1, same_as="SameAs", evidence="Compared"
    )
    text = """
    pipeline: crm
    sources: {s: {format: csv, path: s/}}
    resolve:
      people:
        input: s
        blocking: name
        compare: [{column: name}]
        threshold: 1
        same_as: SameAs
        evidence: Compared
    """
    written = read_yaml(text.encode(), "crm.yaml").unwrap()
    assert unplaced(crm.declaration()) == unplaced(written)
    assert (written.resolves[0].same_as, written.resolves[0].evidence) == ("SameAs", "Compared")
