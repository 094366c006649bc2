"""Consumer groups, topics and single messages: what the commands of cli/kafka do."""
