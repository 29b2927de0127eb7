"""The schema language."""
