"""Parameter declarations."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from omnigraph.catalog.model import Catalog, PropertyType
from omnigraph.ir.check.scope import Scope
from omnigraph.ir.model import NOW_PARAMETER
from omnigraph.ir.types import MAX_DIMENSION, resolve_type
from omnigraph.lang.gq import ast
from omnigraph.lang.source import Source


def check_parameters(decl: ast.QueryDecl, catalog: Catalog, source: Source) -> Mapping[str, PropertyType]:
    """Return the declared types by name, in declaration order."""
    types: dict[str, PropertyType] = {}
    scope = Scope(catalog=catalog, source=source, parameters=types)
    for parameter in decl.parameters:
        name = parameter.name
        if name == NOW_PARAMETER:
            raise scope.violation(None, f"parameter name '${name}' is reserved", parameter.span)
        if name == ast.ANONYMOUS:
            message = "a parameter needs a name, '$_' is the anonymous variable"
            raise scope.violation(None, message, parameter.span)
        if name in types:
            raise scope.violation(None, f"parameter '${name}' is declared twice", parameter.span)
        resolved = resolve_type(parameter.type)
        if resolved is None:
            raise scope.violation(None, _unknown(parameter), parameter.type.span)
        types[name] = resolved
    return MappingProxyType(types)


def _unknown(parameter: ast.Parameter) -> str:
    written = parameter.type
    if written.scalar == "Vector" and not written.is_list:
        bounds = f"a vector has 1 to {MAX_DIMENSION} dimensions"
        return f"parameter '${parameter.name}' has no usable type, {bounds}: dimension={written.dimension}"
    shown = f"[{written.scalar}]" if written.is_list else written.scalar
    return f"parameter '${parameter.name}' has an unknown type: type={shown}"
