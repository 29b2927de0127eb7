"""Readers of files: each turns the bytes of one format into tables of typed columns."""
