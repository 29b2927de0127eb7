"""The routes, one module per group of the HTTP API."""
