"""The backend for threads: generated from the one for an event loop by ``tools/generate_twins.py``."""
