"""Version numbers of what is stored, each declared here and nowhere else."""

from __future__ import annotations

# Stamped on every manifest; it moves only when the layout of a graph does.
STORAGE_FORMAT = 1
