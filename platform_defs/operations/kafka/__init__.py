"""Consumer groups, topics and single messages: the operations behind the commands of cli/kafka."""
