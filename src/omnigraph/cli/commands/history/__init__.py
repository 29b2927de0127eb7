"""Commands about branches, commits, tags and the change feed."""
