"""The ledger of a cluster: what has been made to exist, and the objects stored beside it."""
