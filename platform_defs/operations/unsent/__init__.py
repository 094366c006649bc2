"""A producer's undelivered messages are looked for in the log, and sent again."""
