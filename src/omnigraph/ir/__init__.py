"""Typed queries: checker, parameters, plans, descriptors and lint; no data is ever looked at here."""

from omnigraph.ir.check import RULES, CheckedQuery, check_query
from omnigraph.ir.compile import CompiledQuery, PlanCache, compile_query, expect_mutation, expect_read
from omnigraph.ir.descriptor import OperationDescriptor, describe_operation
from omnigraph.ir.lint import LintReport, SchemaSource, lint_queries
from omnigraph.ir.lower import lower_query
from omnigraph.ir.parameters import (
    ParameterRows,
    ParameterType,
    ParamsForm,
    bind_parameters,
    decode_call,
    decode_calls,
    decode_parameter_text,
    decode_parameters,
    parameter_types,
)

__all__ = [
    "RULES",
    "CheckedQuery",
    "CompiledQuery",
    "LintReport",
    "OperationDescriptor",
    "ParameterRows",
    "ParameterType",
    "ParamsForm",
    "PlanCache",
    "SchemaSource",
    "bind_parameters",
    "check_query",
    "compile_query",
    "decode_call",
    "decode_calls",
    "decode_parameter_text",
    "decode_parameters",
    "describe_operation",
    "expect_mutation",
    "expect_read",
    "lint_queries",
    "lower_query",
    "parameter_types",
]
