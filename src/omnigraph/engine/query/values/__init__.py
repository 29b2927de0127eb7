"""Values of rows: predicates on them, exact comparison, and what storage can be asked."""
