"""The endpoint as a test holds it: starts and stops the process, and speaks its control API."""

from __future__ import annotations

import http.client
import importlib.util
import json
import re
import subprocess
import sys
import threading
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import msgspec

from omnigraph.distribution import pip_install
from omnigraph.errors import BadValue, InternalError, UsageError, ValueFormatError
from omnigraph.runtime import IdSource, SystemClock, SystemRandomness
from omnigraph.testing.s3.calls import Call, ObjectClass, Operation
from omnigraph.testing.s3.faults import Fault
from omnigraph.testing.s3.front import CONTROL_PATH, IDLE_TIMEOUT_S, CallsAnswer, CallsQuery, FaultAdded, Settings

OBSTORE_WITHOUT_RETRIES: Final[dict[str, Any]] = {"max_retries": 0, "retry_timeout": timedelta(seconds=0)}
"""``retry_config`` of an obstore store that sends each call once."""

_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_STOP_TIMEOUT_S: Final = 10.0
_Value = TypeVar("_Value")


class S3Endpoint:
    """An S3 endpoint in a process of its own, with one empty bucket; use it as a context manager.

    Methods may be called from any thread. Other processes need only :attr:`storage_options`.

    Args:
        bucket: name of the bucket.

    Raises:
        ValueFormatError: no bucket can have this name.
    """

    def __init__(self, bucket: str = "omnigraph-test") -> None:
        if not _BUCKET.fullmatch(bucket):
            details = BadValue(what="bucket", value=bucket, expected="3 to 63 of a-z, 0-9, dot and hyphen")
            raise ValueFormatError(f"not a bucket name: {bucket!r}", details=details)
        self.bucket = bucket
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0
        self._connection: http.client.HTTPConnection | None = None
        self._ids = IdSource(SystemClock(), SystemRandomness())

    def __enter__(self) -> Self:
        """Start the process.

        Raises:
            UsageError: the extra ``testing`` is not installed.
            InternalError: the process ended before it served.
        """
        if importlib.util.find_spec("moto") is None:
            hint = f"install it with `{pip_install('testing')}`"
            details = BadValue(what="extra", value="testing", expected="installed")
            raise UsageError("the S3 endpoint needs moto, which is not installed", details=details, hint=hint)
        command = [sys.executable, "-m", "omnigraph.testing.s3", self.bucket]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603 - our own module
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            status = self._process.wait()
            self.__exit__(None, None, None)
            raise InternalError(f"the S3 endpoint did not start: status={status}")
        self._port = json.loads(line)["port"]
        self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=IDLE_TIMEOUT_S + 10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the process and wait until it is gone."""
        process, self._process = self._process, None
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.terminate()
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    @property
    def process_id(self) -> int:
        """The process that serves."""
        return _running(self._process).pid

    @property
    def url(self) -> str:
        """The address that clients connect to."""
        _running(self._process)
        return f"http://127.0.0.1:{self._port}"

    @property
    def storage_options(self) -> dict[str, str]:
        """Options for Lance (``storage_options=``) and for obstore (``config=``) alike."""
        return {
            "aws_endpoint": self.url,
            "aws_access_key_id": "testing",
            "aws_secret_access_key": "testing",
            "aws_region": "us-east-1",
            "aws_virtual_hosted_style_request": "false",
            "aws_conditional_put": "etag",
            "allow_http": "true",
        }

    @property
    def storage_options_without_retries(self) -> dict[str, str]:
        """Options for Lance that make it send each call once; obstore takes :data:`OBSTORE_WITHOUT_RETRIES` instead."""
        return {**self.storage_options, "client_max_retries": "0", "client_retry_timeout": "0"}

    def fresh_prefix(self) -> str:
        """Return the URI of a directory in the bucket that nobody has used."""
        return f"s3://{self.bucket}/{self._ids.ulid()}"

    def reset_calls(self) -> None:
        """Forget the calls served so far; calls still in service are not reported later either."""
        self._tell("reset_calls")

    def calls(self, *, since: int = 0, wait_idle: bool = False) -> tuple[Call, ...]:
        """Return the calls served since the last reset, in the order in which their service began.

        Args:
            since: leave out calls with this sequence number or a lower one.
            wait_idle: first wait until no call is in service.
        """
        query = CallsQuery(since=since, wait_idle=wait_idle)
        return self._ask("calls", query, CallsAnswer).calls

    def last_sequence(self) -> int:
        """Return the number of the call whose service began last."""
        return self._ask("calls", CallsQuery(since=sys.maxsize), CallsAnswer).last_sequence

    def count(self, *, operation: Operation | None = None, object_class: ObjectClass | None = None) -> int:
        """Return how many calls were served since the last reset, of one operation or class if given."""
        return sum(
            operation in {None, call.operation} and object_class in {None, call.object_class} for call in self.calls()
        )

    def settings(self) -> Settings:
        """Return the latency and the cap in force."""
        return self._ask("settings", None, Settings)

    def set_latency_ms(self, latency_ms: float) -> None:
        """Make every call take this long, or as long as it needs if that is longer; calls wait side by side.

        Raises:
            ValueFormatError: a negative number.
        """
        if latency_ms < 0:
            raise _out_of_range("latency_ms", latency_ms, "0 or more")
        self._tell("set_settings", Settings(latency_ms=latency_ms, concurrency=self.settings().concurrency))

    def set_concurrency(self, limit: int | None) -> None:
        """Serve at most ``limit`` calls at once, their latency included; None lifts the cap.

        Raises:
            ValueFormatError: less than one.
        """
        if limit is not None and limit < 1:
            raise _out_of_range("limit", limit, "1 or more, or None")
        self._tell("set_settings", Settings(latency_ms=self.settings().latency_ms, concurrency=limit))

    def add_fault(self, fault: Fault) -> int:
        """Switch a fault on and return the id that the calls it hits will carry."""
        return self._ask("add_fault", fault, FaultAdded).fault_id

    def clear_faults(self) -> None:
        """Switch all faults off."""
        self._tell("clear_faults")

    def restore_defaults(self) -> None:
        """Leave nothing behind for the next test: no faults, no latency, no cap, no calls."""
        self.clear_faults()
        self._tell("set_settings", Settings())
        self.reset_calls()

    def _tell(self, name: str, payload: object = None) -> None:
        self._ask(name, payload, Any)

    def _ask(self, name: str, payload: object, answer: type[_Value]) -> _Value:
        with self._lock:
            connection = _running(self._connection)
            connection.request("POST", CONTROL_PATH + name, body=msgspec.json.encode(payload))
            response = connection.getresponse()
            body = response.read()
        if response.status != 200:
            raise InternalError(f"the S3 endpoint refused a control request: {body.decode(errors='replace')}")
        return msgspec.json.decode(body, type=answer)


def _running(part: _Value | None) -> _Value:
    if part is None:
        details = BadValue(what="endpoint", value="stopped", expected="running")
        raise UsageError("the S3 endpoint is not running: use it as a context manager", details=details)
    return part


def _out_of_range(what: str, value: float, expected: str) -> ValueFormatError:
    details = BadValue(what=what, value=str(value), expected=expected)
    return ValueFormatError(f"out of range: {what}={value}", details=details)
