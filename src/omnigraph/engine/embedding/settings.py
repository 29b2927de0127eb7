"""Which provider embeds, and how patiently it is asked."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, get_args
from urllib.parse import urlsplit

from omnigraph.errors import BadValue, EmbeddingSettingsError
from omnigraph.records import record
from omnigraph.values import check_text, meant
from omnigraph.values.patterns import late_pattern

ProviderKind = Literal["openai-compatible", "openai", "gemini", "local", "mock"]
PROVIDERS: tuple[ProviderKind, ...] = get_args(ProviderKind)
LOCAL_MODEL = "all-MiniLM-L6-v2"

# The largest number of milliseconds or attempts that settings accept.
LARGEST = 2**31 - 1
_LEAST = MappingProxyType({"timeout_ms": 1, "deadline_ms": 0, "attempts": 1, "backoff_ms": 0})
# What an HTTP header can carry without quoting.
_SHOWN = 100
_KEY = late_pattern(r"[\x21-\x7e]+")


@record
class ProviderDefaults:
    """What holds for a provider unless settings say otherwise, and which variables hold its key."""

    base_url: str | None = None
    model: str = ""
    key_variables: tuple[str, ...] = ()


DEFAULTS: Mapping[ProviderKind, ProviderDefaults] = MappingProxyType(
    {
        "openai-compatible": ProviderDefaults(
            base_url="https://openrouter.ai/api/v1",
            model="openai/text-embedding-3-large",
            key_variables=("OPENROUTER_API_KEY", "OPENAI_API_KEY"),
        ),
        "openai": ProviderDefaults(
            base_url="https://api.openai.com/v1",
            model="text-embedding-3-large",
            key_variables=("OPENAI_API_KEY",),
        ),
        "gemini": ProviderDefaults(
            base_url="https://generativelanguage.googleapis.com/v1beta",
            model="gemini-embedding-2",
            key_variables=("GEMINI_API_KEY",),
        ),
        "local": ProviderDefaults(model=LOCAL_MODEL),
        "mock": ProviderDefaults(),
    }
)


@record(kw_only=False)
class Secret:
    """A key that does not show itself.

    >>> Secret("sk-1")
    Secret(…)
    >>> f"{Secret('sk-1')}"
    'Secret(…)'
    """

    _value: str

    def reveal(self) -> str:
        """Return the key, for the one place that sends it."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(…)"


@record
class EmbeddingSettings:
    """A provider and how to ask it. What is None follows from the provider.

    Args:
        provider: which one.
        model: the model to ask for, and the space that its vectors are in.
        base_url: where the provider is, without a trailing slash.
        api_key: what it knows us by.
        timeout_ms: how long one request may take.
        deadline_ms: how long one call may take with all its attempts; 0 sets no end.
        attempts: how often a call is tried at most.
        backoff_ms: the pause after the first failed attempt; it doubles with each further one.

    Raises:
        EmbeddingSettingsError: a value makes no sense.
    """

    provider: ProviderKind = "openai-compatible"
    model: str | None = None
    base_url: str | None = None
    api_key: Secret | None = None
    timeout_ms: int = 30_000
    deadline_ms: int = 60_000
    attempts: int = 4
    backoff_ms: int = 200

    def __post_init__(self) -> None:
        # As objects, since callers without a type checker give anything at all.
        provider: object = self.provider
        if not isinstance(provider, str) or provider not in PROVIDERS:
            raise unknown_provider(provider)
        for name, least in _LEAST.items():
            value: object = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST:
                raise bad_number(name, ascii(value)[:_SHOWN], least)
        if self.model is not None:
            check_text("model", self.model)
        if self.base_url is not None:
            object.__setattr__(self, "base_url", _checked_url(self.base_url))
        if self.api_key is not None:
            _check_key(self.api_key)

    @property
    def active_model(self) -> str:
        """The model that is asked for."""
        return DEFAULTS[self.provider].model if self.model is None else self.model

    @property
    def address(self) -> str:
        """Where the provider is; empty when it is in this process."""
        return self.base_url or DEFAULTS[self.provider].base_url or ""


def unknown_provider(name: object) -> EmbeddingSettingsError:
    """Return the error for a provider that does not exist."""
    shown = ascii(name)[:_SHOWN]
    details = BadValue(what="provider", value=name if isinstance(name, str) else shown, expected=" | ".join(PROVIDERS))
    return EmbeddingSettingsError(
        f"unknown embedding provider {shown}",
        details=details,
        hint=meant(name, PROVIDERS) or f"set OMNIGRAPH_EMBED_PROVIDER to one of: {', '.join(PROVIDERS)}",
    )


def missing_provider() -> EmbeddingSettingsError:
    """Return the error for texts that nobody was named to embed."""
    variables = f"{PROVIDER} or {DEFAULTS[_DEFAULT_PROVIDER].key_variables[0]}"
    details = BadValue(what="provider", value="", expected=variables)
    return EmbeddingSettingsError(
        f"text must be embedded, but no embedding provider is configured: set {variables}",
        details=details,
        hint=configure_hint(),
    )


def configure_hint() -> str:
    """Return how to name a provider, with the variable of each provider's key."""
    default = DEFAULTS[_DEFAULT_PROVIDER].key_variables[0]
    others = (
        f"{found.key_variables[0]} for {name}"
        for name, found in DEFAULTS.items()
        if found.key_variables and name != _DEFAULT_PROVIDER
    )
    return f"set {default}, or {PROVIDER} with the key of the provider: {', '.join(others)}"


def missing_key(provider: ProviderKind) -> EmbeddingSettingsError:
    """Return the error for a provider whose key is not set."""
    variables = " or ".join(DEFAULTS[provider].key_variables)
    details = BadValue(what="api_key", value="", expected=variables)
    return EmbeddingSettingsError(
        f"embedding provider '{provider}' needs an API key, but {variables} is not set",
        details=details,
        hint=f"set {variables}, or name another provider in OMNIGRAPH_EMBED_PROVIDER",
    )


def bad_number(name: str, value: str, least: int) -> EmbeddingSettingsError:
    """Return the error for a number that cannot be used."""
    expected = f"a whole number from {least} to {LARGEST}"
    details = BadValue(what=name, value=value, expected=expected)
    return EmbeddingSettingsError(f"{name} must be {expected}, got {value!r}", details=details)


def _check_key(key: object) -> None:
    # Whatever was given instead may be a key: it is not shown either.
    text: object = key.reveal() if isinstance(key, Secret) else None
    if isinstance(text, str) and _KEY.fullmatch(text):
        return
    expected = "a Secret of visible ASCII characters"
    details = BadValue(what="api_key", value="…", expected=expected)
    raise EmbeddingSettingsError(f"the API key must be {expected}", details=details)


def _checked_url(url: object) -> str:
    # Neither the text nor a part of it is repeated in the error: it may hold a password.
    expected = "http:// or https:// with a host, without user, query or fragment"
    details = BadValue(what="base_url", value="…", expected=expected)
    problem = EmbeddingSettingsError(
        f"the address of the embedding provider must be {expected}",
        details=details,
        hint="set OMNIGRAPH_EMBED_BASE_URL",
    )
    if not isinstance(url, str):
        raise problem
    try:
        parts = urlsplit(url)
        has_port = parts.port is None or parts.port > 0
    except ValueError as error:
        raise problem from error
    is_plain = parts.username is None and not parts.query and not parts.fragment and "?" not in url and "#" not in url
    if parts.scheme not in {"http", "https"} or not parts.hostname or not has_port or not is_plain:
        raise problem
    if not url.isascii() or not url.isprintable() or " " in url:
        raise problem
    return url.rstrip("/")


PROVIDER = "OMNIGRAPH_EMBED_PROVIDER"
BASE_URL = "OMNIGRAPH_EMBED_BASE_URL"
MODEL = "OMNIGRAPH_EMBED_MODEL"
TIMEOUT = "OMNIGRAPH_EMBED_TIMEOUT_MS"
DEADLINE = "OMNIGRAPH_EMBED_DEADLINE_MS"
ATTEMPTS = "OMNIGRAPH_EMBED_RETRY_ATTEMPTS"
BACKOFF = "OMNIGRAPH_EMBED_RETRY_BACKOFF_MS"
MOCK = "OMNIGRAPH_EMBEDDINGS_MOCK"

_DEFAULT_PROVIDER: ProviderKind = "openai-compatible"
_YES = frozenset({"1", "true", "yes", "on"})
_NUMBER = late_pattern(r"[0-9]{1,10}")
_log = logging.getLogger(__name__)


def settings_from_environment(environment: Mapping[str, str]) -> EmbeddingSettings:
    """Return what the environment asks for.

    Raises:
        EmbeddingSettingsError: it names an unknown provider, or holds a value that makes no sense.
    """
    provider = _provider(environment)
    keys = (_get(environment, name) for name in DEFAULTS[provider].key_variables)
    key = next((key for key in keys if key is not None), None)
    is_remote = DEFAULTS[provider].base_url is not None
    return EmbeddingSettings(
        provider=provider,
        model=_get(environment, MODEL),
        base_url=_get(environment, BASE_URL) if is_remote else None,
        api_key=None if key is None else Secret(key),
        timeout_ms=_number(environment, TIMEOUT, 30_000, least=1),
        deadline_ms=_number(environment, DEADLINE, 60_000, least=0),
        attempts=_number(environment, ATTEMPTS, 4, least=1),
        backoff_ms=_number(environment, BACKOFF, 200, least=0),
    )


def names_provider(environment: Mapping[str, str]) -> bool:
    """Whether the environment says anything about a provider, right or wrong.

    A key of the default provider is enough. One that only another provider answers to is not: nobody who set it for
    something else asked for texts to be sent away.
    """
    telling = (PROVIDER, BASE_URL, DEFAULTS[_DEFAULT_PROVIDER].key_variables[0])
    return _is_mock(environment) or any(_get(environment, name) is not None for name in telling)


def _provider(environment: Mapping[str, str]) -> ProviderKind:
    named = _get(environment, PROVIDER)
    if _is_mock(environment):
        if named not in {None, "mock"}:
            _log.warning("%s overrides %s: texts are embedded by the mock", MOCK, PROVIDER)
        return "mock"
    if named is None:
        return _DEFAULT_PROVIDER
    if named not in PROVIDERS:
        raise unknown_provider(named)
    return named


def _is_mock(environment: Mapping[str, str]) -> bool:
    return (_get(environment, MOCK) or "").lower() in _YES


def _number(environment: Mapping[str, str], name: str, default: int, *, least: int) -> int:
    text = _get(environment, name)
    if text is None:
        return default
    if not _NUMBER.fullmatch(text) or not least <= int(text) <= LARGEST:
        raise bad_number(name, text, least)
    return int(text)


def _get(environment: Mapping[str, str], name: str) -> str | None:
    return environment.get(name, "").strip() or None
