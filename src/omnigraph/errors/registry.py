"""The error table: every class of the family, by code. HTTP handlers, exit codes and docs are read from here."""

from __future__ import annotations

from typing import Any

from omnigraph.errors import changes, embedding, engine, general, history, language, query, results, storage, txn
from omnigraph.errors.base import OmnigraphError, rebuild_from_json

CLASSES: tuple[type[OmnigraphError], ...] = (
    general.InternalError,
    general.UsageError,
    general.ValueFormatError,
    general.FileMissingError,
    general.FileAccessError,
    general.FailpointError,
    language.SchemaSyntaxError,
    language.SchemaCheckError,
    language.SchemaPlanError,
    language.CatalogFormatError,
    language.CatalogCorruptError,
    language.QuerySyntaxError,
    language.QueryTypeError,
    language.QueryMeaningError,
    language.QueryParameterError,
    language.QueryNotFoundError,
    language.QueryLaneError,
    language.SourceEncodingError,
    language.SourceTooLargeError,
    query.QueryRuntimeError,
    query.QueryMemoryError,
    query.QueryRowLimitError,
    query.QueryTimeoutError,
    query.QueryCancelledError,
    results.ResultSpentError,
    results.LibraryMissingError,
    embedding.EmbeddingSettingsError,
    embedding.EmbeddingLibraryError,
    embedding.EmbeddingModelMismatchError,
    embedding.EmbeddingUnavailableError,
    embedding.EmbeddingDeadlineError,
    embedding.EmbeddingRefusedError,
    embedding.EmbeddingAnswerError,
    engine.ConstraintViolationError,
    engine.BadRowsError,
    engine.MemoryBudgetError,
    engine.ExternalBlobError,
    txn.ExpectedVersionMismatchError,
    txn.SchemaMovedError,
    txn.PreconditionFailedError,
    txn.ClaimBusyError,
    txn.WriteOutcomeError,
    txn.TableDriftError,
    txn.RecoveryInvariantError,
    txn.SidecarCorruptError,
    txn.ManifestCorruptError,
    txn.TypeMissingError,
    txn.BranchMissingError,
    txn.CommitMissingError,
    txn.BranchExistsError,
    txn.GraphMissingError,
    txn.GraphExistsError,
    txn.FormatUnsupportedError,
    txn.ReadOnlyError,
    txn.GraphClosedError,
    changes.ChangeSchemaBoundaryError,
    changes.CommitHasNoParentError,
    changes.ChangeFeedGapError,
    changes.ChangeCursorError,
    changes.ChangeLimitError,
    changes.ChangeValueError,
    history.MergeConflictsError,
    history.ReadSetChangedError,
    history.MergeBaseMissingError,
    history.RevertRefusedError,
    history.HistoryGoneError,
    history.TagMissingError,
    history.TagExistsError,
    history.BranchInUseError,
    history.BranchClosingError,
    storage.StorageUnavailableError,
    storage.StorageDeniedError,
    storage.StorageCorruptError,
    storage.TableMissingError,
    storage.VersionMissingError,
    storage.AlreadyExistsError,
    storage.CompareAndSwapLostError,
    storage.TableMovedError,
    storage.ForkOccupiedError,
    storage.KeyExistsError,
    storage.OutcomeUnknownError,
    storage.ForkedProcessError,
)

BY_CODE: dict[str, type[OmnigraphError]] = {cls.row.code: cls for cls in CLASSES}


def error_from_json(data: dict[str, Any]) -> OmnigraphError:
    """Rebuild the error that ``to_json`` described, as the same class.

    A code from a newer version becomes an :class:`InternalError` that keeps the message, so that a client never
    fails on a code it does not know yet.
    """
    cls = BY_CODE.get(data["code"])
    if cls is None:
        return general.InternalError(f"{data['code']}: {data['message']}", hint=data.get("hint"))
    return rebuild_from_json(cls, data)
