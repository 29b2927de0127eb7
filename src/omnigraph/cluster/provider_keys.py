"""Profiles of embedding providers with the keys that they refer to, which only the environment of a server holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from omnigraph.cluster.config.providers import KEY_REFERENCE
from omnigraph.cluster.declaration import EmbeddingProfile
from omnigraph.engine.embedding.settings import (
    ATTEMPTS,
    BACKOFF,
    DEADLINE,
    MOCK,
    TIMEOUT,
    EmbeddingSettings,
    ProviderKind,
    Secret,
    settings_from_environment,
)
from omnigraph.errors import BadValue, EmbeddingSettingsError

_HOW = (TIMEOUT, DEADLINE, ATTEMPTS, BACKOFF, MOCK)


def resolve_profile(profile: EmbeddingProfile, environment: Mapping[str, str]) -> EmbeddingSettings:
    """Return the settings that a profile stands for; how patiently a provider is asked is left to the environment.

    Raises:
        EmbeddingSettingsError: the variable that holds the key is not set, or a setting cannot be used.
    """
    how = settings_from_environment({name: value for name, value in environment.items() if name in _HOW})
    if how.provider == "mock":
        return replace(how, model=profile.model)
    key = None
    match = None if profile.api_key is None else KEY_REFERENCE.fullmatch(profile.api_key)
    if match is not None:
        value = environment.get(match["name"], "").strip()
        if not value:
            raise EmbeddingSettingsError(
                f"variable '{match['name']}', which holds the key of the embedding provider, is not set",
                details=BadValue(what="api_key", value="", expected=match["name"]),
            )
        key = Secret(value)
    kind = cast("ProviderKind", profile.kind)
    return replace(how, provider=kind, model=profile.model, base_url=profile.base_url, api_key=key)
