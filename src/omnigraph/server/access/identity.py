"""Who sends a request: bearer tokens and the actors that they stand for.

Tokens are kept as SHA-256 digests only. A comparison takes the same time wherever a token stands in the list, so that
the time of an answer tells nothing about the tokens that exist.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from omnigraph.distribution import pip_install
from omnigraph.errors import BadValue, IdentityConfigError, TokenInvalidError, TokenMissingError
from omnigraph.policy import Actor
from omnigraph.records import record
from omnigraph.server.access.oidc import verifier_from_environment
from omnigraph.values.names import is_comparable

SECRET_VARIABLE = "OMNIGRAPH_SERVER_BEARER_TOKENS_AWS_SECRET"  # noqa: S105 - the name of a variable
FILE_VARIABLE = "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE"
JSON_VARIABLE = "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON"
SINGLE_VARIABLE = "OMNIGRAPH_SERVER_BEARER_TOKEN"
DEFAULT_ACTOR = "default"

_SCHEME = b"Bearer "


class TokenVerifier(Protocol):
    """Checks tokens that are issued elsewhere, such as those of an OpenID Connect provider."""

    @property
    def source(self) -> str:
        """Where its tokens come from, for the log."""

    def verify(self, token: bytes) -> Actor:
        """Return the actor that a token stands for.

        Raises:
            TokenInvalidError: it is not one of its tokens, or does not hold now.
        """


@record
class TokenEntry:
    """A token that the server accepts, as its digest, and the actor that it stands for."""

    digest: bytes
    actor: Actor


class Identities:
    """The tokens that a server accepts. They are fixed when it is made; reloading makes another one.

    Args:
        entries: the tokens with their actors.
        sources: where they came from, for the log.
        verifier: what checks tokens that are none of these.
    """

    def __init__(
        self, entries: Iterable[TokenEntry] = (), sources: Iterable[str] = (), verifier: TokenVerifier | None = None
    ) -> None:
        self._entries = tuple(entries)
        self._verifier = verifier
        self.sources = (*sources, *(() if verifier is None else (verifier.source,)))

    @classmethod
    def from_environment(
        cls,
        environment: Mapping[str, str],
        *,
        verifier: TokenVerifier | None = None,
        fetch_secret: Callable[[str], str] | None = None,
    ) -> Identities:
        """Read the tokens that the environment names.

        Args:
            environment: the variables of the process.
            verifier: what checks tokens that are none of these; None takes the provider that the environment names.
            fetch_secret: returns the text of a secret of AWS Secrets Manager; None asks the service itself.

        Raises:
            IdentityConfigError: a source cannot be read, or its entries contradict each other.
        """
        verifier = verifier or verifier_from_environment(environment)
        tokens = _Tokens()
        secret = _variable(environment, SECRET_VARIABLE)
        if secret is not None:
            tokens.add_document((fetch_secret or _fetch_aws_secret)(secret), SECRET_VARIABLE)
            return cls(tokens.entries, tokens.sources, verifier)
        path = _variable(environment, FILE_VARIABLE)
        inline = _variable(environment, JSON_VARIABLE)
        if path is not None:
            tokens.add_document(_read_file(path), FILE_VARIABLE)
        elif inline is not None:
            tokens.add_document(inline, JSON_VARIABLE)
        single = environment.get(SINGLE_VARIABLE)
        if single is not None:
            tokens.add(DEFAULT_ACTOR, single, SINGLE_VARIABLE)
        return cls(tokens.entries, tokens.sources, verifier)

    @classmethod
    def of(
        cls, tokens: Mapping[str, str], *, source: str = "given", verifier: TokenVerifier | None = None
    ) -> Identities:
        """Return the identities of a mapping from actors to tokens.

        Raises:
            IdentityConfigError: an actor or a token is blank, or given twice.
        """
        collected = _Tokens()
        for actor, token in tokens.items():
            collected.add(actor, token, source)
        return cls(collected.entries, collected.sources, verifier)

    @property
    def has_tokens(self) -> bool:
        """Whether any token is accepted."""
        return bool(self._entries) or self._verifier is not None

    def asks_provider(self, authorization: str | bytes | None) -> bool:
        """Whether a token is checked by what issued tokens, which may take as long as that takes to answer."""
        if self._verifier is None:
            return False
        token = _token_of(authorization)
        return token is not None and self._own_actor(token) is None

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"<Identities {len(self)} tokens from {', '.join(self.sources) or 'nowhere'}>"

    def actor_of(self, authorization: str | bytes | None) -> Actor:
        """Return who sends a request.

        Args:
            authorization: the value of the header ``Authorization``; text as an ASGI server decodes it (Latin-1).

        Raises:
            TokenMissingError: the header is missing, or its scheme is not exactly ``Bearer`` and one space.
            TokenInvalidError: the token is not accepted.
        """
        token = _token_of(authorization)
        if token is None:
            raise TokenMissingError("missing bearer token")
        found = self._own_actor(token)
        if found is not None:
            return found
        if self._verifier is not None:
            return self._verifier.verify(token)
        raise TokenInvalidError("invalid bearer token")

    def _own_actor(self, token: bytes) -> Actor | None:
        digest = hashlib.sha256(token).digest()
        found: Actor | None = None
        for entry in self._entries:
            # Never left early: how long it takes must not depend on which entry matches.
            if hmac.compare_digest(entry.digest, digest):
                found = entry.actor
        return found


def _token_of(authorization: str | bytes | None) -> bytes | None:
    value = authorization.encode("latin-1", "replace") if isinstance(authorization, str) else authorization
    return None if value is None or not value.startswith(_SCHEME) else value[len(_SCHEME) :]


class _Tokens:
    """Collects entries and refuses what is blank or given twice."""

    def __init__(self) -> None:
        self._actors: set[str] = set()
        self._by_digest: dict[bytes, str] = {}
        self.entries: list[TokenEntry] = []
        self.sources: list[str] = []

    def add_document(self, text: str, source: str) -> None:
        """Add the tokens of a JSON object from actors to tokens."""
        try:
            pairs = json.loads(text, object_pairs_hook=_Pairs)
        except (ValueError, RecursionError) as problem:
            # The text holds tokens: neither it nor what the parser says about it may be shown.
            raise _refusal(f"{source} is not valid JSON", source, "a JSON object from actors to tokens") from problem
        if not isinstance(pairs, _Pairs):
            raise _refusal(f"{source} is not a JSON object", source, "a JSON object from actors to tokens")
        for actor, token in pairs:
            self.add(actor, token, source)
        self._note(source)

    def add(self, actor: str, token: Any, source: str) -> None:
        """Add one token."""
        name = actor.strip()
        if not name:
            raise _refusal(f"{source} has a blank actor", source, "a name for every actor")
        if not is_comparable(name):
            raise _refusal(
                f"{source} has the invalid actor {name!r}", name, "printable characters in normal form (NFC)"
            )
        if not isinstance(token, str):
            raise _refusal(f"the token of actor '{name}' in {source} is not text", name, "text")
        secret = token.strip()
        if not secret:
            raise _refusal(f"the token of actor '{name}' in {source} is blank", name, "a token")
        if name in self._actors:
            raise _refusal(f"actor '{name}' has two tokens", name, "one token for each actor")
        digest = hashlib.sha256(secret.encode()).digest()
        other = self._by_digest.get(digest)
        if other is not None:
            raise _refusal(f"actors '{other}' and '{name}' have the same token", name, "a unique token")
        self._actors.add(name)
        self._by_digest[digest] = name
        self.entries.append(TokenEntry(digest=digest, actor=Actor(name=name)))
        self._note(source)

    def _note(self, source: str) -> None:
        if source not in self.sources:
            self.sources.append(source)


class _Pairs(list[tuple[str, Any]]):
    """A JSON object with every key as it was written, so that a repeated one is seen."""


def _variable(environment: Mapping[str, str], name: str) -> str | None:
    value = environment.get(name)
    if value is not None and not value.strip():
        # A variable that is set and empty is a deployment gone wrong; reading on would drop its tokens silently.
        raise _refusal(f"{name} is set but empty", name, "a value, or no such variable")
    return value


def _read_file(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as problem:
        reason = (problem.strerror or "unreadable").lower() if isinstance(problem, OSError) else "it is not UTF-8 text"
        raise _refusal(f"cannot read {FILE_VARIABLE} '{path}': {reason}", path, "a readable file") from problem


def _fetch_aws_secret(name: str) -> str:
    try:
        import boto3  # type: ignore[import-untyped] # noqa: PLC0415 - an extra that only this source needs
    except ImportError as problem:
        raise _refusal(
            f"{SECRET_VARIABLE} is set, but AWS support is not installed", name, f"boto3, by {pip_install('aws')}"
        ) from problem
    try:
        answer = boto3.client("secretsmanager").get_secret_value(SecretId=name)
    except Exception as problem:
        # The library raises many unrelated classes: no region, no credentials, no network, no such secret.
        reason = type(problem).__name__
        raise _refusal(f"cannot read the secret '{name}' of {SECRET_VARIABLE}: {reason}", name, "a secret") from problem
    text = answer.get("SecretString")
    if not isinstance(text, str):
        raise _refusal(f"the secret '{name}' of {SECRET_VARIABLE} has no text", name, "a secret with a string")
    return text


def _refusal(message: str, value: str, expected: str) -> IdentityConfigError:
    details = BadValue(what="identity", value=value, expected=expected)
    return IdentityConfigError(message, details=details)


class AccessState(StrEnum):
    """What a server demands of every request."""

    OPEN = "open"
    DEFAULT_DENY = "default_deny"
    POLICY_ENABLED = "policy_enabled"


def classify_access(*, has_tokens: bool, has_policy: bool, is_unauthenticated: bool) -> AccessState:
    """Return the state that a server runs in.

    Raises:
        IdentityConfigError: it must not start: it would be open by accident, or answer every request with 401.
    """
    if has_tokens:
        return AccessState.POLICY_ENABLED if has_policy else AccessState.DEFAULT_DENY
    if has_policy:
        raise IdentityConfigError(
            "a policy is configured, but no tokens: every request would be refused",
            details=BadValue(what="identity", value="no tokens", expected="tokens for the actors of the policy"),
            hint=f"set {JSON_VARIABLE}, {FILE_VARIABLE} or {SINGLE_VARIABLE}",
        )
    if is_unauthenticated:
        return AccessState.OPEN
    raise IdentityConfigError(
        "no tokens are configured",
        details=BadValue(what="identity", value="no tokens", expected="tokens, or --unauthenticated"),
        hint=f"set {JSON_VARIABLE}, {FILE_VARIABLE} or {SINGLE_VARIABLE}, or pass --unauthenticated to serve everyone",
    )
