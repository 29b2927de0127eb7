"""What speeds up Spark's start, and that nothing depends on it."""

from __future__ import annotations

import os

import pytest

from omnigraph.runtime.caches import cache_folder
from omnigraph.spark.sessions.caches import place_file
from omnigraph.spark.sessions.gateway import spark_home


@pytest.fixture
def environment(tmp_path) -> dict[str, str]:
    return {"OMNIGRAPH_CACHE": str(tmp_path / "cache")}


def test_home_has_the_jars_and_no_python(environment):
    home = spark_home(environment)
    assert home is not None
    assert (home / "bin" / "spark-submit").is_file()
    assert any((home / "jars").glob("spark-core*.jar"))
    assert not (home / "python").exists()
    assert spark_home(environment) == home


def test_a_home_that_is_set_stays(environment):
    assert spark_home(environment | {"SPARK_HOME": "/opt/spark"}) is None


def test_cache_that_cannot_be_written_is_replaced_by_a_temporary_one(tmp_path):
    (tmp_path / "file").touch()
    folder = cache_folder("spark", {"OMNIGRAPH_CACHE": str(tmp_path / "file")})
    assert folder.is_dir()
    assert os.access(folder, os.W_OK)


def test_file_is_placed_once_and_replaced_when_it_differs(tmp_path):
    path = tmp_path / "deep" / "program"
    place_file(path, "one", is_executable=True)
    before = path.stat()
    place_file(path, "one", is_executable=True)
    assert (path.stat().st_ino, path.stat().st_mode & 0o777) == (before.st_ino, 0o700)
    place_file(path, "two")
    assert path.read_text() == "two"
