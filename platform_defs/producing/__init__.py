"""The guarantees of a producer, and the options of librdkafka behind them. Pure: no client is imported here."""
