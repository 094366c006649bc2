"""Storage for undelivered messages of producers: in Postgres, and in files while Postgres is away."""
