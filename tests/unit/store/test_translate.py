"""Foreign errors become ours by type first, by text where there is nothing else, and never carry an address."""

import obstore.exceptions
import pyarrow as pa
import pytest
from lance.commit import CommitConflictError
from tests.marks import first
from tests.unit.store.conftest import Bench

from omnigraph.errors import (
    AlreadyExistsError,
    Effect,
    InternalError,
    StorageCorruptError,
    StorageDeniedError,
    StorageUnauthenticatedError,
    StorageUnavailableError,
    TableMissingError,
    UsageError,
    VersionMissingError,
)
from omnigraph.store.datasets import DatasetStore
from omnigraph.store.location import Storage
from omnigraph.store.translate import FaultKind, fault_of, to_omnigraph_error, translating
from omnigraph.testing.s3 import FOREVER
from omnigraph.testing.s3 import Fault as EndpointFault


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (CommitConflictError("whatever"), FaultKind.CONFLICT),
        (obstore.exceptions.AlreadyExistsError("x"), FaultKind.EXISTS),
        (obstore.exceptions.PermissionDeniedError("x"), FaultKind.DENIED),
        (obstore.exceptions.UnauthenticatedError("x"), FaultKind.UNAUTHENTICATED),
        (FileNotFoundError("x"), FaultKind.MISSING),
        (PermissionError("x"), FaultKind.DENIED),
        (obstore.exceptions.GenericError("x"), FaultKind.UNAVAILABLE),
        (OSError("No space left on device"), FaultKind.UNAVAILABLE),
        (OSError("something else"), FaultKind.UNAVAILABLE),
        (OSError("Commit result for version 7 is unknown: 403 Forbidden"), FaultKind.OUTCOME_UNKNOWN),
        (ValueError("what is this"), FaultKind.OTHER),
    ],
)
def test_an_error_is_classified(error, fault):
    assert fault_of(error) is fault


@pytest.mark.parametrize(
    ("error", "ours"),
    [
        (OSError("Generic S3 error: 403 Forbidden"), StorageDeniedError),
        (obstore.exceptions.PermissionDeniedError("<Code>AccessDenied</Code>"), StorageDeniedError),
        (obstore.exceptions.UnauthenticatedError("x"), StorageUnauthenticatedError),
        (OSError("Generic S3 error: 401 Unauthorized"), StorageUnauthenticatedError),
        (OSError("403 Forbidden: <Code>InvalidAccessKeyId</Code>"), StorageUnauthenticatedError),
        (obstore.exceptions.PermissionDeniedError("<Code>ExpiredToken</Code>"), StorageUnauthenticatedError),
        (OSError("timed out"), StorageUnavailableError),
        (OSError("Dataset already exists: x"), AlreadyExistsError),
        (pa.ArrowInvalid("LanceError(IO): Not found: data/x.lance"), StorageCorruptError),
        (ValueError("Dataset at path x was not found"), TableMissingError),
        (TypeError("odd"), InternalError),
    ],
)
def test_an_error_becomes_one_of_ours(error, ours):
    with pytest.raises(ours) as caught, translating("do it", "nodes/1", effect=Effect.STAGED):
        raise error
    assert caught.value.effect is Effect.STAGED
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("text", ["External error: KeyboardInterrupt: ", "KeyboardInterrupt: "])
def test_ctrl_c_that_lance_hands_on_as_text_is_ctrl_c_again(text):
    with pytest.raises(KeyboardInterrupt), translating("do it", "x"):
        raise OSError(text)


def test_a_text_that_only_mentions_ctrl_c_is_an_error():
    with pytest.raises(InternalError), translating("do it", "x"):
        raise ValueError("no field 'KeyboardInterrupt: '")


def test_our_own_errors_pass_unchanged():
    error = InternalError("mine")
    with pytest.raises(InternalError) as caught, translating("do it", "x"):
        raise error
    assert caught.value is error
    assert to_omnigraph_error(error, doing="do it", location="x") is error


def test_addresses_and_source_places_are_left_out():
    error = OSError("Error performing GET http://host/b/k?X-Amz-Signature=hush in 2ms, /home/r/lance/io.rs:7:9")
    reason = to_omnigraph_error(error, doing="read", location="x").details.reason
    assert reason == "Error performing GET <address> in 2ms"


def test_a_usage_error_is_not_mistaken_for_a_value_error():
    with pytest.raises(UsageError), translating("do it", "x"):
        Storage.open("s3://b/x").path("y")


@pytest.mark.parametrize(("status", "ours"), first(1, [(503, StorageUnavailableError), (403, StorageDeniedError)]))
def test_a_store_that_refuses_or_fails_is_named_on_every_road(on_s3, clean_s3_endpoint, status, ours):
    pin = on_s3.create("a")
    staged = on_s3.stage(pin, upserts=["b"])
    clean_s3_endpoint.add_fault(EndpointFault(action="error", status=status, times=FOREVER))
    cold = DatasetStore(on_s3.storage, on_s3.runtime)
    for call in (
        lambda: cold.open_latest("nodes/1", None),
        lambda: cold.open_version("nodes/1", None, 1),
        lambda: cold.control.get("x"),
        lambda: cold.control.list_keys("x"),
        lambda: on_s3.stage(pin, upserts=["c"]),
        lambda: on_s3.tables.head("nodes/1", None),
        lambda: on_s3.tables.fork(pin, "draft"),
        lambda: on_s3.tables.commit_mark(on_s3.at(1)),
    ):
        with pytest.raises(ours):
            call()
    clean_s3_endpoint.clear_faults()
    assert on_s3.commit(staged).version == 2


# A fine name for a folder, however many messages it looks like.
ODD_FOLDER = "Permission denied was not found already exists 403 Forbidden status code: 503 (os error 13)"


@pytest.fixture
def odd(tmp_path):
    return Bench(Storage.open(tmp_path / ODD_FOLDER))


def test_words_in_the_name_of_a_folder_are_not_taken_for_the_message(odd):
    with pytest.raises(TableMissingError):
        odd.datasets.open_latest("nodes/1", None)
    pin = odd.create("a")
    with pytest.raises(VersionMissingError):
        odd.datasets.open_version("nodes/1", None, 9)
    assert odd.control.get("x") is None
    assert odd.control.put_if_absent("x", b"1")
    assert not odd.control.put_if_absent("x", b"2")
    (data,) = odd.storage.path("nodes/1/data").iterdir()
    assert odd.commit(odd.stage(pin, upserts=["b"])).version == 2
    data.unlink()
    with pytest.raises(StorageCorruptError) as told:
        odd.another_process().open(pin).read()
    assert told.value.details.location == f"nodes/1/data/{data.name}"


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (
            ValueError(f"Dataset at path tmp/{ODD_FOLDER}/g was not found: Not found: tmp/g, /a/b.rs:1:2"),
            FaultKind.MISSING,
        ),
        (OSError(f"Dataset already exists: /{ODD_FOLDER}/g, /a/b.rs:1:2"), FaultKind.EXISTS),
        (OSError(f"Not found: /tmp/{ODD_FOLDER}, /a/b.rs:1:2"), FaultKind.MISSING),
        (
            OSError(f'LanceError(IO): No space left on device (os error 28) at path "/{ODD_FOLDER}"'),
            FaultKind.UNAVAILABLE,
        ),
        (
            OSError(f"LanceError(IO): Generic LocalFileSystem error: on /{ODD_FOLDER}: Denied (os error 13)"),
            FaultKind.DENIED,
        ),
        (
            obstore.exceptions.GenericError(
                f"Generic LocalFileSystem error: /{ODD_FOLDER}: Gone (os error 2)\n\nDebug source:\n"
            ),
            FaultKind.MISSING,
        ),
        (
            ValueError(
                f"LanceError(IO): Generic S3 error: Error performing GET http://h/{ODD_FOLDER.replace(' ', '+')} in 2ms"
                " - Server returned non-2xx status code: 500 Internal Server Error: <Key>403 Forbidden</Key>"
            ),
            FaultKind.UNAVAILABLE,
        ),
        (OSError(36, "File name too long"), FaultKind.BAD_ADDRESS),
        (ValueError("LanceError(IO): file size is too small, /a/b.rs:1:2"), FaultKind.DAMAGED),
        (pa.ArrowInvalid("External error: Encountered corrupt file x: y, /a/b.rs:1:2"), FaultKind.DAMAGED),
        (pa.ArrowInvalid("Float value 1.5 was truncated"), FaultKind.OTHER),
        (type("PanicException", (BaseException,), {})("range end index 7 out of range"), FaultKind.DAMAGED),
    ],
)
def test_the_form_of_a_message_decides_not_a_word_in_it(error, fault):
    assert fault_of(error) is fault


def test_a_panic_of_lance_is_an_error_of_ours():
    with pytest.raises(StorageCorruptError), translating("read a table", "nodes/1"):
        raise type("PanicException", (BaseException,), {})("range end index 7 out of range")
    with pytest.raises(SystemExit), translating("read a table", "nodes/1"):
        raise SystemExit
