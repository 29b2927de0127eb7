"""Completion in shells: the words of the command line, and the script that each shell runs to complete them.

A script holds all words, so that a shell completes without starting a process. Only the names that the operator config
defines are asked for, of ``omnigraph completion --names``, which loads no more than that file.
"""
