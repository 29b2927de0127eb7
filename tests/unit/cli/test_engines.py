"""Which engine a command runs on, and what is said about it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph.cli import engines
from omnigraph.cli.engines import (
    Engine,
    Machine,
    choose_for_load,
    choose_plainly,
    input_size,
    spark_request,
)
from omnigraph.engine.load import Source
from omnigraph.errors import FormatMismatch, JavaTooOldError, UsageError
from omnigraph.spark.sessions import java

GIB = 1 << 30
MACHINE = Machine(memory_bytes=8 * GIB, scratch_bytes=30 * GIB)
SMALL, LARGE = 1000, 9 * GIB


def request(engine: Engine | None = None, *, master: str | None = None, conf: list[str] | None = None):
    return spark_request(engine, master, None, conf)


@pytest.mark.parametrize(("size", "engine"), [(SMALL, "local"), (8 * GIB, "local"), (LARGE, "spark"), (None, "local")])
def test_input_that_fits_stays_on_this_machine(size, engine):
    assert choose_for_load(request(), size, MACHINE).engine == engine


def test_temporary_files_must_fit_too():
    full = Machine(memory_bytes=8 * GIB, scratch_bytes=2 * GIB)
    assert choose_for_load(request(), GIB // 2, full).engine == "local"
    assert choose_for_load(request(), GIB, full).engine == "spark"


def test_this_machine_takes_a_gibibyte():
    """Whoever runs these tests has the memory and the space for it."""
    assert Machine.this().fits(GIB)


def test_choice_of_spark_is_told_with_its_reason():
    choice = choose_for_load(request(), LARGE, MACHINE)
    assert list(choice.to_remarks()) == ["engine: spark, because input of 9,216.0 MiB might not fit this machine"]


def test_loads_in_process_say_nothing_unless_somebody_asks():
    assert list(choose_for_load(request(), SMALL, MACHINE).to_remarks()) == []
    assert list(choose_for_load(request(Engine.AUTO), SMALL, MACHINE).to_remarks()) == [
        "engine: local, because input of 0.0 MiB fits this machine"
    ]
    assert list(choose_for_load(request(Engine.AUTO), None, MACHINE).to_remarks()) == [
        "engine: local, because the size of the input is unknown"
    ]


def test_without_java_a_large_load_stays_and_says_why(monkeypatch):
    def missing():
        raise JavaTooOldError("java is old", details=FormatMismatch(what="java", expected="17", found="8"))

    monkeypatch.setattr(java, "find_java", missing)
    choice = choose_for_load(request(), LARGE, MACHINE)
    assert (choice.engine, choice.is_told) == ("local", True)
    assert choice.reason == "java is old, though input of 9,216.0 MiB might not fit this machine"


def test_without_pyspark_a_large_load_stays_and_says_why(monkeypatch):
    monkeypatch.setattr(engines, "find_spec", lambda name: None)
    assert "PySpark is not installed" in choose_for_load(request(), LARGE, MACHINE).reason


def test_what_spark_cannot_do_stays():
    choice = choose_for_load(request(), LARGE, MACHINE, local_only="a patch runs in one process")
    assert (choice.engine, choice.reason) == ("local", "a patch runs in one process")


def test_settings_of_spark_ask_for_it():
    assert choose_for_load(request(master="local[2]"), SMALL, MACHINE).is_spark
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


def test_packed_files_count_for_what_they_become(tmp_path: Path):
    pq.write_table(pa.table({"x": [1, 2, 3]}), tmp_path / "a.parquet")
    (tmp_path / "b.csv.gz").write_bytes(b"12345")
    (tmp_path / "c.jsonl").write_text("{}\n")
    packed, text, lines = (Source(path=str(tmp_path / name)) for name in ("a.parquet", "b.csv.gz", "c.jsonl"))
    stored = (tmp_path / "a.parquet").stat().st_size
    assert input_size([packed, packed]) == 8 * stored
    assert input_size([text, lines]) == 4 * 5 + 3
    assert input_size([lines, Source(path="-")]) is None
