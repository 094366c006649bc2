"""Where producers keep what was not delivered: in Postgres, and in files while that is away."""
