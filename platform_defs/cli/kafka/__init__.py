"""Commands that work with Kafka itself: topics, consumer groups, single messages."""
