"""Publishing: from a transaction to a commit that every reader sees."""
