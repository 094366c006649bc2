"""The schema `tidegate` in Postgres: its versions (`schema/`), and what is read from it."""
