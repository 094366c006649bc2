"""`tidegate dlq`: the messages that could not become rows."""
