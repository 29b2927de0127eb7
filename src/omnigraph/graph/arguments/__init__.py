"""What calls are given, as people give it: texts or files, moments, rows and sources of a load."""
