"""Graphs of a server: a backend that sends requests to it, once for threads and once for an event loop."""

from omnigraph.client.address import GraphAddress as GraphAddress
from omnigraph.client.address import is_server_address as is_server_address
from omnigraph.client.settings import ClientSettings as ClientSettings
