"""Agents and the tools that they are offered: the SDK's client against real processes and servers."""
