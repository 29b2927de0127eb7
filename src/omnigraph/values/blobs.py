"""Blobs as texts and as stored bytes: content, or a reference to an object outside of the graph.

A table stores a reference as a mark and the address behind it. Bytes that come in and begin with the mark are a
reference too, and meet the same rules as an address, so that no content can pass for one.
"""

from __future__ import annotations

import base64

INLINE_BLOB = "base64:"
"""How the text of a Blob begins that holds its content; any other text is an address."""

EXTERNAL_MARK = b"\x00omnigraph:external-blob\x00"
"""How the stored bytes of a reference begin."""

MAX_ADDRESS_BYTES = 8192
"""The longest address that a reference holds: longer stored bytes are content, whatever they begin with."""


def reference_to(address: str) -> bytes:
    """Return what a table stores for a reference to an object outside of the graph.

    >>> external_address(reference_to("s3://files/a.pdf"))
    's3://files/a.pdf'
    """
    return EXTERNAL_MARK + address.encode()


def external_address(stored: bytes) -> str | None:
    """Return the address that stored bytes refer to; None when they are content.

    >>> external_address(b"content") is None
    True
    """
    if not stored.startswith(EXTERNAL_MARK) or len(stored) > len(EXTERNAL_MARK) + MAX_ADDRESS_BYTES:
        return None
    try:
        return stored[len(EXTERNAL_MARK) :].decode()
    except UnicodeDecodeError:
        return None


def blob_text(stored: bytes) -> str:
    """Return stored bytes as the text that a load takes: content in base64, or an address.

    >>> blob_text(b"ok"), blob_text(reference_to("s3://files/a.pdf"))
    ('base64:b2s=', 's3://files/a.pdf')
    """
    return external_address(stored) or inline_text(stored)


def inline_text(content: bytes | bytearray | memoryview) -> str:
    """Return content as text.

    >>> inline_text(b"")
    'base64:'
    """
    return INLINE_BLOB + base64.b64encode(content).decode()


def stored_blob(text: str) -> bytes:
    """Return the stored bytes that :func:`blob_text` has made a text of.

    >>> stored_blob("base64:b2s=")
    b'ok'
    """
    if text.startswith(INLINE_BLOB):
        return base64.b64decode(text[len(INLINE_BLOB) :])
    return reference_to(text)
