"""Embedding providers of a config. A key is never written there: only the variable that holds it is named."""

from __future__ import annotations

from omnigraph.cluster.config.section import ConfigSection
from omnigraph.cluster.declaration import DeclaredProvider, EmbeddingProfile, provider_address
from omnigraph.cluster.digests import provider_digest
from omnigraph.engine.embedding.settings import DEFAULTS, PROVIDERS, EmbeddingSettings, ProviderKind
from omnigraph.errors import EmbeddingSettingsError
from omnigraph.values.patterns import late_pattern

KEYS = ("kind", "provider", "base_url", "model", "api_key")
NAMESPACES = ("embedding",)
KEY_REFERENCE = late_pattern(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}")
"""How a profile names the variable that holds its key."""

_DEFAULT: ProviderKind = "openai-compatible"


def read_providers(root: ConfigSection) -> dict[str, DeclaredProvider]:
    """Return the providers of a config by address, without those that cannot be used."""
    found = {}
    for name, section in root.section("providers", NAMESPACES).sections("embedding", KEYS).items():
        profile = _profile(section, name)
        if profile is not None:
            digest = provider_digest(profile.to_json())
            found[provider_address(name)] = DeclaredProvider(name=name, profile=profile, digest=digest)
    return found


def declared_providers(root: ConfigSection) -> frozenset[str]:
    """Return the addresses of all providers that a config names, also of those that cannot be used."""
    named = root.get("providers")
    listed = named.value.get("embedding") if named is not None and isinstance(named.value, dict) else None
    names = listed.value if listed is not None and isinstance(listed.value, dict) else {}
    return frozenset(map(provider_address, names))


def _profile(section: ConfigSection, name: str) -> EmbeddingProfile | None:
    if section.has("kind") and section.has("provider"):
        message = f"provider '{name}' has kind and provider, which mean the same"
        section.add("invalid_embedding_provider", message, "provider")
    key = "kind" if section.has("kind") else "provider"
    kind = section.text(key) or _DEFAULT
    if kind not in PROVIDERS:
        known = ", ".join(PROVIDERS)
        message = f"provider '{name}' has the unknown kind '{kind[:100]}'; known kinds: {known}"
        section.add("invalid_embedding_provider", message, key)
        return None
    reference = _key_reference(section, name, kind)
    profile = EmbeddingProfile(
        kind=kind, base_url=section.text("base_url"), model=section.text("model"), api_key=reference
    )
    try:
        EmbeddingSettings(provider=kind, base_url=profile.base_url, model=profile.model)
    except EmbeddingSettingsError as problem:
        where = "base_url" if profile.base_url is not None else "model"
        section.add("invalid_embedding_provider", f"provider '{name}': {problem.message}", where)
        return None
    return profile


def _key_reference(section: ConfigSection, name: str, kind: ProviderKind) -> str | None:
    node = section.get("api_key")
    if node is None:
        if DEFAULTS[kind].base_url is not None:
            message = f"provider '{name}' needs an api_key: name the variable that holds it, as ${{NAME}}"
            section.add("embedding_api_key_required", message)
        return None
    if not isinstance(node.value, str) or KEY_REFERENCE.fullmatch(node.value) is None:
        # What stands there may be a key, so that it is not repeated.
        message = f"api_key of provider '{name}' must name a variable, as ${{NAME}}; keys do not belong in the config"
        section.add("embedding_api_key_inline", message, "api_key")
        return None
    return node.value
