"""Changes commit by commit: pages, the resumable feed, its baseline, and the history of one entity."""
