"""Topics, partitions and brokers: observed and changed."""
