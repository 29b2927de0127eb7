"""A token names exactly one actor, and a configuration that says otherwise does not start a server."""

import hmac
import json
import sys

import boto3
import moto
import pytest

from omnigraph.errors import IdentityConfigError, OmnigraphError, TokenInvalidError, TokenMissingError
from omnigraph.policy import Actor
from omnigraph.server.access import identity
from omnigraph.server.access.identity import (
    FILE_VARIABLE,
    JSON_VARIABLE,
    SECRET_VARIABLE,
    SINGLE_VARIABLE,
    AccessState,
    Identities,
    classify_access,
)

SECRET = "t0ken-that-must-not-be-shown"  # noqa: S105 - what the tests look for


def of(**variables: str) -> Identities:
    return Identities.from_environment(variables)


def refused(**variables: str) -> IdentityConfigError:
    with pytest.raises(IdentityConfigError, match=r"\w") as caught:
        of(**variables)
    assert SECRET not in json.dumps(caught.value.to_json())
    return caught.value


def test_a_token_names_its_actor():
    known = of(**{JSON_VARIABLE: json.dumps({" act-mira ": " a ", "act-jon": "b"})})
    assert known.actor_of("Bearer a") == Actor(name="act-mira")
    assert known.actor_of(b"Bearer b") == Actor(name="act-jon")
    assert known.sources == (JSON_VARIABLE,)
    assert len(known) == 2


def test_tokens_beyond_ascii_are_compared_as_the_bytes_that_were_sent():
    known = of(**{JSON_VARIABLE: json.dumps({"act": "zü"})})
    sent = "Bearer zü".encode()
    assert known.actor_of(sent) == known.actor_of(sent.decode("latin-1")) == Actor(name="act")


@pytest.mark.parametrize(
    "header", [None, "", "a", "bearer a", "BEARER a", "Bearer", "Bearer\ta", "Basic a", " Bearer a"]
)
def test_other_schemes_count_as_no_token(header: str | None):
    with pytest.raises(TokenMissingError, match=r"^missing bearer token$"):
        of(**{SINGLE_VARIABLE: "a"}).actor_of(header)


@pytest.mark.parametrize("header", ["Bearer ", "Bearer  a", "Bearer a ", "Bearer b", "Bearer \u20ac", "Bearer a,a"])
def test_tokens_that_do_not_match_exactly_are_invalid(header: str):
    with pytest.raises(TokenInvalidError, match=r"^invalid bearer token$"):
        of(**{SINGLE_VARIABLE: "a"}).actor_of(header)


def test_every_entry_is_compared_wherever_the_match_stands(monkeypatch: pytest.MonkeyPatch):
    compared: list[bytes] = []
    really = hmac.compare_digest

    def compare(left: bytes, right: bytes) -> bool:
        compared.append(left)
        return really(left, right)

    known = of(**{JSON_VARIABLE: json.dumps({f"act-{number}": f"token-{number}" for number in range(5)})})
    monkeypatch.setattr(identity.hmac, "compare_digest", compare)
    for token in ("token-0", "token-4"):
        compared.clear()
        known.actor_of(f"Bearer {token}")
        assert len(compared) == 5
    compared.clear()
    with pytest.raises(TokenInvalidError, match="invalid"):
        known.actor_of("Bearer other")
    assert len(compared) == 5


def test_a_token_is_kept_as_a_digest_only():
    known = of(**{SINGLE_VARIABLE: SECRET})
    assert SECRET not in repr(known)
    assert SECRET.encode() not in b"".join(entry.digest for entry in known._entries)


def test_a_file_goes_before_the_inline_tokens_and_the_single_token_is_added(tmp_path):
    path = tmp_path / "tokens.json"
    path.write_text('{"act-file": "f"}', encoding="utf-8")
    variables = {FILE_VARIABLE: str(path), JSON_VARIABLE: '{"act-inline": "i"}', SINGLE_VARIABLE: "s"}
    known = of(**variables)
    assert known.actor_of("Bearer f").name == "act-file"
    assert known.actor_of("Bearer s").name == "default"
    assert known.sources == (FILE_VARIABLE, SINGLE_VARIABLE)
    with pytest.raises(TokenInvalidError, match="invalid"):
        known.actor_of("Bearer i")


def test_a_secret_of_aws_excludes_every_other_source():
    asked: list[str] = []

    def fetch(name: str) -> str:
        asked.append(name)
        return '{"act-aws": "a"}'

    variables = {SECRET_VARIABLE: "prod/tokens", JSON_VARIABLE: '{"act": "i"}', SINGLE_VARIABLE: "s"}
    known = Identities.from_environment(variables, fetch_secret=fetch)
    assert asked == ["prod/tokens"]
    assert known.sources == (SECRET_VARIABLE,)
    assert known.actor_of("Bearer a").name == "act-aws"
    with pytest.raises(TokenInvalidError, match="invalid"):
        known.actor_of("Bearer s")


def test_without_aws_support_its_secret_is_a_startup_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "boto3", None)
    error = refused(**{SECRET_VARIABLE: "prod/tokens", SINGLE_VARIABLE: SECRET})
    assert error.message == f"{SECRET_VARIABLE} is set, but AWS support is not installed"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (f'{{"  ": "{SECRET}"}}', f"{JSON_VARIABLE} has a blank actor"),
        ('{"act": " "}', f"the token of actor 'act' in {JSON_VARIABLE} is blank"),
        ('{"act": 7}', f"the token of actor 'act' in {JSON_VARIABLE} is not text"),
        (f'{{"act": {{"{SECRET}": "x"}}}}', f"the token of actor 'act' in {JSON_VARIABLE} is not text"),
        (f'{{"act": "{SECRET}", "act": "b"}}', "actor 'act' has two tokens"),
        (f'{{"act": "{SECRET}", " act": "b"}}', "actor 'act' has two tokens"),
        (f'{{"act": "{SECRET}", "jon": " {SECRET} "}}', "actors 'act' and 'jon' have the same token"),
        (f'["{SECRET}"]', f"{JSON_VARIABLE} is not a JSON object"),
        (f'{{"act": "{SECRET}"', f"{JSON_VARIABLE} is not valid JSON"),
        ("[" * 100_000, f"{JSON_VARIABLE} is not valid JSON"),
        (" ", f"{JSON_VARIABLE} is set but empty"),
    ],
)
def test_contradictory_tokens_are_startup_errors_that_show_no_token(document: str, message: str):
    assert refused(**{JSON_VARIABLE: document}).message == message


def test_the_single_token_may_not_repeat_another_entry():
    inline = json.dumps({"default": "a"})
    assert refused(**{JSON_VARIABLE: inline, SINGLE_VARIABLE: SECRET}).message == "actor 'default' has two tokens"
    inline = json.dumps({"act": SECRET})
    assert "have the same token" in refused(**{JSON_VARIABLE: inline, SINGLE_VARIABLE: SECRET}).message
    assert "is blank" in refused(**{SINGLE_VARIABLE: " "}).message


def test_a_file_that_cannot_be_read_is_a_startup_error(tmp_path):
    missing = tmp_path / "none.json"
    assert refused(**{FILE_VARIABLE: str(missing)}).message.endswith("no such file or directory")
    assert "is a directory" in refused(**{FILE_VARIABLE: str(tmp_path)}).message
    latin = tmp_path / "latin.json"
    latin.write_bytes(b'{"act": "\xff"}')
    assert refused(**{FILE_VARIABLE: str(latin)}).message.endswith("it is not UTF-8 text")


@pytest.mark.parametrize("is_unauthenticated", [False, True])
def test_tokens_alone_deny_everything_but_reading(is_unauthenticated: bool):
    state = classify_access(has_tokens=True, has_policy=False, is_unauthenticated=is_unauthenticated)
    assert state is AccessState.DEFAULT_DENY
    state = classify_access(has_tokens=True, has_policy=True, is_unauthenticated=is_unauthenticated)
    assert state is AccessState.POLICY_ENABLED
    with pytest.raises(IdentityConfigError, match="every request would be refused"):
        classify_access(has_tokens=False, has_policy=True, is_unauthenticated=is_unauthenticated)


def test_a_server_is_open_only_if_it_is_told_so():
    state = classify_access(has_tokens=False, has_policy=False, is_unauthenticated=True)
    assert state is AccessState.OPEN
    with pytest.raises(IdentityConfigError, match="no tokens are configured") as caught:
        classify_access(has_tokens=False, has_policy=False, is_unauthenticated=False)
    assert isinstance(caught.value, OmnigraphError)
    assert "--unauthenticated" in (caught.value.hint or "")


def test_a_secret_is_read_from_the_service(monkeypatch: pytest.MonkeyPatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    with moto.mock_aws():
        service = boto3.client("secretsmanager")
        service.create_secret(Name="prod/tokens", SecretString='{"act-aws": "a"}')
        service.create_secret(Name="prod/bytes", SecretBinary=b"a")
        assert of(**{SECRET_VARIABLE: "prod/tokens"}).actor_of("Bearer a").name == "act-aws"
        assert refused(**{SECRET_VARIABLE: "prod/bytes"}).message.endswith("has no text")
        assert refused(**{SECRET_VARIABLE: "prod/none"}).message.endswith("ResourceNotFoundException")
