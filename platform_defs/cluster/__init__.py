"""`tidegate cluster`: health and skew of the brokers, elections, and the reassignment of replicas."""
