"""One HTTP call to a provider with all its attempts: what is worth another try is tried again, within a deadline."""

from __future__ import annotations

import functools
import logging
import math
import os
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec

from omnigraph.distribution import pip_install
from omnigraph.engine.embedding.settings import DEFAULTS, EmbeddingSettings
from omnigraph.errors import (
    BadValue,
    EmbeddingAnswerError,
    EmbeddingDeadlineError,
    EmbeddingLibraryError,
    EmbeddingRefusedError,
    EmbeddingSettingsError,
    EmbeddingUnavailableError,
    MissingThing,
    OmnigraphError,
    ProviderFault,
)
from omnigraph.records import record
from omnigraph.runtime import Clock

if TYPE_CHECKING:
    import httpx

_MAX_ANSWER_BYTES = 64 << 20
_MAX_DOUBLINGS = 10
_MAX_SAID = 200
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_log = logging.getLogger(__name__)


class HttpCaller:
    """Posts JSON to one provider. Threads may share it; connections are kept and reused.

    Args:
        settings: the provider and how patiently it is asked.
        headers: what identifies us; they are in no message.
        clock: measures the deadline and waits between attempts.

    Raises:
        EmbeddingLibraryError: the HTTP library is not installed.
        EmbeddingSettingsError: the environment's proxies or certificates are unusable.
    """

    def __init__(self, settings: EmbeddingSettings, headers: Mapping[str, str], clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._library = _library()
        self._client = self._open(headers)

    def post(self, path: str, body: Any, *, limit_ms: int | None = None) -> bytes:
        """Return what the provider answers to ``body``.

        Raises:
            EmbeddingUnavailableError: every attempt failed in a way that may pass.
            EmbeddingDeadlineError: there is no time for another attempt.
            EmbeddingRefusedError: it answered with a status that will not change.
            EmbeddingAnswerError: the answer is too long or garbled.
        """
        url, data = f"{self._settings.address}/{path}", msgspec.json.encode(body)
        until_s = self._until(limit_ms)
        attempt = 0
        while True:
            attempt += 1
            outcome = self._try(url, data, until_s)
            if isinstance(outcome, bytes):
                return outcome
            fault = self._fault(url, outcome.reason, outcome.status, attempt)
            pause_s = self._settings.backoff_ms * 2 ** min(attempt - 1, _MAX_DOUBLINGS) / 1000
            now_s = self._clock.monotonic_s()
            if now_s >= until_s or (attempt < self._settings.attempts and now_s + pause_s >= until_s):
                raise EmbeddingDeadlineError(
                    f"no embedding from {url} in time; the last attempt failed: {fault.reason}", details=fault
                )
            if attempt >= self._settings.attempts:
                raise EmbeddingUnavailableError(
                    f"embedding provider at {url} is not available after {attempt} attempts: {fault.reason}",
                    details=fault,
                )
            _log.info("embedding failed, trying again: %s (address %s, attempt %d)", fault.reason, url, attempt)
            self._clock.sleep(pause_s)

    def garbled(self, path: str, reason: str) -> EmbeddingAnswerError:
        """Return the error for an answer that is not what the provider's interface promises."""
        url = f"{self._settings.address}/{path}"
        return EmbeddingAnswerError(
            f"unusable response from embedding provider at {url}: {reason}", details=self._fault(url, reason)
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _open(self, headers: Mapping[str, str]) -> httpx.Client:
        try:
            trusted = _trusted(*map(os.environ.get, _CERTIFICATES))
            client: httpx.Client = self._library.Client(headers=dict(headers), follow_redirects=False, verify=trusted)
        except (ImportError, OSError, ValueError, self._library.InvalidURL) as error:
            # The cause may quote the address of a proxy, password included, so it is not repeated.
            details = BadValue(what="environment", value="…", expected="usable proxies and certificates")
            raise EmbeddingSettingsError(
                "cannot create an HTTP client with the proxies and certificates of the environment", details=details
            ) from error
        return client

    def _until(self, limit_ms: int | None) -> float:
        limits = [limit for limit in (self._settings.deadline_ms or None, limit_ms) if limit is not None]
        return self._clock.monotonic_s() + min(limits) / 1000 if limits else math.inf

    def _try(self, url: str, data: bytes, until_s: float) -> bytes | _Passing:
        """Make one attempt; what may pass comes back, anything else is raised."""
        started_s = self._clock.monotonic_s()
        allowed_s = min(self._settings.timeout_ms / 1000, until_s - started_s)
        if allowed_s <= 0:
            return _Passing(reason="no time was left")
        try:
            with self._client.stream("POST", url, content=data, timeout=allowed_s) as response:
                body = self._read(response, url, started_s + allowed_s)
                status = response.status_code
        except self._library.TimeoutException:
            return _Passing(reason="the request timed out")
        except (self._library.NetworkError, self._library.RemoteProtocolError, self._library.ProxyError) as error:
            return _Passing(reason=f"the connection failed: {self._said(str(error))}")
        except (self._library.HTTPError, self._library.InvalidURL) as error:
            raise self.garbled(url.removeprefix(f"{self._settings.address}/"), self._said(str(error))) from error
        if body is None:
            return _Passing(reason="the request timed out")
        if status == 429 or status >= 500:
            return _Passing(reason=f"HTTP status {status}", status=status)
        if not 200 <= status < 300:
            raise self._refusal(url, status, body)
        return body

    def _read(self, response: httpx.Response, url: str, until_s: float) -> bytes | None:
        """Return the whole body; None when it does not end in time, however steadily it drips."""
        pieces, size = [], 0
        for piece in response.iter_bytes():
            pieces.append(piece)
            size += len(piece)
            if size > _MAX_ANSWER_BYTES:
                raise self.garbled(url.removeprefix(f"{self._settings.address}/"), "it is too long")
            if self._clock.monotonic_s() > until_s:
                return None
        return b"".join(pieces)

    def _refusal(self, url: str, status: int, body: bytes) -> OmnigraphError:
        if status in {401, 403}:
            # Providers repeat parts of the key here, so nothing of what they say is passed on.
            variables = " or ".join(DEFAULTS[self._settings.provider].key_variables)
            reason, hint = "the API key was not accepted", f"check {variables}"
        else:
            reason, hint = self._said(_explanation(body)) or "no reason given", None
        return EmbeddingRefusedError(
            f"embedding provider at {url} refused the request with status {status}: {reason}",
            details=self._fault(url, reason, status),
            hint=hint,
        )

    def _fault(self, url: str, reason: str, status: int | None = None, attempts: int = 1) -> ProviderFault:
        return ProviderFault(
            provider=self._settings.provider, address=url, reason=reason, status=status, attempts=attempts
        )

    def _said(self, text: str) -> str:
        """Return foreign text as messages can hold it: one short line without the key."""
        if self._settings.api_key is not None:
            text = text.replace(self._settings.api_key.reveal(), "…")
        line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
        return line if len(line) <= _MAX_SAID else line[: _MAX_SAID - 1] + "…"


@record
class _Passing:
    """A failure that another attempt may not meet."""

    reason: str
    status: int | None = None


def _library() -> Any:
    try:
        return import_module("httpx")
    except ImportError as error:
        raise EmbeddingLibraryError(
            "embedding over HTTP needs httpx, which is not installed",
            details=MissingThing(what="library", name="httpx"),
            hint=f"install it with `{pip_install('embedding')}`",
        ) from error


@functools.cache
def _trusted(*places: str | None) -> Any:  # noqa: ARG001 - where it looks: another place is another answer
    """Return the certificates that the environment trusts; reading them takes longer than a call on one machine."""
    return _library().create_ssl_context()


def _explanation(body: bytes) -> str:
    """Return what an error body says, in the shape that these providers share; else nothing."""
    try:
        said = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    error = said.get("error") if isinstance(said, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    return message if isinstance(message, str) else ""
