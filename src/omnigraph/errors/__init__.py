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
└── DiagnosticError        a finding with a place in a source text
    ├── SourceEncodingError
    ├── SchemaSyntaxError, SchemaCheckError, SchemaPlanError
    └── QuerySyntaxError, QueryTypeError, QueryMeaningError
"""

from omnigraph.errors.base import OmnigraphError, Row
from omnigraph.errors.details import (
    BadValue,
    Details,
    Diagnostic,
    FormatMismatch,
    LimitExceeded,
    MissingThing,
    ParameterProblem,
    Place,
)
from omnigraph.errors.general import (
    FailpointError,
    FileAccessError,
    FileMissingError,
    InternalError,
    UsageError,
    ValueFormatError,
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
from omnigraph.errors.registry import BY_CODE, CLASSES, error_from_json

__all__ = [
    "BY_CODE",
    "CLASSES",
    "BadValue",
    "CatalogCorruptError",
    "CatalogFormatError",
    "Details",
    "Diagnostic",
    "DiagnosticError",
    "Effect",
    "FailpointError",
    "FileAccessError",
    "FileMissingError",
    "FormatMismatch",
    "InternalError",
    "Kind",
    "LimitExceeded",
    "MissingThing",
    "OmnigraphError",
    "ParameterProblem",
    "Place",
    "QueryLaneError",
    "QueryMeaningError",
    "QueryNotFoundError",
    "QueryParameterError",
    "QuerySyntaxError",
    "QueryTypeError",
    "Retry",
    "Row",
    "SchemaCheckError",
    "SchemaPlanError",
    "SchemaSyntaxError",
    "SourceEncodingError",
    "SourceTooLargeError",
    "UsageError",
    "ValueFormatError",
    "error_from_json",
    "render_diagnostic",
]
