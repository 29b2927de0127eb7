"""Bytes in and out: bodies within their limits, uploads, pages, streams and frames."""
