"""Tokens of an OpenID Connect provider: signed elsewhere, checked here with the provider's public keys.

The keys are fetched when the first token comes and kept for a while. A token that names an unknown key has them fetched
again, at most once in a short time, so that a provider can change its keys and a caller cannot make us ask it often.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from omnigraph.errors import BadValue, IdentityConfigError, IdentityProviderError, StorageFault, TokenInvalidError
from omnigraph.policy.decision import Actor
from omnigraph.records import record
from omnigraph.runtime import Clock, SystemClock
from omnigraph.values.names import is_comparable

ISSUER_VARIABLE = "OMNIGRAPH_SERVER_OIDC_ISSUER"
AUDIENCE_VARIABLE = "OMNIGRAPH_SERVER_OIDC_AUDIENCE"
JWKS_VARIABLE = "OMNIGRAPH_SERVER_OIDC_JWKS_URL"
ACTOR_CLAIM_VARIABLE = "OMNIGRAPH_SERVER_OIDC_ACTOR_CLAIM"
GROUPS_CLAIM_VARIABLE = "OMNIGRAPH_SERVER_OIDC_GROUPS_CLAIM"

DISCOVERY = "/.well-known/openid-configuration"
# Signatures that only the holder of a private key can make. A shared secret would let readers of the keys sign.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
MAX_TOKEN_BYTES = 16 << 10
_TIMEOUT_S = 10.0
_MAX_DOCUMENT_BYTES = 1 << 20
_log = logging.getLogger("omnigraph.server")

Fetch = Callable[[str], Any]


@record
class OidcSettings:
    """Which tokens are accepted, and what of them names the actor.

    Args:
        issuer: the provider, exactly as its tokens name it.
        audience: what tokens must be issued for.
        jwks_url: where its keys are; None asks the provider.
        actor_claim: the claim that names the actor.
        groups_claim: the claim that lists groups.
        keys_kept_s: how long keys are used before they are fetched again.
        refetch_s: how long an unknown key does not have them fetched once more.
        leeway_s: how far the clocks may differ.
    """

    issuer: str
    audience: str
    jwks_url: str | None = None
    actor_claim: str = "sub"
    groups_claim: str = "groups"
    keys_kept_s: float = 3600.0
    refetch_s: float = 30.0
    leeway_s: int = 60


def verifier_from_environment(environment: Mapping[str, str], *, clock: Clock | None = None) -> OidcVerifier | None:
    """Return what checks tokens of the provider that the environment names; None if it names none.

    Raises:
        IdentityConfigError: the variables are incomplete.
    """
    given = {name: environment[name].strip() for name in _VARIABLES if environment.get(name, "").strip()}
    if not given:
        return None
    for needed in (ISSUER_VARIABLE, AUDIENCE_VARIABLE):
        if needed not in given:
            details = BadValue(what="identity", value=", ".join(sorted(given)), expected=needed)
            raise IdentityConfigError(f"{needed} is missing", details=details)
    settings = OidcSettings(**{_VARIABLES[name]: value for name, value in given.items()})  # type: ignore[arg-type]  # all of them are texts
    return OidcVerifier(settings, clock=clock)


_VARIABLES: Mapping[str, str] = {
    ISSUER_VARIABLE: "issuer",
    AUDIENCE_VARIABLE: "audience",
    JWKS_VARIABLE: "jwks_url",
    ACTOR_CLAIM_VARIABLE: "actor_claim",
    GROUPS_CLAIM_VARIABLE: "groups_claim",
}


# What the command line calls them, and what it says about them.
OPTIONS: Mapping[str, tuple[str, str]] = {
    "--oidc-issuer": (ISSUER_VARIABLE, "accept tokens of this OpenID Connect provider"),
    "--oidc-audience": (AUDIENCE_VARIABLE, "the audience that tokens must have"),
    "--oidc-jwks-url": (JWKS_VARIABLE, "the URL of the signing keys, if not the one in the provider's metadata"),
    "--oidc-actor-claim": (ACTOR_CLAIM_VARIABLE, "the claim with the name of the actor; sub by default"),
    "--oidc-groups-claim": (GROUPS_CLAIM_VARIABLE, "the claim with the list of groups; groups by default"),
}


class OidcVerifier:
    """Checks tokens of one provider. Threads may share it.

    Args:
        settings: which tokens are accepted.
        clock: tells whether they hold now.
        fetch: returns the JSON document at an address.

    Raises:
        IdentityConfigError: an address is not one that keys may come from.
    """

    def __init__(self, settings: OidcSettings, *, clock: Clock | None = None, fetch: Fetch | None = None) -> None:
        for address in (settings.issuer, settings.jwks_url):
            if address is not None:
                _check_address(address)
        self.settings = settings
        self._keys = _ProviderKeys(settings, clock or SystemClock(), fetch or _fetch_json)
        self._clock = clock or SystemClock()

    @property
    def source(self) -> str:
        """Where its tokens come from, for the log."""
        return f"OIDC {self.settings.issuer}"

    def verify(self, token: bytes) -> Actor:
        """Return the actor of a token.

        Raises:
            TokenInvalidError: it is not a token of the provider for this server that holds now.
            IdentityProviderError: the keys of the provider cannot be fetched.
        """
        from joserfc import jwt  # noqa: PLC0415 - an extra, for servers with a provider
        from joserfc.errors import JoseError  # noqa: PLC0415 - see above

        if len(token) > MAX_TOKEN_BYTES or token.count(b".") != 2:
            raise TokenInvalidError("invalid bearer token")
        try:
            text = token.decode("ascii")
            key_id = _key_id(text)
            decoded = jwt.decode(text, self._keys.get(key_id), algorithms=list(ALGORITHMS))
            self._claims().validate(decoded.claims)
        except (JoseError, ValueError, TypeError, KeyError) as problem:
            # What exactly is wrong helps whoever tries tokens; it stands in the log alone, without the token.
            _log.info("a token of %s was refused: %s", self.settings.issuer, type(problem).__name__)
            raise TokenInvalidError("invalid bearer token") from problem
        return self._actor(decoded.claims)

    def _claims(self) -> Any:
        from joserfc.jwt import JWTClaimsRegistry  # noqa: PLC0415 - see above

        return JWTClaimsRegistry(
            now=self._clock.now_ms() // 1000,
            leeway=self.settings.leeway_s,
            iss={"essential": True, "value": self.settings.issuer},
            aud={"essential": True, "value": self.settings.audience},
            exp={"essential": True},
        )

    def _actor(self, claims: Mapping[str, Any]) -> Actor:
        name = claims.get(self.settings.actor_claim)
        if not isinstance(name, str) or not is_comparable(name.strip()):
            _log.info("a token of %s has no usable claim '%s'", self.settings.issuer, self.settings.actor_claim)
            raise TokenInvalidError("invalid bearer token")
        groups = claims.get(self.settings.groups_claim, ())
        listed = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else ()
        return Actor(name=name, groups=frozenset(group for group in listed if isinstance(group, str)))


class _ProviderKeys:
    """The public keys of a provider, fetched when they are needed."""

    def __init__(self, settings: OidcSettings, clock: Clock, fetch: Fetch) -> None:
        self._settings = settings
        self._clock = clock
        self._fetch = fetch
        # Held while keys are fetched: of many requests that need them, one asks the provider.
        self._fetching = threading.Lock()
        self._keys: Any = None
        self._ids: frozenset[str | None] = frozenset()
        self._fetched_s = 0.0
        self._tried_s = 0.0
        self._failure: IdentityProviderError | None = None

    def get(self, key_id: str | None) -> Any:
        """Return the keys. Who can go by keys that are known never waits for the provider.

        Raises:
            IdentityProviderError: they cannot be fetched and are not known.
        """
        if self._keys is None:
            with self._fetching:
                if self._keys is None:
                    self._fetch_first()
        elif self._is_due(key_id) and self._fetching.acquire(blocking=False):
            try:
                self._renew()
            finally:
                self._fetching.release()
        return self._keys

    def _fetch_first(self) -> None:
        if self._failure is not None and self._clock.monotonic_s() - self._tried_s < self._settings.refetch_s:
            raise self._failure
        self._renew()

    def _is_due(self, key_id: str | None) -> bool:
        """Whether the keys are old, or a token names one that is not known, and the provider was not asked just now."""
        now_s = self._clock.monotonic_s()
        is_wanted = now_s - self._fetched_s >= self._settings.keys_kept_s or (
            key_id is not None and key_id not in self._ids
        )
        return is_wanted and now_s - self._tried_s >= self._settings.refetch_s

    def _renew(self) -> None:
        self._tried_s = self._clock.monotonic_s()
        try:
            document = self._fetch(self._address())
            self._keys, self._ids = _usable_keys(document["keys"])
            self._fetched_s = self._clock.monotonic_s()
        except Exception as problem:
            # The library and the document may fail in any way.
            failure = problem if isinstance(problem, IdentityProviderError) else None
            self._failure = failure or _provider_error(self._settings.issuer, type(problem).__name__)
            if self._keys is None:
                raise self._failure from problem
            # A provider that is away for a while must not lock everyone out; unknown keys stay unknown.
            _log.warning("the keys of %s could not be fetched; the cached ones are used", self._settings.issuer)

    def _address(self) -> str:
        if self._settings.jwks_url is not None:
            return self._settings.jwks_url
        found = self._fetch(self._settings.issuer.rstrip("/") + DISCOVERY)
        if not isinstance(found, Mapping) or found.get("issuer") != self._settings.issuer:
            raise _provider_error(self._settings.issuer, "it describes another issuer")
        address = str(found.get("jwks_uri", ""))
        _check_address(address)
        return address


def _usable_keys(listed: Any) -> tuple[Any, frozenset[str | None]]:
    """Return the public keys of a document with their ids, without those of kinds that cannot be checked here.

    Raises:
        JoseError, TypeError, KeyError: there is none.
    """
    from joserfc.jwk import KeySet  # noqa: PLC0415 - see above

    found, ids, problem = [], set(), None
    for key in listed:
        if key.get("kty") == "oct":
            continue
        try:
            found += KeySet.import_key_set({"keys": [key]}).keys
        except Exception as error:  # noqa: BLE001 - a kind of key that the library does not know fails in any way
            problem = error
            continue
        ids.add(key.get("kid"))
    if not found and problem is not None:
        raise problem
    return KeySet(found), frozenset(ids)


def _key_id(token: str) -> str | None:
    from joserfc.jws import extract_compact  # noqa: PLC0415 - see above

    found = extract_compact(token.encode()).headers().get("kid")
    return found if isinstance(found, str) else None


_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
# What two readers of one address may understand differently.
_NOT_IN_ADDRESSES = frozenset(" \\")


def _check_address(address: str) -> None:
    """Refuse addresses that a stranger on the network could answer for."""
    try:
        parts = urlsplit(address)
        # Reading the port checks it.
        is_whole = bool(parts.hostname) and "@" not in parts.netloc and (parts.port is None or parts.port > 0)
    except ValueError:
        is_whole = False
    is_plain = is_whole and address.isascii() and address.isprintable() and not _NOT_IN_ADDRESSES & set(address)
    if not is_plain or not (parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)):
        details = BadValue(what="identity", value=address, expected="https://, or http:// on this machine")
        raise IdentityConfigError(f"keys are not fetched from '{address}'", details=details)


def _fetch_json(address: str) -> Any:
    import httpx2  # noqa: PLC0415 - an extra, and only providers need it

    clock = SystemClock()
    began_s = clock.monotonic_s()
    try:
        with (
            httpx2.Client(timeout=_TIMEOUT_S, follow_redirects=False) as client,
            client.stream("GET", address) as answer,
        ):
            answer.raise_for_status()
            content = bytearray()
            for chunk in answer.iter_bytes():
                content += chunk
                if len(content) > _MAX_DOCUMENT_BYTES:
                    raise _provider_error(address, "the answer is too long")
                if clock.monotonic_s() - began_s > _TIMEOUT_S:
                    # The timeout of the client begins anew with every byte.
                    raise _provider_error(address, "the answer takes too long")
            return json.loads(bytes(content))
    except (httpx2.HTTPError, ValueError) as problem:
        raise _provider_error(address, type(problem).__name__) from problem


def _provider_error(address: str, reason: str) -> IdentityProviderError:
    details = StorageFault(doing="fetch the keys of the identity provider", location=address, reason=reason)
    return IdentityProviderError("the keys of the identity provider cannot be fetched", details=details)
