"""The local backend: executes requests with the engine of this process, one handler per operation."""

from omnigraph.operations.local.backend import LocalBackend as LocalBackend
