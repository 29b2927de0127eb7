"""Which engine a command runs on, and what is said about it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph.cli import engines
from omnigraph.cli.engines import (
    LARGE_BYTES,
    LARGE_RECORDS,
    Engine,
    InputSize,
    choose_for_load,
    choose_plainly,
    input_size,
    spark_request,
)
from omnigraph.engine.load import Source
from omnigraph.errors import FormatMismatch, JavaTooOldError, UsageError
from omnigraph.spark import java

SMALL, LARGE = InputSize(size_bytes=1000), InputSize(size_bytes=LARGE_BYTES)


def request(engine: Engine | None = None, *, master: str | None = None, conf: list[str] | None = None):
    return spark_request(engine, master, None, conf)


@pytest.mark.parametrize(
    ("size", "engine"),
    [
        (SMALL, "local"),
        (LARGE, "spark"),
        (InputSize(size_bytes=LARGE_BYTES - 1, records=LARGE_RECORDS), "spark"),
        (InputSize(size_bytes=None), "local"),
    ],
)
def test_large_input_goes_to_spark(size, engine):
    assert choose_for_load(request(), size).engine == engine


def test_choice_of_spark_is_told_with_its_reason():
    choice = choose_for_load(request(), LARGE)
    assert list(choice.to_remarks()) == ["engine: spark, because input of 256.0 MiB is large for one process"]


def test_small_loads_say_nothing_unless_somebody_asks():
    assert list(choose_for_load(request(), SMALL).to_remarks()) == []
    assert list(choose_for_load(request(Engine.AUTO), SMALL).to_remarks()) == [
        "engine: local, because input of 0.0 MiB is small"
    ]


def test_without_java_a_large_load_stays_and_says_why(monkeypatch):
    def missing():
        raise JavaTooOldError("java is old", details=FormatMismatch(what="java", expected="17", found="8"))

    monkeypatch.setattr(java, "find_java", missing)
    choice = choose_for_load(request(), LARGE)
    assert (choice.engine, choice.is_told) == ("local", True)
    assert choice.reason == "input of 256.0 MiB is large for one process, but java is old"


def test_without_pyspark_a_large_load_stays_and_says_why(monkeypatch):
    monkeypatch.setattr(engines, "find_spec", lambda name: None)
    assert "PySpark is not installed" in choose_for_load(request(), LARGE).reason


def test_what_spark_cannot_do_stays():
    choice = choose_for_load(request(), LARGE, local_only="a patch runs in one process")
    assert (choice.engine, choice.reason) == ("local", "a patch runs in one process")


def test_settings_of_spark_ask_for_it():
    assert choose_for_load(request(master="local[2]"), SMALL).is_spark
    assert choose_plainly(request(conf=["spark.ui.enabled=true"])).is_spark
    assert not choose_plainly(request()).is_spark


@pytest.mark.parametrize(
    ("engine", "master", "remote", "conf"),
    [
        (Engine.LOCAL, "local[2]", None, None),
        (Engine.SPARK, "local[2]", "sc://host", None),
        (Engine.SPARK, None, None, ["no-equals"]),
        (Engine.SPARK, None, None, ["other.name=1"]),
    ],
)
def test_options_that_do_not_go_together_are_refused(engine, master, remote, conf):
    with pytest.raises(UsageError):
        spark_request(engine, master, remote, conf)


def test_value_of_a_refused_setting_is_not_repeated():
    """It may be a secret."""
    with pytest.raises(UsageError) as caught:
        spark_request(Engine.SPARK, None, None, ["fs.secret.key=hush"])
    assert "hush" not in str(caught.value.to_json())


def test_rows_of_parquet_files_are_counted(tmp_path: Path):
    pq.write_table(pa.table({"x": [1, 2, 3]}), tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_text("no parquet")
    (tmp_path / "c.jsonl").write_text("{}\n")
    whole, broken, lines = (Source(path=str(tmp_path / name)) for name in ("a.parquet", "b.parquet", "c.jsonl"))
    assert input_size([whole, whole]).records == 6
    assert input_size([whole, broken]).records is None
    assert input_size([lines]) == InputSize(size_bytes=3)
    assert input_size([Source(path="-")]).size_bytes is None
