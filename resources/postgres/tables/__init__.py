"""Tables in Postgres: their DDL, their live definition, and their rights."""
