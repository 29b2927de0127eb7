"""What a load is given: sources with their dialects and mappings, and values in memory."""
