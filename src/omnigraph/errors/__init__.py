"""The error family: one root, one table.

OmnigraphError
├── InternalError          our bug
├── UsageError             arguments that do not go together
├── ValueFormatError       a malformed name, id or reference (also ValueError)
├── FileMissingError       (also FileNotFoundError)
├── FileAccessError        a file that cannot be read or written
├── FailpointError         an injected fault
├── CatalogFormatError     compiled by an unknown format version
├── CatalogCorruptError    contradicts its own hash
├── QueryParameterError    missing or mistyped parameter
├── QueryNotFoundError     no such declaration (also KeyError)
├── QueryLaneError         a mutation sent to the read lane, or the reverse
├── SourceTooLargeError    past a limit that protects the process
├── StorageUnavailableError  the store did not answer
├── StorageDeniedError, StorageUnauthenticatedError   (also PermissionError)
├── StorageCorruptError    stored files missing or unreadable
├── TableMissingError, VersionMissingError
├── AlreadyExistsError     a dataset or branch somebody else created
├── CompareAndSwapLostError, TableMovedError, ForkOccupiedError
├── KeyExistsError         a strict insert met taken ids
├── OutcomeUnknownError    a commit that may have landed
├── ForkedProcessError     storage used after fork
├── ExpectedVersionMismatchError, SchemaMovedError   somebody else changed what a write was decided on
├── PreconditionFailedError  the branch head is another commit
├── ClaimBusyError         other writers kept the branch busy (also TimeoutError)
├── WriteOutcomeError      a write that may be published
├── WriteSweptError        a cleanup came between a write and its publish
├── TableDriftError        a table changed outside of the protocol
├── RecoveryInvariantError, SidecarCorruptError, ManifestCorruptError, GraphReplacedError
├── ConstraintViolationError, BadRowsError   rows that break the schema
├── ExternalBlobError      blob content that is not given but pointed at
├── MemoryBudgetError      a write that does not fit the memory it may use
├── ResultSpentError       rows that were streamed away are asked for again
├── LibraryMissingError    (also ImportError)
├── ResultWithoutNodesError, ViewTooLargeError   what cannot be drawn or held as a network
├── EmbeddingSettingsError, EmbeddingModelMismatchError   no provider that could embed a text
├── EmbeddingLibraryError  (also ImportError)
├── EmbeddingUnavailableError, EmbeddingDeadlineError   (the latter also TimeoutError)
├── EmbeddingRefusedError, EmbeddingAnswerError   what a provider said is of no use
├── TypeMissingError, BranchMissingError   (also KeyError)
├── MergeConflictsError, MergeBaseMissingError, RevertRefusedError   merges and reverts that cannot be made
├── HistoryGoneError       the data of an earlier state was reclaimed
├── BranchInUseError, BranchClosingError, TagExistsError, TagMissingError   (the last also KeyError)
├── ReadSetChangedError    what an operation was decided on is different by now
├── GraphMissingError      (also FileNotFoundError)
├── BranchExistsError, GraphExistsError
├── FormatUnsupportedError, ReadOnlyError, GraphClosedError
├── ChangeSchemaBoundaryError, CommitHasNoParentError   states that cannot be told apart row by row
├── ChangeFeedGapError     a feed needs history that was reclaimed
├── ChangeCursorError, ChangeLimitError, ChangeValueError
├── ExportTargetError, ExportTypeError   an export that cannot be made as asked
├── ExportManifestError, ExportDamagedError   an exported folder that cannot be read back
├── ProfileMissingError, AliasMissingError   (also KeyError)
├── ScopeUnsupportedError  a graph of a server or a cluster
├── SparkMissingError      (also ImportError)
├── JavaMissingError, JavaTooOldError, SparkStartError, SparkWorkerError   a Spark that cannot run our code
├── SparkUnsupportedError, SparkJobError   what Spark cannot do, and jobs that failed
└── DiagnosticError        a finding with a place in a source text
    ├── SourceEncodingError, ConfigError
    ├── SchemaSyntaxError, SchemaCheckError, SchemaPlanError
    └── QuerySyntaxError, QueryTypeError, QueryMeaningError
"""

from omnigraph.errors.base import OmnigraphError, Row
from omnigraph.errors.changes import (
    ChangeCursorError,
    ChangeFeedGapError,
    ChangeLimitError,
    ChangeSchemaBoundaryError,
    ChangeValueError,
    CommitHasNoParentError,
    DiffRefusal,
    FeedGap,
)
from omnigraph.errors.config import AliasMissingError, ConfigError, ProfileMissingError, ScopeUnsupportedError
from omnigraph.errors.details import (
    BadValue,
    Details,
    Diagnostic,
    ExistingKeys,
    FormatMismatch,
    HeadMoved,
    LimitExceeded,
    MissingThing,
    ParameterProblem,
    Place,
    StorageFault,
    TableRef,
    UnknownOutcome,
)
from omnigraph.errors.embedding import (
    EmbeddingAnswerError,
    EmbeddingDeadlineError,
    EmbeddingLibraryError,
    EmbeddingModelMismatchError,
    EmbeddingRefusedError,
    EmbeddingSettingsError,
    EmbeddingUnavailableError,
    ModelMismatch,
    ProviderFault,
)
from omnigraph.errors.engine import (
    BadRowsError,
    ConstraintViolationError,
    ExternalBlobError,
    MemoryBudgetError,
    Violation,
    Violations,
)
from omnigraph.errors.export import ExportDamagedError, ExportManifestError, ExportTargetError, ExportTypeError
from omnigraph.errors.general import (
    FailpointError,
    FileAccessError,
    FileMissingError,
    InternalError,
    UsageError,
    ValueFormatError,
)
from omnigraph.errors.history import (
    BranchClosingError,
    BranchInUse,
    BranchInUseError,
    GoneState,
    HistoryGoneError,
    MergeBaseMissingError,
    MergeConflict,
    MergeConflicts,
    MergeConflictsError,
    ReadSetChange,
    ReadSetChangedError,
    RevertRefusedError,
    TagExistsError,
    TagMissingError,
)
from omnigraph.errors.kinds import Effect, Kind, Retry
from omnigraph.errors.language import (
    CatalogCorruptError,
    CatalogFormatError,
    DiagnosticError,
    QueryLaneError,
    QueryMeaningError,
    QueryNotFoundError,
    QueryParameterError,
    QuerySyntaxError,
    QueryTypeError,
    SchemaCheckError,
    SchemaPlanError,
    SchemaSyntaxError,
    SourceEncodingError,
    SourceTooLargeError,
    render_diagnostic,
)
from omnigraph.errors.query import (
    QueryCancelledError,
    QueryMemoryError,
    QueryRowLimitError,
    QueryRuntimeError,
    QueryTimeoutError,
)
from omnigraph.errors.registry import BY_CODE, CLASSES, error_from_json
from omnigraph.errors.results import LibraryMissingError, ResultSpentError, ResultWithoutNodesError, ViewTooLargeError
from omnigraph.errors.spark import (
    JavaMissingError,
    JavaTooOldError,
    JobFault,
    SparkJobError,
    SparkMissingError,
    SparkStartError,
    SparkUnsupportedError,
    SparkWorkerError,
    WorkerFault,
)
from omnigraph.errors.storage import (
    AlreadyExistsError,
    CompareAndSwapLostError,
    ForkedProcessError,
    ForkOccupiedError,
    KeyExistsError,
    OutcomeUnknownError,
    StorageCorruptError,
    StorageDeniedError,
    StorageUnauthenticatedError,
    StorageUnavailableError,
    TableMissingError,
    TableMovedError,
    VersionMissingError,
)
from omnigraph.errors.txn import (
    BatchRepeatedError,
    BranchExistsError,
    BranchMissingError,
    ClaimBusyError,
    ClaimHeld,
    CommitMissingError,
    CommitOutcome,
    ExpectedVersionMismatchError,
    FormatRange,
    FormatUnsupportedError,
    GraphClosedError,
    GraphExistsError,
    GraphMissingError,
    GraphReplacedError,
    HeadMismatch,
    ManifestCorruptError,
    PreconditionFailedError,
    ReadOnlyError,
    RecoveryInvariantError,
    RepeatedBatch,
    SchemaMovedError,
    SidecarCorruptError,
    TableDrift,
    TableDriftError,
    TypeMissingError,
    VersionMismatch,
    WriteOutcomeError,
    WriteSweptError,
)

__all__ = [
    "BY_CODE",
    "CLASSES",
    "AliasMissingError",
    "AlreadyExistsError",
    "BadRowsError",
    "BadValue",
    "BatchRepeatedError",
    "BranchClosingError",
    "BranchExistsError",
    "BranchInUse",
    "BranchInUseError",
    "BranchMissingError",
    "CatalogCorruptError",
    "CatalogFormatError",
    "ChangeCursorError",
    "ChangeFeedGapError",
    "ChangeLimitError",
    "ChangeSchemaBoundaryError",
    "ChangeValueError",
    "ClaimBusyError",
    "ClaimHeld",
    "CommitHasNoParentError",
    "CommitMissingError",
    "CommitOutcome",
    "CompareAndSwapLostError",
    "ConfigError",
    "ConstraintViolationError",
    "Details",
    "Diagnostic",
    "DiagnosticError",
    "DiffRefusal",
    "Effect",
    "EmbeddingAnswerError",
    "EmbeddingDeadlineError",
    "EmbeddingLibraryError",
    "EmbeddingModelMismatchError",
    "EmbeddingRefusedError",
    "EmbeddingSettingsError",
    "EmbeddingUnavailableError",
    "ExistingKeys",
    "ExpectedVersionMismatchError",
    "ExportDamagedError",
    "ExportManifestError",
    "ExportTargetError",
    "ExportTypeError",
    "ExternalBlobError",
    "FailpointError",
    "FeedGap",
    "FileAccessError",
    "FileMissingError",
    "ForkOccupiedError",
    "ForkedProcessError",
    "FormatMismatch",
    "FormatRange",
    "FormatUnsupportedError",
    "GoneState",
    "GraphClosedError",
    "GraphExistsError",
    "GraphMissingError",
    "GraphReplacedError",
    "HeadMismatch",
    "HeadMoved",
    "HistoryGoneError",
    "InternalError",
    "JavaMissingError",
    "JavaTooOldError",
    "JobFault",
    "KeyExistsError",
    "Kind",
    "LibraryMissingError",
    "LimitExceeded",
    "ManifestCorruptError",
    "MemoryBudgetError",
    "MergeBaseMissingError",
    "MergeConflict",
    "MergeConflicts",
    "MergeConflictsError",
    "MissingThing",
    "ModelMismatch",
    "OmnigraphError",
    "OutcomeUnknownError",
    "ParameterProblem",
    "Place",
    "PreconditionFailedError",
    "ProfileMissingError",
    "ProviderFault",
    "QueryCancelledError",
    "QueryLaneError",
    "QueryMeaningError",
    "QueryMemoryError",
    "QueryNotFoundError",
    "QueryParameterError",
    "QueryRowLimitError",
    "QueryRuntimeError",
    "QuerySyntaxError",
    "QueryTimeoutError",
    "QueryTypeError",
    "ReadOnlyError",
    "ReadSetChange",
    "ReadSetChangedError",
    "RecoveryInvariantError",
    "RepeatedBatch",
    "ResultSpentError",
    "ResultWithoutNodesError",
    "Retry",
    "RevertRefusedError",
    "Row",
    "SchemaCheckError",
    "SchemaMovedError",
    "SchemaPlanError",
    "SchemaSyntaxError",
    "ScopeUnsupportedError",
    "SidecarCorruptError",
    "SourceEncodingError",
    "SourceTooLargeError",
    "SparkJobError",
    "SparkMissingError",
    "SparkStartError",
    "SparkUnsupportedError",
    "SparkWorkerError",
    "StorageCorruptError",
    "StorageDeniedError",
    "StorageFault",
    "StorageUnauthenticatedError",
    "StorageUnavailableError",
    "TableDrift",
    "TableDriftError",
    "TableMissingError",
    "TableMovedError",
    "TableRef",
    "TagExistsError",
    "TagMissingError",
    "TypeMissingError",
    "UnknownOutcome",
    "UsageError",
    "ValueFormatError",
    "VersionMismatch",
    "VersionMissingError",
    "ViewTooLargeError",
    "Violation",
    "Violations",
    "WorkerFault",
    "WriteOutcomeError",
    "WriteSweptError",
    "error_from_json",
    "render_diagnostic",
]
