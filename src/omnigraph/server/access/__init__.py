"""Who asks, and what they may do: tokens, an identity provider, and the policies that decide."""
