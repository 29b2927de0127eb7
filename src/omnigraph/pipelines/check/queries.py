"""What is wrong with the queries, mutations and algorithms of a declaration, against the schema of the graph."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.catalog import Catalog
from omnigraph.engine.algorithms import AlgorithmCall
from omnigraph.engine.algorithms.writing import target_properties
from omnigraph.errors import DiagnosticError, MissingThing, Mistake, OmnigraphError
from omnigraph.ir import compile_query, expect_mutation, expect_read, parameter_types
from omnigraph.pipelines.mistakes import called, near_name, step_mistake
from omnigraph.pipelines.model import AfterStep, CheckStep, Declaration


def query_mistakes(declaration: Declaration, catalog: Catalog) -> Iterator[Mistake]:
    """Yield what is wrong with checks, and with what follows."""
    for check in declaration.checks:
        yield from _check_mistakes(check, catalog)
    for after in declaration.afters:
        if after.mutation is not None:
            yield from _text_mistakes(after, after.mutation, catalog)
        if after.algorithm is not None:
            yield from _algorithm_mistakes(after, catalog)


def _check_mistakes(check: CheckStep, catalog: Catalog) -> Iterator[Mistake]:
    text = check.query
    if check.function is not None:
        found = called(check, check.function)
        if isinstance(found, Mistake):
            yield found
            return
        if not isinstance(found, str):
            what = type(found).__name__
            yield step_mistake(check, f"the function of a check must return the text of a query, not {what}")
            return
        text = found
    if text is not None:
        yield from _text_mistakes(check, text, catalog)


def _text_mistakes(part: CheckStep | AfterStep, text: str, catalog: Catalog) -> Iterator[Mistake]:
    key = "query" if isinstance(part, CheckStep) else "mutation"
    try:
        compiled = compile_query(text, None, catalog)
        if isinstance(part, CheckStep):
            expect_read(compiled)
        else:
            expect_mutation(compiled)
    except DiagnosticError as problem:
        place = problem.details.place
        where = "" if place is None else f", line {place.line}, column {place.column}"
        yield step_mistake(
            part, f"{key} of '{part.name}'{where}: {problem.message}", problem.details.suggestion, key=key
        )
        return
    except OmnigraphError as problem:
        yield step_mistake(part, f"{key} of '{part.name}': {problem.message}", problem.hint, key=key)
        return
    needed = [one.name for one in parameter_types(compiled.decl.parameters) if not one.type.nullable]
    if needed:
        yield step_mistake(part, f"{key} of '{part.name}' needs a value for ${needed[0]}", key=key)


def _algorithm_mistakes(after: AfterStep, catalog: Catalog) -> Iterator[Mistake]:
    told = dict(after.arguments)
    edges = told.pop("edges", None)
    try:
        call = AlgorithmCall.of(after.algorithm, list(edges) if isinstance(edges, tuple) else edges, told)
        call.edge_types(catalog)
        if after.write is not None:
            target_properties(catalog, call, after.write)
    except OmnigraphError as problem:
        hint = problem.hint
        if isinstance(problem.details, MissingThing) and hint is None:
            hint = near_name(problem.details.name, catalog.edges)
        yield step_mistake(after, problem.message, hint, key="algorithm")
        return
    if after.write is None:
        hint = f"such as write={call.algorithm.column or 'score'}"
        yield step_mistake(after, f"'{after.name}' writes nothing: {after.algorithm} needs a property to write", hint)
