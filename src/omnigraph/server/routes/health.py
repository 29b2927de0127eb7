"""Routes about the server itself: whether it lives, and which graphs it serves."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from omnigraph import __version__
from omnigraph.server.service import answer
from omnigraph.values.formats import STORAGE_FORMAT

router = APIRouter()


@router.get("/healthz")
async def health(request: Request) -> Response:
    """Answer that the process lives."""
    del request
    return answer({"status": "ok", "version": __version__, "internal_schema_version": STORAGE_FORMAT})
