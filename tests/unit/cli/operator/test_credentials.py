"""Tokens are read by their owner alone, go to the server that they belong to, and to no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.cli.operator.config import OperatorConfig
from omnigraph.cli.operator.credentials import credentials_path, read_tokens, token_for, write_token
from omnigraph.errors import FileAccessError

CONFIG = OperatorConfig(
    path=Path("config.yaml"),
    servers={"eu": "https://kg.acme.test", "team-a": "https://kg.acme.test/team/", "lab": "http://127.0.0.1:8080"},
)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    for name in ("OMNIGRAPH_BEARER_TOKEN", "OMNIGRAPH_TOKEN_EU", "OMNIGRAPH_TOKEN_TEAM_A"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_a_token_is_kept_replaced_and_forgotten_without_touching_others(home):
    assert read_tokens() == {}
    write_token("eu", "one")
    write_token("lab", "two")
    path = credentials_path()
    path.write_text(
        "# mine\n" + path.read_text(encoding="utf-8") + '\n[quoted]\ntoken = "a#b" # why\n', encoding="utf-8"
    )
    path.chmod(0o600)
    write_token("eu", "three")
    assert read_tokens() == {"eu": "three", "lab": "two", "quoted": "a#b"}
    assert path.read_text(encoding="utf-8").startswith("# mine\n")
    write_token("lab", None)
    write_token("never", None)
    assert read_tokens() == {"eu": "three", "quoted": "a#b"}
    assert path.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in home.iterdir()] == ["credentials"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o601])
def test_a_file_that_others_may_read_is_not_used(mode: int):
    write_token("eu", "one")
    credentials_path().chmod(mode)
    for use in (read_tokens, lambda: token_for(CONFIG, "https://kg.acme.test"), lambda: write_token("eu", "two")):
        with pytest.raises(FileAccessError, match="other users of this machine can read the tokens") as caught:
            use()
        assert caught.value.hint == f"run `chmod 600 {credentials_path()}`"


def test_the_longest_prefix_decides_whose_token_is_sent(monkeypatch):
    write_token("eu", "eu-token")
    write_token("team-a", "team-token")
    monkeypatch.setenv("OMNIGRAPH_BEARER_TOKEN", "common")
    assert token_for(CONFIG, "https://kg.acme.test/graphs/crm") == "eu-token"
    assert token_for(CONFIG, "https://kg.acme.test/team/graphs/crm") == "team-token"
    assert token_for(CONFIG, "https://kg.acme.test/teamwork/graphs/crm") == "eu-token"
    assert token_for(CONFIG, "http://127.0.0.1:8080/graphs/g") == "common"


@pytest.mark.parametrize(
    "url", ["https://kg.acme.test.evil.test/graphs/g", "http://kg.acme.test/graphs/g", "https://other.test/graphs/g"]
)
def test_a_foreign_address_gets_the_common_token_alone(url: str, monkeypatch):
    write_token("eu", "eu-token")
    monkeypatch.setenv("OMNIGRAPH_TOKEN_EU", "eu-variable")
    assert token_for(CONFIG, url) is None
    monkeypatch.setenv("OMNIGRAPH_BEARER_TOKEN", "common")
    assert token_for(CONFIG, url) == "common"


def test_the_environment_goes_before_the_file(monkeypatch):
    write_token("team-a", "file")
    monkeypatch.setenv("OMNIGRAPH_TOKEN_TEAM_A", "variable")
    assert token_for(CONFIG, "https://kg.acme.test/team") == "variable"
