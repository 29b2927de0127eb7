"""The OpenAPI document of the routes: written from tables, checked in, and served."""

from omnigraph.server.openapi.document import (
    BASE_LEVEL,
    FULL_LEVEL,
    build_document,
    document_file,
    knows_additions,
    served_document,
)

__all__ = ["BASE_LEVEL", "FULL_LEVEL", "build_document", "document_file", "knows_additions", "served_document"]
