"""Two applies of one cluster at the same time, in processes of their own: one wins, and the other one says so."""

import json
import os
import time
from pathlib import Path

import pytest

from tests.cluster_directory import AGED, AGES, PEOPLE, small
from tests.e2e.process import clean_environment, omnigraph
from tests.marks import STORES
from tests.warm import WarmProcess


@pytest.fixture(params=STORES)
def where(request, tmp_path):
    """The keywords of a directory, and the environment of a process that reaches its storage."""
    if request.param == "local":
        return {"path": tmp_path / "config"}, {}
    endpoint = request.getfixturevalue("clean_s3_endpoint")
    options = endpoint.storage_options
    environment = {
        "AWS_ENDPOINT": endpoint.url,
        "AWS_ENDPOINT_URL": endpoint.url,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }
    return {"path": tmp_path / "config", "root": endpoint.fresh_prefix(), "options": options}, environment


def _race(directory, environment, tmp_path):
    """Hold one apply before it writes the ledger, run another one, let the first go on; return how both ended."""
    gate, out = tmp_path / "gate", tmp_path / "first.json"
    held = clean_environment(OMNIGRAPH_FAILPOINTS=f"cluster.apply.before_state=pause:{gate}", **environment)
    arguments = ["cluster", "apply", "--config", str(directory.path), "--json"]
    with out.open("wb") as sink, Path(os.devnull).open("wb") as nothing:
        first = WarmProcess("omnigraph", arguments, cwd=tmp_path, env=held, out=sink.fileno(), err=nothing.fileno())
        try:
            while not gate.with_name("gate.reached").exists():
                assert first.poll() is None
                time.sleep(0.01)
            second = omnigraph(*arguments, cwd=tmp_path, **environment)
            gate.touch()
            code = first.wait(300)
        finally:
            first.kill()
    return (code, json.loads(out.read_text())), (second.code, json.loads(second.out))


def _codes(report):
    return [finding["code"] for finding in report["diagnostics"]]


@pytest.mark.parametrize("has_lock", [True, False], ids=["locked", "unlocked"])
def test_of_two_applies_at_once_one_writes_the_ledger(where, tmp_path, has_lock):
    given, environment = where
    directory = small(**given, has_lock=has_lock)
    assert directory.session().import_graphs().is_ok
    assert directory.session().apply().is_converged
    directory.graph("crm", PEOPLE, AGES.replace("age", "slug"))
    (first_code, first), (second_code, second) = _race(directory, environment, tmp_path)
    if has_lock:
        assert (first_code, first["converged"], first["state_written"]) == (0, True, True)
        assert (second_code, second["state_written"]) == (3, False)
        assert _codes(second) == ["state_lock_held"]
    else:
        assert (second_code, second["converged"], second["state_written"]) == (0, True, True)
        assert (first_code, first["state_written"]) == (3, False)
        assert _codes(first) == ["state_lock_disabled", "state_cas_mismatch"]
    assert directory.state()["state_revision"] == 3
    directory.graph("crm", AGED, AGES)
    assert directory.session().apply().is_converged
