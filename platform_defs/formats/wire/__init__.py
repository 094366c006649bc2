"""Binary formats, many messages at once: a cursor in each, and columns of what the cursors pass."""
