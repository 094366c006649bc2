"""A replay in Postgres: built beside the live tables, compared, and swapped in."""
