"""Typed queries: checker, parameters, intermediate form."""
