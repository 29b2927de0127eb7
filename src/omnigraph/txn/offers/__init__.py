"""Offers: writes that wait, left where whoever publishes next can take them along."""
