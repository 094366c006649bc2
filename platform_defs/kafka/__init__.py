"""Consumer groups and messages as values, without a client. Pure."""
