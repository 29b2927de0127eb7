"""The ASGI application: routes, the answers to errors, and what stands around them."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from omnigraph.errors import InternalError, OmnigraphError
from omnigraph.server.control.metrics import CONTENT_TYPE
from omnigraph.server.errors import error_body, error_headers, is_internal, plain_body, status_of
from omnigraph.server.middleware import Around, is_our_client, log_internal
from omnigraph.server.routes import (
    agents,
    blobs,
    branches,
    changes,
    commits,
    exports,
    health,
    loads,
    maintenance,
    mutations,
    operations,
    queries,
    readiness,
    schemas,
)
from omnigraph.server.service import Service, answer

GROUPS = (
    health,
    readiness,
    queries,
    mutations,
    loads,
    exports,
    branches,
    commits,
    changes,
    schemas,
    blobs,
    maintenance,
    operations,
    agents,
)
_MESSAGES = {404: "no such path", 405: "the path does not take this method"}


def create_app(service: Service) -> ASGIApp:
    """Return the application that serves the graphs of a service."""
    # The checked-in document describes the routes; what the framework would make of them is not asked for.
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.service = service
    for group in GROUPS:
        app.include_router(group.router)
    app.add_exception_handler(OmnigraphError, _answer_error)
    app.add_exception_handler(HTTPException, _answer_refusal)
    app.add_exception_handler(Exception, _answer_bug)
    return Around(app, service)


def metrics_app(service: Service) -> ASGIApp:
    """Return the application that shows the figures of a service, and whether it is ready, on an address of its own."""

    async def figures(request: Request) -> Response:
        del request
        return Response(service.control.metrics.text(), media_type=CONTENT_TYPE)

    async def ready(request: Request) -> Response:
        del request
        return readiness.answer_readiness(service, shows_names=True)

    return Starlette(routes=[Route("/metrics", figures), Route("/readyz", ready)])


async def _answer_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, OmnigraphError):
        raise error
    request_id = request.scope["omnigraph.request_id"]
    if is_internal(error):
        log_internal(error, request_id)
    body = error_body(error, request_id, whole=is_our_client(request.scope))
    return answer(body, status=status_of(error), headers=error_headers(error))


async def _answer_bug(request: Request, bug: Exception) -> Response:
    """Answer to what should not happen, as to every error; the layer around the application writes it down."""
    problem = InternalError(f"unexpected {type(bug).__name__}")
    return answer(error_body(problem, request.scope["omnigraph.request_id"]), status=status_of(problem))


async def _answer_refusal(request: Request, error: Exception) -> Response:
    """Answer what the router refuses: unknown paths and methods."""
    if not isinstance(error, HTTPException):
        raise error
    message = _MESSAGES.get(error.status_code, str(error.detail))
    body = plain_body(error.status_code, message, request.scope["omnigraph.request_id"])
    return answer(body, status=error.status_code, headers=error.headers)
