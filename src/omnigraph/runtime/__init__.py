"""Time, randomness, ids, failpoints and counters, injected so that tests can own them."""
