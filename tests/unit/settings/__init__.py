"""Settings, the home folder, Spark and Postgres clients."""
