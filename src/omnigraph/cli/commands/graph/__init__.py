"""Commands that create, check, migrate and maintain a graph."""
