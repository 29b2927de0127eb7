"""The HTTP server: a team's graphs over the network, with identities and policy."""
