"""The steps of declared pipelines, as Spark sees them."""
