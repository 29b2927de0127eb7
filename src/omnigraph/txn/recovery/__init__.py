"""Recovery: ending the publishes of writers that are gone."""
