"""Claims: how writers of many processes take turns, and how the claim of a dead one is taken over."""
