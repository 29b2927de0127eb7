"""Tokens of an identity provider: its keys are served on loopback, and everything about a token may be wrong."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest
from joserfc.jwk import ECKey, OctKey, RSAKey
from tests.server.access.provider import AUDIENCE, Provider

from omnigraph.errors import IdentityConfigError, IdentityProviderError, TokenInvalidError
from omnigraph.policy import Actor
from omnigraph.runtime import ManualClock, Runtime
from omnigraph.server.access.decisions import Access
from omnigraph.server.access.identity import SINGLE_VARIABLE, Identities
from omnigraph.server.access.oidc import (
    ACTOR_CLAIM_VARIABLE,
    AUDIENCE_VARIABLE,
    ISSUER_VARIABLE,
    JWKS_VARIABLE,
    OidcSettings,
    OidcVerifier,
    verifier_from_environment,
)
from omnigraph.server.app import create_app
from omnigraph.server.config import BlockedGraph, ServerSettings
from omnigraph.server.graphs import Graphs
from omnigraph.server.service import Service

CLOCK = ManualClock()


@pytest.fixture(scope="module")
def serving():
    with Provider(CLOCK).serving() as made:
        yield made


@pytest.fixture
def provider(serving):
    serving.asked.clear()
    serving.is_up, serving.document = True, None
    keys = list(serving.keys)
    yield serving
    serving.keys = keys


def verifier(provider: Provider, **settings: object) -> OidcVerifier:
    return OidcVerifier(OidcSettings(issuer=provider.url, audience=AUDIENCE, **settings), clock=CLOCK)


def test_a_token_names_its_actor_and_groups(provider):
    checks = verifier(provider)
    assert checks.verify(provider.token()) == Actor(name="act-mira", groups=frozenset({"editors"}))
    assert checks.verify(provider.token(groups="one")) == Actor(name="act-mira", groups=frozenset({"one"}))
    assert checks.verify(provider.token(groups=None)) == Actor(name="act-mira")
    assert checks.verify(provider.token(aud=["other", AUDIENCE])).name == "act-mira"
    assert provider.asked == ["/.well-known/openid-configuration", "/keys"]
    assert verifier(provider, actor_claim="email").verify(provider.token(email="a@b.test")).name == "a@b.test"


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://elsewhere.test"},
        {"aud": "another"},
        {"aud": None},
        {"iss": None},
        {"exp": None},
        {"exp": 1},
        {"nbf": 99_999_999_999},
        {"sub": None},
        {"sub": " "},
        {"sub": 7},
        {"sub": "a\nb"},
    ],
    ids=str,
)
def test_a_token_that_does_not_hold_here_and_now_is_invalid(provider, claims):
    with pytest.raises(TokenInvalidError, match=r"^invalid bearer token$"):
        verifier(provider).verify(provider.token(**claims))


def test_a_token_expires(provider):
    checks, token = verifier(provider), provider.token()
    checks.verify(token)
    CLOCK.sleep(300 + 61)
    with pytest.raises(TokenInvalidError, match="invalid"):
        checks.verify(token)


def test_a_token_that_another_key_signed_is_invalid(provider):
    stranger = RSAKey.generate_key(2048, {"kid": "one"})
    with pytest.raises(TokenInvalidError, match="invalid"):
        verifier(provider).verify(provider.token(stranger))


def test_a_shared_secret_is_never_a_key(provider):
    public = json.dumps(provider.keys[0].as_dict(private=False))
    secret = OctKey.import_key(public, {"kid": "one"})
    provider.keys = [*provider.keys, OctKey.import_key("s" * 32, {"kid": "two"})]
    for key in (secret, provider.keys[1]):
        with pytest.raises(TokenInvalidError, match="invalid"):
            verifier(provider).verify(provider.token(key))


@pytest.mark.parametrize("token", [b"", b"a", b"a.b.c", b"..", b"\xff.a.b", b"e30.e30.", b"x." * 20_000])
def test_what_is_not_a_token_is_invalid(provider, token):
    with pytest.raises(TokenInvalidError, match="invalid"):
        verifier(provider).verify(token)


def test_an_unsigned_token_is_invalid(provider):
    head, claims, _ = provider.token().split(b".")
    none = b"eyJhbGciOiJub25lIn0"
    for token in (none + b"." + claims + b".", head + b"." + claims + b"."):
        with pytest.raises(TokenInvalidError, match="invalid"):
            verifier(provider).verify(token)


def test_new_keys_of_the_provider_are_fetched_when_a_token_names_one_but_not_often(provider):
    checks = verifier(provider, jwks_url=f"{provider.url}/keys", refetch_s=30.0)
    checks.verify(provider.token())
    fresh = ECKey.generate_key("P-256", {"kid": "fresh"})
    provider.keys = [*provider.keys, fresh]
    for _ in range(3):
        with pytest.raises(TokenInvalidError, match="invalid"):
            checks.verify(provider.token(fresh))
    assert provider.asked == ["/keys"]
    CLOCK.sleep(31)
    assert checks.verify(provider.token(fresh)).name == "act-mira"
    assert provider.asked == ["/keys"] * 2


def test_keys_are_fetched_again_after_their_time_and_used_on_if_the_provider_is_away(provider):
    checks = verifier(provider, jwks_url=f"{provider.url}/keys", keys_kept_s=100.0)
    checks.verify(provider.token())
    CLOCK.sleep(101)
    provider.is_up = False
    assert checks.verify(provider.token()).name == "act-mira"
    assert provider.asked == ["/keys"] * 2
    provider.is_up = True
    CLOCK.sleep(101)
    withdrawn, provider.keys = provider.keys[0], [RSAKey.generate_key(2048, {"kid": "next"})]
    with pytest.raises(TokenInvalidError, match="invalid"):
        checks.verify(provider.token(withdrawn))


def test_a_provider_that_cannot_be_asked_is_not_a_wrong_token(provider):
    provider.is_up = False
    checks = verifier(provider)
    for _ in range(3):
        with pytest.raises(IdentityProviderError, match="keys of the identity provider cannot be fetched") as caught:
            checks.verify(provider.token())
    assert caught.value.kind.http_status == 503
    assert len(provider.asked) == 1, "a provider that is away is not asked for every request"
    provider.is_up, provider.document = True, {"issuer": "https://elsewhere.test", "jwks_uri": f"{provider.url}/keys"}
    with pytest.raises(IdentityProviderError, match="keys of the identity provider cannot be fetched"):
        verifier(provider).verify(provider.token())


def test_who_has_a_known_key_does_not_wait_while_the_provider_is_asked_for_another(provider):
    answers, public = [], {"keys": [provider.keys[0].as_dict(private=False)]}

    def fetch(address: str) -> object:
        if answers:
            # A token that anybody can write had the provider asked, which takes its time.
            answers.append(threads.submit(checks.verify, provider.token()).result(timeout=300))
        answers.append(address)
        return public

    settings = OidcSettings(issuer=provider.url, audience=AUDIENCE, jwks_url=f"{provider.url}/keys", refetch_s=0.0)
    checks = OidcVerifier(settings, clock=CLOCK, fetch=fetch)
    checks.verify(provider.token())
    with ThreadPoolExecutor(1) as threads, pytest.raises(TokenInvalidError, match="invalid"):
        checks.verify(provider.token(RSAKey.generate_key(2048, {"kid": "bogus"})))
    actor = Actor(name="act-mira", groups=frozenset({"editors"}))
    assert answers == [f"{provider.url}/keys", actor, f"{provider.url}/keys"]


def test_keys_of_an_unknown_kind_do_not_spoil_the_others(provider):
    strange = [{"kty": "EC", "crv": "P-999", "x": "AA", "y": "AA", "kid": "odd"}, {"kty": "new", "kid": "newer"}]
    public = [*strange, provider.keys[0].as_dict(private=False)]
    settings = OidcSettings(issuer=provider.url, audience=AUDIENCE, jwks_url=f"{provider.url}/keys")
    assert OidcVerifier(settings, clock=CLOCK, fetch=lambda _: {"keys": public}).verify(provider.token())
    with pytest.raises(IdentityProviderError, match="keys of the identity provider cannot be fetched"):
        OidcVerifier(settings, clock=CLOCK, fetch=lambda _: {"keys": strange[:1]}).verify(provider.token())


def test_a_failed_attempt_to_renew_old_keys_is_made_again_soon(provider):
    checks = verifier(provider, jwks_url=f"{provider.url}/keys", keys_kept_s=100.0, refetch_s=30.0)
    checks.verify(provider.token())
    CLOCK.sleep(101)
    provider.is_up = False
    checks.verify(provider.token())
    checks.verify(provider.token())
    assert provider.asked == ["/keys"] * 2
    provider.is_up = True
    CLOCK.sleep(31)
    withdrawn, provider.keys = provider.keys[0], [RSAKey.generate_key(2048, {"kid": "next"})]
    with pytest.raises(TokenInvalidError, match="invalid"):
        checks.verify(provider.token(withdrawn))


def test_only_tokens_that_are_not_its_own_make_a_server_ask_the_provider(provider):
    known = Identities.from_environment({SINGLE_VARIABLE: "static"}, verifier=verifier(provider))
    headers = (b"Bearer static", "Bearer static", None, "Basic x", "Bearer other")
    assert [known.asks_provider(header) for header in headers] == [False, False, False, False, True]
    assert not Identities.from_environment({SINGLE_VARIABLE: "static"}).asks_provider("Bearer other")
    assert provider.asked == []


def test_readiness_asks_the_provider_beside_the_event_loop(provider):
    asked_in = []

    class Threads:
        source = "a provider"

        def verify(self, token: bytes) -> Actor:
            asked_in.append(threading.current_thread())
            return Actor(name=token.decode())

    async def ask() -> list[object]:
        graphs = Graphs({}, {"g": BlockedGraph(graph_id="g", uri="g", reason="")})
        access = Access(Identities(verifier=Threads()))
        service = Service(ServerSettings(graphs=()), graphs, access, Runtime.system())
        transport = httpx2.ASGITransport(create_app(service))
        async with httpx2.AsyncClient(transport=transport, base_url="http://here") as http:
            answers = [await http.get("/readyz"), await http.get("/readyz", headers={"authorization": "Bearer a"})]
        return [answer.json()["graphs"]["blocked"] for answer in answers]

    assert asyncio.run(ask()) == [1, ["g"]]
    assert [thread is threading.main_thread() for thread in asked_in] == [False]


def test_tokens_of_both_kinds_are_accepted_side_by_side(provider):
    known = Identities.from_environment({SINGLE_VARIABLE: "static"}, verifier=verifier(provider))
    assert known.actor_of("Bearer static") == Actor(name="default")
    assert known.actor_of(b"Bearer " + provider.token()).groups == {"editors"}
    assert known.has_tokens
    assert known.sources == (SINGLE_VARIABLE, f"OIDC {provider.url}")
    with pytest.raises(TokenInvalidError, match="invalid"):
        known.actor_of("Bearer other")


def test_the_environment_names_the_provider(provider):
    assert verifier_from_environment({}) is None
    assert verifier_from_environment({ISSUER_VARIABLE: " "}) is None
    variables = {ISSUER_VARIABLE: provider.url, AUDIENCE_VARIABLE: AUDIENCE, ACTOR_CLAIM_VARIABLE: "email"}
    made = verifier_from_environment(variables, clock=CLOCK)
    assert made is not None
    assert made.settings.actor_claim == "email"
    with pytest.raises(IdentityConfigError, match=f"{AUDIENCE_VARIABLE} is missing"):
        verifier_from_environment({ISSUER_VARIABLE: provider.url})
    for address in (
        "http://idp.test",
        "ftp://idp.test",
        "idp.test",
        "https://",
        "http://127.0.0.1:1@evil/",
        "http://127.0.0.1@evil:80/",
        "http://localhost:1\\\\@evil/",
        "http://127.0.0.1.evil/",
        "https://me:secret@idp.test/",
        "https://idp.test:x/",
        "http://[::1/",
    ):
        with pytest.raises(IdentityConfigError, match="keys are not fetched from"):
            verifier_from_environment(variables | {JWKS_VARIABLE: address})
