"""The only door to Lance and to the object store."""
