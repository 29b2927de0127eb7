"""Projections: structures derived from tables, kept in files of plain arrays that are mapped into memory."""
