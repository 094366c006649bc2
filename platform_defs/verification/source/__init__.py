"""The sources of the comparison: the topic, read by a plain consumer, and one snapshot of Postgres."""
