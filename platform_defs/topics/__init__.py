"""`tidegate topics`: topics as contracts and topics.yaml declare them, planned and applied."""
