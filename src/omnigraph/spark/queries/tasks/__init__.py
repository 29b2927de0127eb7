"""What runs in workers: tasks over rows that carry their values, and how rows travel."""
