"""The Spark job of a batch: transform, staging, limits, and the search for bad messages."""
