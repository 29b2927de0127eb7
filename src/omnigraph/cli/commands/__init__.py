"""The commands, one folder per subject and one file per group."""
