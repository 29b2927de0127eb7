"""Which provider the environment asks for, and what is refused."""

from __future__ import annotations

import logging
import pickle

import pytest

from omnigraph.engine.embedding import EmbeddingSettings, Secret, settings_from_environment
from omnigraph.engine.embedding.settings import names_provider
from omnigraph.errors import EmbeddingSettingsError


@pytest.mark.parametrize(
    ("environment", "provider", "address", "model", "key"),
    [
        ({}, "openai-compatible", "https://openrouter.ai/api/v1", "openai/text-embedding-3-large", None),
        (
            {"OPENAI_API_KEY": "b", "OPENROUTER_API_KEY": "a"},
            "openai-compatible",
            "https://openrouter.ai/api/v1",
            "openai/text-embedding-3-large",
            "a",
        ),
        (
            {"OPENAI_API_KEY": "b", "OPENROUTER_API_KEY": "  "},
            "openai-compatible",
            "https://openrouter.ai/api/v1",
            "openai/text-embedding-3-large",
            "b",
        ),
        (
            {"OMNIGRAPH_EMBED_PROVIDER": " openai ", "OPENROUTER_API_KEY": "a"},
            "openai",
            "https://api.openai.com/v1",
            "text-embedding-3-large",
            None,
        ),
        (
            {"OMNIGRAPH_EMBED_PROVIDER": "gemini", "GEMINI_API_KEY": " g ", "OPENAI_API_KEY": "b"},
            "gemini",
            "https://generativelanguage.googleapis.com/v1beta",
            "gemini-embedding-2",
            "g",
        ),
        (
            {
                "OMNIGRAPH_EMBED_BASE_URL": "http://localhost:11434/v1//",
                "OMNIGRAPH_EMBED_MODEL": " nomic ",
                "OPENAI_API_KEY": "k",
            },
            "openai-compatible",
            "http://localhost:11434/v1",
            "nomic",
            "k",
        ),
        ({"OMNIGRAPH_EMBED_PROVIDER": "mock"}, "mock", "", "", None),
        ({"OMNIGRAPH_EMBED_PROVIDER": "mock", "OMNIGRAPH_EMBED_MODEL": "m"}, "mock", "", "m", None),
        ({"OMNIGRAPH_EMBED_PROVIDER": "local", "OMNIGRAPH_EMBED_BASE_URL": "?"}, "local", "", "all-MiniLM-L6-v2", None),
        ({"OMNIGRAPH_EMBEDDINGS_MOCK": "1", "OPENAI_API_KEY": "k"}, "mock", "", "", None),
        ({"OMNIGRAPH_EMBEDDINGS_MOCK": " TRUE ", "OMNIGRAPH_EMBED_PROVIDER": "nonsense"}, "mock", "", "", None),
        ({"OMNIGRAPH_EMBEDDINGS_MOCK": "yes"}, "mock", "", "", None),
        ({"OMNIGRAPH_EMBEDDINGS_MOCK": "on"}, "mock", "", "", None),
        (
            {"OMNIGRAPH_EMBEDDINGS_MOCK": "0"},
            "openai-compatible",
            "https://openrouter.ai/api/v1",
            "openai/text-embedding-3-large",
            None,
        ),
    ],
)
def test_environment_names_the_provider(environment, provider, address, model, key):
    settings = settings_from_environment(environment)
    assert (settings.provider, settings.address, settings.active_model) == (provider, address, model)
    assert settings.api_key == (None if key is None else Secret(key))


def test_patience_has_defaults_and_variables():
    plain = settings_from_environment({"OMNIGRAPH_EMBED_TIMEOUT_MS": " "})
    assert (plain.timeout_ms, plain.deadline_ms, plain.attempts, plain.backoff_ms) == (30_000, 60_000, 4, 200)
    told = settings_from_environment(
        {
            "OMNIGRAPH_EMBED_TIMEOUT_MS": "1",
            "OMNIGRAPH_EMBED_DEADLINE_MS": "0",
            "OMNIGRAPH_EMBED_RETRY_ATTEMPTS": " 7 ",
            "OMNIGRAPH_EMBED_RETRY_BACKOFF_MS": "0",
        }
    )
    assert (told.timeout_ms, told.deadline_ms, told.attempts, told.backoff_ms) == (1, 0, 7, 0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OMNIGRAPH_EMBED_TIMEOUT_MS", "0"),
        ("OMNIGRAPH_EMBED_TIMEOUT_MS", "soon"),
        ("OMNIGRAPH_EMBED_DEADLINE_MS", "-1"),
        ("OMNIGRAPH_EMBED_DEADLINE_MS", "1e3"),
        ("OMNIGRAPH_EMBED_DEADLINE_MS", "9" * 400),
        ("OMNIGRAPH_EMBED_RETRY_ATTEMPTS", "0"),
        ("OMNIGRAPH_EMBED_RETRY_ATTEMPTS", "٣"),
        ("OMNIGRAPH_EMBED_RETRY_BACKOFF_MS", "2147483648"),
        ("OMNIGRAPH_EMBED_RETRY_BACKOFF_MS", "0.5"),
    ],
)
def test_number_that_makes_no_sense_is_refused_by_the_name_of_its_variable(name, value):
    with pytest.raises(EmbeddingSettingsError, match=name) as caught:
        settings_from_environment({name: value})
    assert caught.value.details.what == name
    assert caught.value.details.value == value


def test_unknown_provider_is_refused_with_those_that_exist():
    with pytest.raises(EmbeddingSettingsError, match="'cohere'") as caught:
        settings_from_environment({"OMNIGRAPH_EMBED_PROVIDER": "cohere"})
    assert "OMNIGRAPH_EMBED_PROVIDER" in caught.value.hint
    assert "gemini" in caught.value.hint
    with pytest.raises(EmbeddingSettingsError, match="'cohere'"):
        EmbeddingSettings(provider="cohere")


@pytest.mark.parametrize(
    "url",
    [
        "localhost:1",
        "ftp://host/v1",
        "http://",
        "http:///v1",
        "https://user:hunter2@host/v1",
        "https://host/v1?key=hunter2",
        "https://host/v1#hunter2",
        "https://host/v1?",
        "http://host:port/v1",
        "http://host:99999",
        "http://[::1/v1",
        "http://ho st/v1",
        "http://host/\u00e9",
        "http://host/\x00",
    ],
)
def test_address_that_cannot_be_asked_is_refused_without_being_repeated(url):
    with pytest.raises(EmbeddingSettingsError) as caught:
        settings_from_environment({"OMNIGRAPH_EMBED_BASE_URL": url, "OPENAI_API_KEY": "k"})
    assert "hunter2" not in str(caught.value.to_json())
    assert "OMNIGRAPH_EMBED_BASE_URL" in caught.value.hint


def test_key_that_no_header_can_carry_is_refused_without_being_repeated():
    for key in ("hunter2 hunter2", "hunter2\nx", "hunter2é"):
        with pytest.raises(EmbeddingSettingsError) as caught:
            settings_from_environment({"OPENAI_API_KEY": key})
        assert "hunter2" not in str(caught.value.to_json())


def test_mock_that_overrides_a_provider_is_logged(caplog):
    with caplog.at_level(logging.WARNING):
        settings_from_environment({"OMNIGRAPH_EMBEDDINGS_MOCK": "1"})
        settings_from_environment({"OMNIGRAPH_EMBEDDINGS_MOCK": "1", "OMNIGRAPH_EMBED_PROVIDER": "mock"})
        assert caplog.records == []
        settings_from_environment({"OMNIGRAPH_EMBEDDINGS_MOCK": "1", "OMNIGRAPH_EMBED_PROVIDER": "openai"})
    assert "OMNIGRAPH_EMBEDDINGS_MOCK overrides OMNIGRAPH_EMBED_PROVIDER" in caplog.text


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, False),
        ({"OMNIGRAPH_EMBED_PROVIDER": " "}, False),
        ({"OMNIGRAPH_EMBED_MODEL": "m", "OMNIGRAPH_EMBED_TIMEOUT_MS": "1"}, False),
        ({"GEMINI_API_KEY": "g"}, False),
        ({"OMNIGRAPH_EMBEDDINGS_MOCK": "off"}, False),
        ({"OMNIGRAPH_EMBEDDINGS_MOCK": "on"}, True),
        ({"OMNIGRAPH_EMBED_PROVIDER": "nonsense"}, True),
        ({"OMNIGRAPH_EMBED_BASE_URL": "http://localhost"}, True),
        ({"OPENROUTER_API_KEY": "k"}, True),
        ({"OPENAI_API_KEY": "k"}, False),
    ],
)
def test_provider_counts_as_configured_once_anything_names_one(environment, expected):
    assert names_provider(environment) is expected


def test_key_does_not_show_itself():
    settings = EmbeddingSettings(api_key=Secret("hunter2"))
    assert "hunter2" not in f"{settings} {settings!r} {settings.api_key} {[settings.api_key]}"
    assert pickle.loads(pickle.dumps(settings)) == settings  # noqa: S301 - our own bytes
