"""The compiled schema: types, identities, migration planning."""
