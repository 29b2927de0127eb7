"""Typed queries: checker, parameters, plans and descriptors; no data is ever looked at here.

What no query needs to be run is imported from its own module: ``omnigraph.ir.lint``.
"""

from omnigraph.ir.check import RULES, CheckedQuery, check_query
from omnigraph.ir.compile import CompiledQuery, PlanCache, compile_query, expect_mutation, expect_read
from omnigraph.ir.descriptor import OperationDescriptor, describe_operation
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
    "OperationDescriptor",
    "ParameterRows",
    "ParameterType",
    "ParamsForm",
    "PlanCache",
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
    "lower_query",
    "parameter_types",
]
