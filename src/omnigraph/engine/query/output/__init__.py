"""What follows the match: grouping, ranking, ordering, and the columns of the result."""
