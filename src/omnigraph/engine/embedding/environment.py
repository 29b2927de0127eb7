"""Settings as the environment gives them; values are trimmed, and an empty one is as good as none."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping

from omnigraph.engine.embedding.settings import (
    DEFAULTS,
    LARGEST,
    PROVIDERS,
    EmbeddingSettings,
    ProviderKind,
    Secret,
    bad_number,
    unknown_provider,
)

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
_NUMBER = re.compile(r"[0-9]{1,10}")
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
