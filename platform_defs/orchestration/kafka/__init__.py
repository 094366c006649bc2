"""What Dagster shows of Kafka itself: the consumer groups that read topics."""
