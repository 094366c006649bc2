"""A producer's undelivered messages: searched for in the log, and sent again."""
