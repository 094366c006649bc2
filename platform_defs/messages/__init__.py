"""`tidegate peek` and `tidegate send`: messages of a topic, read and written by a user."""
