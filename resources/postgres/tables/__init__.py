"""Tables in Postgres: their DDL, what they really are, and who may use them."""
