"""Branches and tags: their refs, who depends on whom, and how they begin and end."""
