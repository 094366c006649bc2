"""`tidegate doctor`: the problems with Kafka, Postgres and this machine, and their remedies."""
