"""Binary formats, many messages at once: a cursor in each, and columns of the values that the cursors pass."""
