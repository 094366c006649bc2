"""A batch in Postgres: lease, staging, audit and the publishing transaction."""
