"""`tidegate verify`: the tables against the topic, message by message, by readers of its own."""
