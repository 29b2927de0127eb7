"""The backend for an event loop, which the one for threads is generated from."""
