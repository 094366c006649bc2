"""What a producer promises, and the options of librdkafka that keep it. Pure: no client is imported here."""
