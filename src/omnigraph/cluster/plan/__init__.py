"""Plans: what differs between what a config declares and what the ledger says, and what may be done about it."""
