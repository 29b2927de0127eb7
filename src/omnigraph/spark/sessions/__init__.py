"""Sessions of Spark: started, found, checked, ended."""
